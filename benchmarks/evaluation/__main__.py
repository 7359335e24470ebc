"""`python -m benchmarks.evaluation`: score sessions, compare two runs, and fail on a regression."""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from temporalio.client import Client

from benchmarks import processes
from benchmarks.evaluation.dataset import Dataset, read_datasets
from benchmarks.evaluation.fanoutqa import read_fanoutqa
from benchmarks.evaluation.results import Evaluated, Results, differences, regressions, summary
from benchmarks.evaluation.sessions import Variant, evaluate
from benchmarks.tables import show
from chargehand.converter import data_converter


async def _run(datasets: Mapping[str, Dataset], chosen: argparse.Namespace) -> list[Evaluated]:
    found: list[Evaluated] = []
    with tempfile.TemporaryDirectory(prefix="chargehand-eval-") as name, processes.server(Path(name)) as server:
        client = await Client.connect(server.address, data_converter=data_converter())
        for dataset in datasets.values():
            backend = chosen.on or dataset.offline
            variant = Variant(chosen.crew, chosen.profile, chosen.shape)
            scores = await evaluate(client, Path(name), dataset, backend, repetitions=chosen.repeat, variant=variant)
            found.append(Evaluated(dataset=dataset.name, backend=backend, scores=tuple(scores)))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="DATASET", help="all of datasets/ by default")
    parser.add_argument(
        "--on", choices=["tape", "oracle", "configured"], help="who answers; by default as the dataset says"
    )
    parser.add_argument(
        "--fanoutqa", type=Path, metavar="FILE", help="evaluate FanOutQA's development questions instead"
    )
    parser.add_argument("--first", type=int, metavar="N", help="only the first cases of each dataset")
    parser.add_argument("--crew", help="another crew than the cases name")
    parser.add_argument("--profile", choices=["quick", "standard", "deep"], help="other limits than the cases name")
    parser.add_argument(
        "--shape",
        choices=["flat", "fan-out"],
        default="flat",
        help="the oracle's plans: all subtasks at once, or templates for those that are asked of each item of a list",
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="K", help="run every case so often, and report pass^K")
    parser.add_argument("--cases", action="store_true", help="show every case that did not pass")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the scores as JSON")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="compare with kept scores, case by case")
    parser.add_argument("--gate", type=Path, metavar="FILE", help="exit with 1 if something is worse than kept scores")
    return parser


def main() -> int:
    """Evaluate, show, keep, compare; 1 if the gate is shut."""
    chosen = _parser().parse_args()
    datasets = {"fanoutqa": read_fanoutqa(chosen.fanoutqa)} if chosen.fanoutqa else read_datasets(chosen.names)
    if chosen.first:
        datasets = {
            name: each.model_copy(update={"cases": each.cases[: chosen.first]}) for name, each in datasets.items()
        }
    found = asyncio.run(_run(datasets, chosen))
    command = f"python -m benchmarks.evaluation {' '.join(sys.argv[1:])}".rstrip()
    show("Evaluation: averages over the cases", command, [summary(each, chosen.repeat) for each in found])
    if chosen.cases:
        failed = [each for one in found for each in one.scores if not each.passed]
        print(*(each.model_dump_json(exclude_none=True) for each in failed), sep="\n")
    if chosen.save:
        results = Results(at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", command=command, evaluated=tuple(found))
        chosen.save.write_text(json.dumps(results.model_dump(mode="json", exclude_defaults=True), indent=1) + "\n")
    if chosen.compare:
        show("Compared, case by case", command, differences(_kept(chosen.compare), found))
    if not chosen.gate:
        return 0
    earlier = {each.dataset: each for each in _kept(chosen.gate).evaluated}
    worse = [
        problem for each in found if each.dataset in earlier for problem in regressions(earlier[each.dataset], each)
    ]
    print(*(f"REGRESSION {problem}" for problem in worse), sep="\n") if worse else print("No regression.")
    return 1 if worse else 0


def _kept(file: Path) -> Results:
    return Results.model_validate_json(file.read_bytes())


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the SDK's own threads can abort a process that ends the ordinary way
