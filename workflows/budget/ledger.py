"""The budget ledger of one workflow, and its spend line by line. Pure bookkeeping in exact amounts.

At every step `spent + reserved + unspent = granted`, in turns and in dollars, unless a provider charged more than
its reservation: every cost is reserved at its worst case beforehand, and settled at its true amount afterwards.
A grant to a child is a reservation like any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from typing import Final, NamedTuple, Self

from pydantic import PrivateAttr, field_serializer

from activities.contracts.cards import ModelCard
from chargehand.contracts import SpendLine, Usage, left_out
from chargehand.contracts.base import MOST_OVERCHARGE, Overcharge
from workflows.carried import Carried
from workflows.rules.report_content import merge_spend

_LARGEST_SHARE: Final = 3
"""A reserve grows to at most 1 divided by this of the granted amount."""


@dataclass(frozen=True, slots=True)
class Amount:
    """LLM calls and US dollars, neither negative."""

    turns: int = 0
    usd: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if self.turns < 0 or not self.usd.is_finite() or self.usd < 0:
            raise ValueError(f"an amount is never negative, infinite or NaN: {self.turns} turns, {self.usd} dollars")

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.turns + other.turns, self.usd + other.usd)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.turns - other.turns, self.usd - other.usd)

    def covers(self, other: "Amount") -> bool:
        return self.turns >= other.turns and self.usd >= other.usd

    def beyond(self, other: "Amount") -> "Amount":
        """The excess over another amount, in turns and in dollars; zero where there is none."""
        return Amount(max(self.turns - other.turns, 0), max(self.usd - other.usd, Decimal(0)))

    def share(self, sharers: int) -> "Amount":
        usd = (self.usd / sharers).quantize(Decimal("0.000001"), rounding=ROUND_DOWN)
        return Amount(self.turns // sharers, usd)

    def at_most(self, most: "Amount") -> "Amount":
        return Amount(min(self.turns, most.turns), min(self.usd, most.usd))


@dataclass(frozen=True, slots=True)
class Reservation:
    number: int
    amount: Amount
    most_usd: Decimal | None = None
    """Upper limit when it is enlarged; None for no limit."""

    def may_grow(self, more: Amount) -> bool:
        return self.most_usd is None or self.amount.usd + more.usd <= self.most_usd


class Ledger(Carried):
    """The budget of one supervisor or subtask. No reservation is open when the workflow continues as new."""

    granted: Amount
    spent: Amount = left_out(Amount())
    _open: dict[int, Reservation] = PrivateAttr(default_factory=dict[int, Reservation])
    _numbers: int = 0

    @property
    def reserved(self) -> Amount:
        return sum((reservation.amount for reservation in self._open.values()), Amount())

    @property
    def unspent(self) -> Amount:
        return self.granted.beyond(self.spent + self.reserved)

    def missing(self, amount: Amount) -> Amount:
        """Return the additional grant needed to reserve an amount."""
        return (self.spent + self.reserved + amount).beyond(self.granted)

    def reserve(self, amount: Amount, most_usd: Decimal | None = None) -> Reservation | None:
        """Reserve an amount; None, without effect, if it does not fit."""
        if not self.unspent.covers(amount):
            return None
        self._numbers += 1
        reservation = Reservation(self._numbers, amount, most_usd)
        self._open[reservation.number] = reservation
        return reservation

    def extend(self, reservation: Reservation, more: Amount) -> Reservation | None:
        """Enlarge a reservation; None, without effect, if it does not fit."""
        if not self.unspent.covers(more):
            return None
        known = self._open[reservation.number]
        extended = self._open[known.number] = replace(known, amount=known.amount + more)
        return extended

    def grant(self, more: Amount) -> None:
        self.granted += more

    def settle(self, reservation: Reservation, cost: Amount) -> None:
        """Book the true cost of a reservation, even above it, and free the rest."""
        del self._open[reservation.number]
        self.book(cost)

    def book(self, cost: Amount) -> None:
        self.spent += cost


class Reserve:
    """A reservation for a turn of the report, made before other payments; nothing if its worst case is zero."""

    def __init__(self, ledger: Ledger, worst: Amount) -> None:
        self._ledger = ledger
        self.worst = worst
        self._reservation: Reservation | None = None

    @property
    def is_needed(self) -> bool:
        return self.worst.turns > 0

    @property
    def is_held(self) -> bool:
        return self._reservation is not None

    @property
    def is_payable(self) -> bool:
        return self.is_held or self._ledger.unspent.covers(self.worst)

    def hold(self) -> bool:
        """Reserve the worst case once; False if the ledger does not cover it."""
        self._reservation = self._reservation or self._ledger.reserve(self.worst)
        return self.is_held

    def grow(self, needed: Amount) -> None:
        """Reserve more, if the ledger covers it, up to a third of the granted amount."""
        if self._reservation is None:
            return
        wanted = needed.at_most(self._ledger.granted.share(_LARGEST_SHARE))
        affordable = wanted.beyond(self._reservation.amount).at_most(self._ledger.unspent)
        self._reservation = self._ledger.extend(self._reservation, affordable) or self._reservation

    def release(self) -> None:
        """Free the reservation when the report is due or needs no turn."""
        if self._reservation is not None:
            self._ledger.settle(self._reservation, Amount())
            self._reservation = None


class Mark(NamedTuple):
    lines: int
    wasted: Usage


class Spending(Carried):
    """The ledger of a workflow, and a line for each settled call."""

    ledger: Ledger
    lines: list[SpendLine] = left_out([])
    wasted: Usage = left_out(Usage())
    """The part of `lines` spent on turns without a usable result."""
    overcharges: dict[str, Overcharge] = left_out({})
    """Highest observed ratio of cost to reservation by model name, if above 1."""
    turns: int = left_out(0)
    """Turns taken so far; numbers the next one."""

    @classmethod
    def of(cls, granted: Amount) -> Self:
        """Start with a grant."""
        return cls(ledger=Ledger(granted=granted))

    @field_serializer("lines")
    def _merge(self, lines: Sequence[SpendLine]) -> Sequence[SpendLine]:
        return merge_spend(lines)

    @property
    def mean_output(self) -> int:
        """Average tokens per reply, thinking included; 0 before the first."""
        used = sum((line.usage for line in self.lines), Usage())
        return used.output_tokens // max(used.turns, 1)

    def begin_turn(self) -> int:
        self.turns += 1
        return self.turns

    def settle(self, reservation: Reservation, line: SpendLine, *, wasted: bool) -> None:
        """Book the cost of a call in place of its reservation."""
        self.ledger.settle(reservation, Amount(line.usage.turns, line.usage.cost_usd))
        self.lines.append(line)
        if wasted:
            self.wasted += line.usage

    def book(self, line: SpendLine) -> None:
        """Book a wasted cost that was not reserved."""
        self.ledger.book(Amount(line.usage.turns, line.usage.cost_usd))
        self.lines.append(line)
        self.wasted += line.usage

    def count_tool_call(self, agent: str) -> None:
        self.lines.append(SpendLine(agent=agent, model="", purpose="tools", usage=Usage(tool_calls=1)))

    def include(self, lines: Iterable[SpendLine]) -> None:
        """Add a child's lines; its grant is settled separately."""
        self.lines = [*merge_spend([*self.lines, *lines])]

    def waste_last(self) -> None:
        self.wasted += self.lines[-1].usage

    def keep_turn(self) -> None:
        """Count one turn as not wasted: it counts instead of the call that repeated it."""
        self.wasted = self.wasted.replace(turns=self.wasted.turns - 1)

    def mark(self) -> Mark:
        return Mark(len(self.lines), self.wasted)

    def waste_since(self, mark: Mark) -> None:
        self.wasted = sum((line.usage for line in self.lines[mark.lines :]), mark.wasted)

    def with_overcharge(self, model: ModelCard) -> ModelCard:
        """Return the model with the overcharge observed so far applied to its reservations."""
        observed = self.overcharges.get(model.name, 1.0)
        return model.replace(overcharge=observed) if observed > model.overcharge else model

    def learn(self, overcharges: Mapping[str, float]) -> None:
        """Merge the overcharges that another workflow of the session observed."""
        for name, factor in overcharges.items():
            self.overcharges[name] = max(factor, self.overcharges.get(name, 1.0))

    def prove(self, model: ModelCard, cost: Decimal, worst: Decimal) -> None:
        """Record an overcharge if a call cost more than its worst case."""
        if cost > worst > 0:
            self.overcharges[model.name] = min(model.overcharge * float(cost / worst), MOST_OVERCHARGE)
