"""What a turn is for: how hard the model thinks about it, and how much it may write. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from activities.contracts.model import ModelCard, OutputCaps
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import Effort

OUTPUT_SHARE: Final = Decimal("0.5")
"""How much of what is unspent a turn may reserve to write more than the least."""
_STEP: Final = 500
"""Output caps between the least and the most are multiples of this many tokens."""


@dataclass(frozen=True)
class Purpose:
    """One row of `OutputCaps`."""

    name: Literal["plan", "work", "report", "decision"]
    effort: Effort
    least_output: int
    """Tokens without which a turn of this purpose is not worth its input."""

    def effort_in(self, crew_effort: Effort | None) -> Effort:
        """Choose the effort of a turn, given that of its crew or agent; small decisions do not follow it."""
        return self.effort if self is DECISION else crew_effort or self.effort


PLAN: Final = Purpose("plan", "high", 4_000)
WORK: Final = Purpose("work", "medium", 4_000)
REPORT: Final = Purpose("report", "high", 6_000)
OUTPUT: Final = Purpose("report", "medium", 4_000)
DECISION: Final = Purpose("decision", "low", 2_000)
_BY_KIND: Final[Mapping[str, Purpose]] = {
    "plan": PLAN,
    "design": PLAN,
    "expand": PLAN,
    "work": WORK,
    "compact": WORK,
    "synthesis": REPORT,
    "outline": PLAN,
    "output": OUTPUT,
}
"""Kinds of tasks that are no decision; another effort in mid-conversation would miss the cache of the prompt."""


def purpose_of(task: Task) -> Purpose:
    """Find what a task is for; the summary of a part is a decision about what matters in it."""
    if isinstance(task, SynthesisTask) and task.is_part:
        return DECISION
    return _BY_KIND.get(task.kind, DECISION)


def lower(effort: Effort) -> Effort:
    """Return the next lower effort."""
    return "medium" if effort == "high" else "low"


@dataclass(frozen=True)
class OutputRange:
    """How much one turn may write: at least what it needs, at most what its purpose and its model allow."""

    least: int
    most: int

    def affordable(self, price: Callable[[int], Decimal], usd: Decimal) -> int:
        """Return the largest cap whose turn costs no more than an amount, but never less than the least.

        Args:
            price: the worst case of the turn at a cap; the same for every further token.
            usd: what may be reserved.
        """
        least, most = price(self.least), price(self.most)
        if most <= usd or most == least:
            return self.most
        tokens = self.least + int((self.most - self.least) * max(usd - least, Decimal(0)) / (most - least))
        return max(self.least, (tokens - 1) // _STEP * _STEP)  # one less, since prices are rounded up


def output_range(purpose: Purpose, caps: OutputCaps, model: ModelCard) -> OutputRange:
    """Return how much a turn may write."""
    most = _within(getattr(caps, purpose.name), model)
    return OutputRange(min(purpose.least_output, most), most)


def doubled(cap: int, model: ModelCard) -> OutputRange:
    """Return how much a turn may write that repeats one which was cut off at a cap."""
    return OutputRange(cap, max(cap, _within(2 * cap, model)))


def _within(tokens: int, model: ModelCard) -> int:
    return tokens if model.max_output_tokens is None else min(tokens, model.max_output_tokens)
