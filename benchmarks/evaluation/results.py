"""The scores of a run: saved as each case ends, averaged, compared, and checked for regressions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Final, cast

from pydantic import BaseModel, ValidationError

from benchmarks.evaluation.scores import Scores
from benchmarks.evaluation.statistics import Comparison, compare, pass_hat
from benchmarks.tables import Row

_LESS_IS_BETTER: Final = frozenset({"turns", "usd", "seconds", "forced", "truncated"})
_MEASURES: Final = (
    *("passed", "answer", "completed", "plan_valid", "nodes", "edges", "executed", "routed", "citations"),
    *("gaps_named", "turns", "usd", "seconds", "forced", "truncated"),
)
_DEARER: Final = 1.1
"""Growth in turns and dollars that counts as a regression."""
_SIGNIFICANT: Final = 0.05


class Evaluated(BaseModel):
    """The scores of a dataset."""

    dataset: str
    backend: str
    scores: tuple[Scores, ...]

    def measured(self, measure: str) -> dict[str, float]:
        """Average a measure over the repetitions of each case that has it."""
        values: dict[str, list[float]] = {}
        for each in self.scores:
            if (value := getattr(each, measure)) is not None:
                values.setdefault(each.case, []).append(float(value))
        return {case: mean(found) for case, found in values.items()}


class RunLine(BaseModel):
    """The first line of a file: what the run evaluates."""

    run: str
    """When it began."""
    command: str
    setting: Mapping[str, str]
    """What must match for a run to be resumed: models, judge, crew, profile, shape."""


class ScoreLine(BaseModel):
    """The line of one case."""

    dataset: str
    backend: str
    score: Scores


class SettingDiffers(ValueError):  # noqa: N818  # reads as a statement
    """The existing results are from another setting."""


class WrongFile(ValueError):  # noqa: N818  # reads as a statement
    """A file does not contain what it should."""


class ResultsFile:
    """Results as JSON lines, each written as its case ends, so that a stopped run loses nothing."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.lines: list[ScoreLine] = []

    def begin(self, run: RunLine, *, resume: bool) -> None:
        """Begin a file, or resume one.

        Raises:
            SettingDiffers: the file is from another setting.
            WrongFile: it contains no results, or would lose results that were paid for.
        """
        if self.file is None:
            return
        if not resume and self.file.exists() and self.file.stat().st_size:
            kept_lines = read_lines(self.file)[1]
            paid = sum(each.score.usd + each.score.judge_usd for each in kept_lines if each.backend == "configured")
            if paid:
                raise WrongFile(f"{self.file} holds results of ${paid:.2f}: --resume it, or name another file.")
        if resume and self.file.exists():
            kept, self.lines = read_lines(self.file)
            if differing := [name for name in run.setting if run.setting[name] != kept.setting.get(name)]:
                raise SettingDiffers(f"{self.file} cannot be resumed with other {', '.join(differing)}: {kept.setting}")
            run = kept
        whole = [run, *self.lines]
        new = self.file.with_name(f"{self.file.name}.new")
        new.write_text("".join(f"{each.model_dump_json(exclude_defaults=True)}\n" for each in whole))
        new.replace(self.file)  # a run that is killed here also loses nothing

    def done(self, dataset: str) -> frozenset[tuple[str, int]]:
        """Return the cases already scored; a case that failed with an error runs again."""
        scores = [each.score for each in self.lines if each.dataset == dataset and not each.score.error]
        return frozenset((each.case, each.repetition) for each in scores)

    def append(self, line: ScoreLine) -> None:
        self.lines.append(line)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(f"{line.model_dump_json(exclude_defaults=True)}\n")

    @property
    def evaluated(self) -> list[Evaluated]:
        return by_dataset(self.lines)


def read_lines(file: Path) -> tuple[RunLine, list[ScoreLine]]:
    """Read results, ignoring a last line that was cut off.

    Raises:
        WrongFile: another line is not a result.
    """
    written = file.read_text(encoding="utf-8").splitlines() or [""]
    read: list[RunLine | ScoreLine] = []
    for number, line in enumerate(written, start=1):
        try:
            read.append((ScoreLine if read else RunLine).model_validate_json(line))
        except ValidationError as error:
            if not read or number < len(written):
                raise WrongFile(f"{file}, line {number}: it is no result that --save kept.") from error
    run, *lines = read
    return cast("RunLine", run), cast("list[ScoreLine]", lines)


def by_dataset(lines: Sequence[ScoreLine]) -> list[Evaluated]:
    """Group the scores by dataset; if a case was run again, its last scores count."""
    latest = {(each.dataset, each.backend, each.score.case, each.score.repetition): each.score for each in lines}
    return [
        Evaluated(
            dataset=dataset,
            backend=backend,
            scores=tuple(score for key, score in latest.items() if key[:2] == (dataset, backend)),
        )
        for dataset, backend in dict.fromkeys(key[:2] for key in latest)
    ]


def read_results(file: Path) -> list[Evaluated]:
    """Read the scores that a run has saved."""
    return by_dataset(read_lines(file)[1])


def summary(evaluated: Evaluated, repetitions: int) -> Row:
    """Average every measure of a dataset."""
    averages = {name: evaluated.measured(name) for name in _MEASURES}
    row = {name: mean(values.values()) for name, values in averages.items() if values}
    named = {
        "": evaluated.dataset,
        "backend": evaluated.backend,
        "cases": len({each.case for each in evaluated.scores}),
    }
    if repetitions > 1:
        outcomes = [(each.case, each.passed) for each in evaluated.scores]
        row[f"pass^{repetitions}"] = pass_hat(outcomes, repetitions)
    counts = {name: sum(bool(getattr(each, name)) for each in evaluated.scores) for name in ("undecided", "error")}
    row |= {name: count for name, count in counts.items() if count}
    row["incomplete"] = 1 - row.pop("completed", 0)
    return named | row


def comparisons(before: Evaluated, after: Evaluated) -> list[Comparison]:
    """Compare every measure that both sides have, case by case."""
    found: list[Comparison] = []
    for name in _MEASURES:
        mine, theirs = before.measured(name), after.measured(name)
        if mine.keys() & theirs.keys():
            found.append(compare(name, mine, theirs, less_is_better=name in _LESS_IS_BETTER))
    return found


def regressions(before: Evaluated, after: Evaluated) -> list[str]:
    """List what got worse: any case if nothing is left to chance, or else more cases than chance explains."""
    if before.backend != after.backend:
        return [
            f"{after.dataset}: the kept scores are of '{before.backend}', which '{after.backend}' cannot be held to"
        ]
    is_certain = after.backend != "configured" or {each.usd for each in (*before.scores, *after.scores)} == {0}
    found: list[str] = []
    absent = before.measured("passed").keys() - after.measured("passed").keys()
    if absent:
        found.append(f"{after.dataset}: {len(absent)} cases were not run")
    for each in comparisons(before, after):
        if each.measure in {"seconds"}:
            continue
        if each.measure in {"turns", "usd"}:
            is_worse = each.after > each.before * _DEARER
        else:
            is_worse = bool(each.worse) if is_certain else each.p < _SIGNIFICANT and each.worse > each.better
        if is_worse:
            found.append(
                f"{after.dataset}: {each.measure} went from {each.before:.3g} to {each.after:.3g} "
                f"({each.worse} cases worse, {each.better} better)"
            )
    return found


def differences(before: Sequence[Evaluated], after: Sequence[Evaluated]) -> list[Row]:
    earlier = {each.dataset: each for each in before}
    return [
        {
            "": f"{each.dataset}: {found.measure}",
            "before": found.before,
            "after": found.after,
            "95 % of the difference": f"{found.low:+.3g} to {found.high:+.3g}",
            "better": found.better,
            "worse": found.worse,
            "p": found.p,
        }
        for each in after
        if each.dataset in earlier
        for found in comparisons(earlier[each.dataset], each)
    ]
