"""Statistics of repeated and paired runs: small and exact, or seeded."""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import mean
from typing import Final

_RESAMPLES: Final = 2_000


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided probability of a split this uneven by chance: the exact sign or McNemar test."""
    pairs = better + worse
    tail = sum(comb(pairs, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**pairs)


def bootstrap(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of paired differences, by resampling the pairs."""
    draw = random.Random(len(differences))  # the same interval in every run
    means = sorted(mean(draw.choices(differences, k=len(differences))) for _ in range(_RESAMPLES))
    return means[_RESAMPLES * 25 // 1_000], means[_RESAMPLES * 975 // 1_000 - 1]


def pass_hat(outcomes: Iterable[tuple[str, bool]], k: int) -> float:
    """Return pass^k: the chance that k runs of a case all pass, averaged over the cases that ran at least k times."""
    runs: defaultdict[str, list[bool]] = defaultdict(list)
    for case, passed in outcomes:
        runs[case].append(passed)
    shares = [comb(sum(each), k) / comb(len(each), k) for each in runs.values() if len(each) >= k]
    return mean(shares) if shares else 0.0


@dataclass(frozen=True)
class Comparison:
    """How a measure changed over the cases that both runs have."""

    measure: str
    before: float
    after: float
    low: float
    high: float
    """The 95 % interval of the difference."""
    better: int
    worse: int
    """Cases."""
    p: float
    """P-value of the sign test."""


def compare(
    measure: str, before: Mapping[str, float], after: Mapping[str, float], *, less_is_better: bool
) -> Comparison:
    """Compare a measure case by case."""
    cases = sorted(before.keys() & after.keys())
    differences = [after[case] - before[case] for case in cases]
    more, less = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    better, worse = (less, more) if less_is_better else (more, less)
    low, high = bootstrap(differences)
    return Comparison(
        measure,
        mean(before[case] for case in cases),
        mean(after[case] for case in cases),
        low,
        high,
        better,
        worse,
        sign_test(better, worse),
    )
