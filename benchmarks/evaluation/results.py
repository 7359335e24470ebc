"""The scores of a run: how they are kept, averaged, compared, and what is worse than before."""

from collections.abc import Sequence
from statistics import mean
from typing import Final

from pydantic import BaseModel

from benchmarks.evaluation.scores import Scores
from benchmarks.evaluation.statistics import Comparison, compare, pass_hat
from benchmarks.tables import Row

_LESS_IS_BETTER: Final = frozenset({"turns", "usd", "seconds", "forced", "truncated"})
_MEASURES: Final = (
    *("passed", "completed", "plan_valid", "nodes", "edges", "executed", "routed", "answer", "citations"),
    *("gaps_named", "turns", "usd", "seconds", "forced", "truncated"),
)
_DEARER: Final = 1.1
"""By how much turns and dollars may grow before that is a regression."""
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


class Results(BaseModel):
    """What a run found, as it is kept."""

    at: str
    command: str
    evaluated: tuple[Evaluated, ...]


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
    row["incomplete"] = 1 - row.pop("completed")
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
    """Name what got worse: any case, where nothing is left to chance, or more cases than chance explains."""
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


def differences(before: Results, after: Sequence[Evaluated]) -> list[Row]:
    earlier = {each.dataset: each for each in before.evaluated}
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
