"""The cost of tight reserves: reserve relative to cost, and truncated replies, simulated for ways to choose a cap."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median, quantiles
from typing import Final

from activities.contracts.cards import ModelCard, OutputCaps, PriceStep
from benchmarks.tables import Row
from workflows.budget.estimates import (
    DECISION,
    LIKELY_BYTES_PER_TOKEN,
    PLAN,
    REPORT,
    WORK,
    Purpose,
    double_range,
    output_range,
    worst_case,
)

_SESSIONS: Final = 400
_MODEL: Final = ModelCard(
    provider="anthropic",
    name="simulated",
    prices=(PriceStep(input_usd_per_million=Decimal("3.75"), output_usd_per_million=Decimal(15)),),
)
"""A cache write is the most expensive way to read a token, and a reserve must cover that."""
_CACHED_USD, _WRITTEN_USD, _OUTPUT_USD = 0.3, 3.75, 15.0
_BYTES_PER_TOKEN: Final = 4
_FIXED_TOKENS: Final = 2_500
_ROUND_TOKENS: Final = 2_500
"""Tokens that a round of tools adds to a conversation."""
_CALL: Final = (220, 1.0)
_ANSWER: Final = (1_000, 0.8)
_OTHERS: Final[Mapping[Purpose, tuple[int, float]]] = {PLAN: (2_400, 0.8), REPORT: (3_000, 0.8), DECISION: (140, 0.8)}
"""Output tokens including thinking: the median, and the standard deviation of their logarithm."""
_VERBOSITY: Final = 0.4
"""How much models and sessions differ: spread of the logarithm of a factor applied to all their replies."""
_PRIOR: Final = 200
_WEIGHT: Final = 10
"""One observed reply counts as much as this many of the prior."""
_QUANTILES: Final = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
_MOST_RATIO: Final = 3.0


@dataclass(frozen=True)
class _Turn:
    purpose: Purpose
    tokens: int
    """Of its prompt."""
    known: int
    """The prompt tokens that the provider has already counted."""
    is_cached: bool
    written: int
    """Output tokens of the whole reply."""

    def cost(self, cap: int) -> float:
        cached = self.known if self.is_cached else 0
        read = cached * _CACHED_USD + (self.tokens - cached) * _WRITTEN_USD
        return (read + min(self.written, cap) * _OUTPUT_USD) / 1e6

    def bound(self, per_token: float) -> int:
        """Bound its prompt, reserving this many tokens for each token of the new part."""
        return self.known + int((self.tokens - self.known) * per_token)


_Cap = Callable[[_Turn, Sequence[int]], int]
"""Chooses a cap, given the sizes of earlier replies of this purpose."""


async def reserves() -> tuple[Sequence[Row], Sequence[str]]:
    """Simulate the same sessions under each way to choose a reply's cap."""
    chance = random.Random(26)
    sessions = [list(_session(chance)) for _ in range(_SESSIONS)]
    prior = {purpose: sorted(_written(purpose, chance, 1) for _ in range(_PRIOR)) for purpose in (WORK, *_OTHERS)}
    ways: dict[str, tuple[_Cap, float]] = {
        "in use, money to spare": (
            lambda turn, _: output_range(turn.purpose, OutputCaps(), _MODEL).most,
            _BYTES_PER_TOKEN,
        ),
        "in use, money short": (
            lambda turn, _: turn.purpose.least_output,
            _BYTES_PER_TOKEN / LIKELY_BYTES_PER_TOKEN,
        ),
    }
    for quantile in _QUANTILES:
        for prompt, per_token in (("by its bytes", _BYTES_PER_TOKEN), ("counted before", 1)):
            ways[f"learned, {quantile:.1%} of replies fit, prompt {prompt}"] = (_learned(quantile), per_token)
    rows = [_row(name, sessions, prior, *way) for name, way in ways.items()]
    return rows, [
        f"{_SESSIONS} sessions of {sum(map(len, sessions)) / _SESSIONS:.0f} turns",
        "a reply that is cut off is asked for again at twice its cap, until it is whole",
        "learned: a quantile of the session's replies of this purpose, and of a prior that is the true distribution",
        "replies: log-normal, with the means by purpose of `benchmarks tokens`; the spread is an assumption",
        "prompts: new parts by their bytes, or counted by the provider before each call, which is a request more",
    ]


def _session(chance: random.Random) -> Iterator[_Turn]:
    """Generate the turns of a plan, five agents, decisions, and a report."""
    verbosity = chance.lognormvariate(0, _VERBOSITY)

    def turn(purpose: Purpose, tokens: int, known: int = 0, *, answers: bool = False) -> _Turn:
        written = _written(purpose, chance, verbosity, answers=answers)
        return _Turn(purpose, tokens, known, chance.random() < 0.5, written)

    yield turn(PLAN, _FIXED_TOKENS)
    for _ in range(5):
        tokens = known = 0
        for number in range(rounds := chance.randint(1, 6)):
            known, tokens = tokens, tokens + (_ROUND_TOKENS if number else _FIXED_TOKENS)
            yield turn(WORK, tokens, known, answers=number == rounds - 1)
    for _ in range(2):
        yield turn(DECISION, _FIXED_TOKENS)
    yield turn(REPORT, 3 * _FIXED_TOKENS)


def _written(purpose: Purpose, chance: random.Random, verbosity: float, *, answers: bool | None = None) -> int:
    if purpose is WORK:
        usual, spread = _ANSWER if (chance.random() < 0.25 if answers is None else answers) else _CALL
    else:
        usual, spread = _OTHERS[purpose]
    return 1 + int(usual * verbosity * chance.lognormvariate(0, spread))


def _learned(quantile: float) -> _Cap:
    def cap(turn: _Turn, seen: Sequence[int]) -> int:
        ordered = sorted(seen)
        tokens = ordered[min(int(quantile * len(ordered)), len(ordered) - 1)]
        return min(-(-tokens // 100) * 100, output_range(turn.purpose, OutputCaps(), _MODEL).most)

    return cap


def _row(
    name: str,
    sessions: Sequence[Sequence[_Turn]],
    prior: Mapping[Purpose, Sequence[int]],
    choose: _Cap,
    per_token: float,
) -> Row:
    ratios, cut, turns, wasted, spent = list[float](), 0, 0, 0.0, 0.0
    for session in sessions:
        seen = {purpose: list(replies) for purpose, replies in prior.items()}
        for turn in session:
            cap = choose(turn, seen[turn.purpose])
            turns, cut = turns + 1, cut + (turn.written > cap)
            while True:
                cost = turn.cost(cap)
                ratios.append(float(worst_case(_MODEL, turn.bound(per_token), cap).usd) / cost)
                spent += cost
                if turn.written <= cap:
                    break
                wasted += cost
                cap = double_range(cap, _MODEL).most
            seen[turn.purpose] += [turn.written] * _WEIGHT
    return {
        "": name,
        "reserve over cost": median(ratios),
        "of 9 in 10 calls below": quantiles(ratios, n=10)[-1],
        "replies cut off, %": 100 * cut / turns,
        "dollars for these, %": 100 * wasted / spent,
        "asked": _MOST_RATIO,
        "verdict": "pass" if median(ratios) <= _MOST_RATIO else "MISS",
    }
