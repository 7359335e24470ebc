"""`python -m benchmarks.evaluation`: score sessions by their answers, compare two runs, and fail on a regression."""

import argparse
import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

from temporalio.client import Client

from activities.backends import SettingsError
from activities.models.tiers import DEFAULT_MODELS
from benchmarks import processes
from benchmarks.evaluation.dataset import DESKS, Backend, Dataset, NoDataset, read_datasets
from benchmarks.evaluation.desks.checkout import TAU2
from benchmarks.evaluation.desks.desk import read_desk
from benchmarks.evaluation.desks.runs import DeskJob, run_desk
from benchmarks.evaluation.estimate import estimate
from benchmarks.evaluation.fanoutqa import read_fanoutqa
from benchmarks.evaluation.judge import CALIBRATION, Judge, calibrate, open_judge, read_calibration
from benchmarks.evaluation.results import (
    Evaluated,
    ResultsFile,
    RunLine,
    ScoreLine,
    SettingDiffers,
    WrongFile,
    differences,
    read_results,
    regressions,
    summary,
)
from benchmarks.evaluation.review_comments import MissingDiffs, read_review_comments
from benchmarks.evaluation.scores import Scores
from benchmarks.evaluation.sessions import Job, Variant, evaluate
from benchmarks.evaluation.spending import NotAffordable, Spending
from benchmarks.evaluation.variants import try_scoring
from benchmarks.tables import show
from chaos.__main__ import quiet
from chargehand.contracts import Tier
from chargehand.converter import data_converter
from worker.composition import choose
from worker.settings import Settings


async def _run(jobs: Sequence[Job], desks: Sequence[DeskJob], chosen: argparse.Namespace, results: ResultsFile) -> str:
    """Run all jobs, and return why some cases did not run."""
    spending = Spending(chosen.max_usd, sum((_usd(each.score) for each in results.lines), Decimal(0)))
    async with AsyncExitStack() as closing:
        judged = _models().values() if any(job.backend == "configured" for job in (*jobs, *desks)) else ()
        judge = await closing.enter_async_context(open_judge(chosen.judge, judged)) if chosen.judge else None
        try:
            if jobs:
                await _run_sessions(jobs, results, spending, judge)
            for job in desks:
                keep = partial(_keep, results, job.desk.name, job.backend)
                figures = await run_desk(
                    replace(job, user=judge if job.backend == "configured" else None), keep, spending
                )
                if chosen.faults is not None:
                    show(f"Faults at {job.desk.name}", _command(), [figures])
        except NotAffordable as reason:
            return f"Not all cases were run: {reason} Go on with --resume and a higher --max-usd."
        except TimeoutError as reason:
            return f"Not all cases were run: {reason}. Go on with --resume."
    return ""


async def _run_sessions(jobs: Sequence[Job], results: ResultsFile, spending: Spending, judge: Judge | None) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="chargehand-eval-") as temporary,
        processes.server(Path(temporary)) as server,
    ):
        client = await Client.connect(server.address, data_converter=data_converter())
        for job in jobs:
            keep = partial(_keep, results, job.dataset.name, job.backend)
            await evaluate(client, Path(temporary), job, keep, spending=spending, judge=judge)


def _keep(results: ResultsFile, dataset: str, backend: Backend, scores: Scores) -> None:
    results.append(ScoreLine(dataset=dataset, backend=backend, score=scores))


def _usd(scores: Scores) -> Decimal:
    return scores.usd + scores.judge_usd


async def _calibrate(chosen: argparse.Namespace) -> None:
    graded = read_calibration(chosen.calibrate)
    rows = [await calibrate(graded)]
    if chosen.judge:
        async with open_judge(chosen.judge) as judge:
            rows.append(await calibrate(graded, judge))
    show("Agreement with the grades of people", _command(), rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="DATASET", help="a dataset, or a file or folder of your own; all of datasets/"
    )
    parser.add_argument(
        "--on", choices=["tape", "oracle", "configured"], help="who answers; by default as the dataset says"
    )
    parser.add_argument("--fanoutqa", type=Path, metavar="FILE", help="FanOutQA's development questions instead")
    parser.add_argument("--review-comments", type=Path, metavar="FOLDER", help="Martian's golden comments instead")
    parser.add_argument("--tau2", type=Path, metavar="FOLDER", help="the desks of a checkout of tau2-bench instead")
    parser.add_argument(
        "--faults", type=int, metavar="SEED", help="kill workers and the server while conversations run, at random"
    )
    parser.add_argument("--first", type=_count, metavar="N", help="only the first cases of each dataset")
    parser.add_argument("--crew", help="another crew than the cases name")
    parser.add_argument("--profile", choices=["quick", "standard", "deep"], help="other limits than the cases name")
    parser.add_argument(
        "--shape",
        choices=["flat", "fan-out", "single", "reworded"],
        default="flat",
        help="the oracle's plans: all gold subtasks; templates for each item of a list; one subtask; other words",
    )
    parser.add_argument(
        "--repeat", type=_count, default=1, metavar="K", help="run every case so often, and report pass^K"
    )
    parser.add_argument("--judge", metavar="PROVIDER:MODEL", help="a model that judges where code is not sure")
    parser.add_argument(
        "--calibrate",
        type=Path,
        nargs="?",
        const=CALIBRATION,
        metavar="FILE",
        help="only compare code, and the judge, with graded answers",
    )
    parser.add_argument("--estimate", action="store_true", help="only say what it would cost, by model")
    parser.add_argument("--variants", action="store_true", help="only try the scoring on forms of the golden answers")
    parser.add_argument("--max-usd", type=_dollars, metavar="USD", help="start no case that could pass this sum")
    parser.add_argument("--cases", action="store_true", help="show every case that did not pass")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--save", type=Path, metavar="FILE", help="keep each score as its case ends, as JSON lines")
    kept.add_argument("--resume", type=Path, metavar="FILE", help="go on with such a file, or begin it")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="compare with kept scores, case by case")
    parser.add_argument("--gate", type=Path, metavar="FILE", help="exit with 1 if something is worse than kept scores")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number from 1")
    return int(text)


def _dollars(text: str) -> Decimal:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not Decimal(text):
        raise argparse.ArgumentTypeError(f"{text} is no sum of dollars above 0")
    return Decimal(text)


def main() -> int:
    """Evaluate, print, save, compare; 1 if the gate fails, 2 if nothing can run, 3 if cases were skipped."""
    chosen = _parser().parse_args()
    try:
        if chosen.calibrate:
            asyncio.run(_calibrate(chosen))
            return 0
        jobs, desks = _jobs(chosen), _desks(chosen)
        earlier = {file: read_results(file) for file in (chosen.compare, chosen.gate) if file}
        if chosen.variants:
            rows = [try_scoring(job.dataset) for job in jobs]
            show("Golden answers in other forms, and with one thing wrong", _command(), rows)
            return 0
        if chosen.estimate:
            show("Estimate: every turn by this model", _command(), estimate(jobs, desks))
            return 0
        if chosen.resume and not chosen.resume.exists():
            print(f"{chosen.resume} does not exist: a new run begins.", file=sys.stderr)
        results = ResultsFile(chosen.resume or chosen.save)
        results.begin(_begun(chosen, (*jobs, *desks)), resume=chosen.resume is not None)
        if chosen.faults is not None:
            quiet()
        desks = [replace(job, done=results.done(job.desk.name)) for job in desks]
        left = asyncio.run(_run([_left(job, results) for job in jobs], desks, chosen, results))
    except (MissingDiffs, NoDataset, SettingDiffers, SettingsError, WrongFile, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    worse = _show(chosen, results, earlier)
    if left:
        print(left, file=sys.stderr)
    return 3 if left else worse


def _jobs(chosen: argparse.Namespace) -> list[Job]:
    variant = Variant(chosen.crew, chosen.profile, chosen.shape)
    return [
        Job(dataset, chosen.on or dataset.offline, chosen.repeat, variant) for dataset in _datasets(chosen).values()
    ]


def _datasets(chosen: argparse.Namespace) -> Mapping[str, Dataset]:
    names = [each for each in chosen.names if each not in {*DESKS, *TAU2}]
    if chosen.tau2 or (chosen.names and not names):
        datasets = []
    elif chosen.fanoutqa:
        datasets = [read_fanoutqa(chosen.fanoutqa)]
    elif chosen.review_comments:
        datasets = [read_review_comments(chosen.review_comments)]
    else:
        datasets = list(read_datasets(names).values())
    cases = slice(chosen.first or None)
    return {each.name: each.model_copy(update={"cases": each.cases[cases]}) for each in datasets}


def _desks(chosen: argparse.Namespace) -> list[DeskJob]:
    """Choose the desks: those named, or all of them if the run includes everything."""
    known = tuple(TAU2) if chosen.tau2 else DESKS
    names = [each for each in known if each in chosen.names]
    runs_all = not (chosen.names or chosen.fanoutqa or chosen.review_comments)
    backend: Backend = chosen.on or "oracle"
    if not names and (backend == "oracle" or (backend == "configured" and chosen.judge)) and runs_all:
        names = [*known]
    if names and backend == "tape":
        raise NoDataset("Conversations have no tapes: use --on oracle or --on configured.")
    if names and backend == "configured" and not chosen.judge:
        raise NoDataset("The model of --judge plays the customers: name one.")
    read = [read_desk(name, chosen.tau2) for name in names]
    firsts = [replace(each, tasks=each.tasks[slice(chosen.first or None)]) for each in read]
    return [DeskJob(each, chosen.tau2, backend, chosen.repeat, chosen.faults) for each in firsts]


def _left(job: Job, results: ResultsFile) -> Job:
    """Drop the cases that the resumed run has already scored."""
    return replace(job, done=results.done(job.dataset.name))


def _begun(chosen: argparse.Namespace, jobs: Sequence[Job | DeskJob]) -> RunLine:
    """Describe a run by the values that must be the same when it is resumed."""
    setting = {name: str(getattr(chosen, name) or "") for name in ("on", "crew", "profile", "shape", "judge")}
    if chosen.faults is not None:
        setting["faults"] = str(chosen.faults)
    if any(job.backend == "configured" for job in jobs):
        setting["models"] = ", ".join(f"{tier}: {name}" for tier, name in sorted(_models().items())) or "offline"
    return RunLine(run=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", command=_command(), setting=setting)


def _models() -> dict[Tier, str]:
    """Return the models in this machine's settings, by tier."""
    settings = Settings()
    return {**DEFAULT_MODELS.get(choose(settings)["model"].adapter, {}), **settings.models}


def _show(chosen: argparse.Namespace, results: ResultsFile, kept: Mapping[Path, list[Evaluated]]) -> int:
    evaluated = results.evaluated
    show("Evaluation: averages over the cases", _command(), [summary(each, chosen.repeat) for each in evaluated])
    if chosen.cases:
        failed = [each for one in evaluated for each in one.scores if not each.passed]
        print(*(each.model_dump_json(exclude_none=True) for each in failed), sep="\n")
    if chosen.compare:
        show("Compared, case by case", _command(), differences(kept[chosen.compare], evaluated))
    if not chosen.gate:
        return 0
    earlier = {each.dataset: each for each in kept[chosen.gate]}
    worse = [
        problem for each in evaluated if each.dataset in earlier for problem in regressions(earlier[each.dataset], each)
    ]
    print(*(f"REGRESSION {problem}" for problem in worse), sep="\n") if worse else print("No regression.")
    return 1 if worse else 0


def _command() -> str:
    return f"python -m benchmarks.evaluation {' '.join(sys.argv[1:])}".rstrip()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the SDK's own threads can abort a process that exits normally
