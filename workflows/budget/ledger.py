"""The budget ledger of one workflow, and what was spent line by line. Pure bookkeeping in exact amounts.

At every step `spent + reserved + unspent = granted`, in turns and in dollars, unless a provider has charged more than
could be reserved: every cost is reserved at its worst case before it arises, and settled at its true amount afterwards.
A grant to a child is a reservation like any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from typing import Final, NamedTuple, Self

from pydantic import PrivateAttr, field_serializer

from activities.contracts.model import ModelCard
from chargehand.contracts import SpendLine, Usage, left_out
from chargehand.contracts.base import MOST_OVERCHARGE, Overcharge
from workflows.carried import Carried
from workflows.rules.report_content import merge_spend

_LARGEST_SHARE: Final = 3
"""The part of what was granted, 1 divided by this, that is set aside for the report at most."""


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
    """What it may be enlarged to; None for as much as there is."""

    def may_grow(self, more: Amount) -> bool:
        return self.most_usd is None or self.amount.usd + more.usd <= self.most_usd


class Ledger(Carried):
    """The budget of one supervisor or one subtask; no call is open when it is carried on."""

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
        """Compute what would have to be granted so that an amount could be reserved."""
        return (self.spent + self.reserved + amount).beyond(self.granted)

    def reserve(self, amount: Amount, most_usd: Decimal | None = None) -> Reservation | None:
        """Reserve an amount; None, and nothing changes, if it does not fit."""
        if not self.unspent.covers(amount):
            return None
        self._numbers += 1
        reservation = Reservation(self._numbers, amount, most_usd)
        self._open[reservation.number] = reservation
        return reservation

    def extend(self, reservation: Reservation, more: Amount) -> Reservation | None:
        """Enlarge a reservation; None, and nothing changes, if it does not fit."""
        if not self.unspent.covers(more):
            return None
        known = self._open[reservation.number]
        extended = self._open[known.number] = replace(known, amount=known.amount + more)
        return extended

    def grant(self, more: Amount) -> None:
        self.granted += more

    def settle(self, reservation: Reservation, cost: Amount) -> None:
        """Book the true cost of what was reserved, even where it is above the reservation, and free the rest."""
        del self._open[reservation.number]
        self.book(cost)

    def book(self, cost: Amount) -> None:
        self.spent += cost


class ReportReserve:
    """The worst case of the turn that writes the report, reserved before anything else is paid."""

    def __init__(self, ledger: Ledger, worst: Amount) -> None:
        self._ledger = ledger
        self.worst = worst
        self._reservation: Reservation | None = None

    @property
    def is_held(self) -> bool:
        return self._reservation is not None

    @property
    def is_payable(self) -> bool:
        return self.is_held or self._ledger.unspent.covers(self.worst)

    def hold(self) -> bool:
        """Reserve the report's worst case, unless it is reserved; False if the ledger does not cover it."""
        if self._reservation is None:
            self._reservation = self._ledger.reserve(self.worst)
        return self._reservation is not None

    def grow(self, needed: Amount) -> None:
        """Reserve more, as far as the ledger covers it and up to a third of what was granted."""
        if self._reservation is None:
            return
        wanted = needed.at_most(self._ledger.granted.share(_LARGEST_SHARE))
        missing = wanted.beyond(self._reservation.amount)
        affordable = missing.at_most(self._ledger.unspent)
        self._reservation = self._ledger.extend(self._reservation, affordable) or self._reservation

    def release(self) -> None:
        """Free the reserve, when the report is due or needs no turn."""
        if self._reservation is not None:
            self._ledger.settle(self._reservation, Amount())
            self._reservation = None


class Mark(NamedTuple):
    lines: int
    wasted: Usage


class Spending(Carried):
    """The ledger of a workflow, and a line for each call that was settled in it."""

    ledger: Ledger
    lines: list[SpendLine] = left_out([])
    wasted: Usage = left_out(Usage())
    """Part of `lines` for turns that gave nothing."""
    overcharges: dict[str, Overcharge] = left_out({})
    """How many times a reservation a call was seen to cost, by the name of its model; only what is above 1."""
    turns: int = left_out(0)
    """Turns taken, which number the next ones."""

    @classmethod
    def of(cls, granted: Amount) -> Self:
        """Begin with a grant."""
        return cls(ledger=Ledger(granted=granted))

    @field_serializer("lines")
    def _merge(self, lines: Sequence[SpendLine]) -> Sequence[SpendLine]:
        return merge_spend(lines)

    @property
    def mean_output(self) -> int:
        """Tokens that a reply had on average, thinking included; 0 before the first."""
        used = sum((line.usage for line in self.lines), Usage())
        return used.output_tokens // max(used.turns, 1)

    def begin_turn(self) -> int:
        self.turns += 1
        return self.turns

    def settle(self, reservation: Reservation, line: SpendLine, *, wasted: bool) -> None:
        """Book what a call has cost in place of what was reserved for it."""
        self.ledger.settle(reservation, Amount(line.usage.turns, line.usage.cost_usd))
        self.lines.append(line)
        if wasted:
            self.wasted += line.usage

    def book(self, line: SpendLine) -> None:
        """Book a cost that was not reserved, and that gave nothing."""
        self.ledger.book(Amount(line.usage.turns, line.usage.cost_usd))
        self.lines.append(line)
        self.wasted += line.usage

    def count_tool_call(self, agent: str) -> None:
        self.lines.append(SpendLine(agent=agent, model="", purpose="tools", usage=Usage(tool_calls=1)))

    def include(self, lines: Iterable[SpendLine]) -> None:
        """Note what a child has cost, whose grant is settled by itself."""
        self.lines = [*merge_spend([*self.lines, *lines])]

    def waste_last(self) -> None:
        self.wasted += self.lines[-1].usage

    def keep_turn(self) -> None:
        """Count one turn as not wasted, since the call that repeated it is the one that did not count."""
        self.wasted = self.wasted.replace(turns=self.wasted.turns - 1)

    def mark(self) -> Mark:
        return Mark(len(self.lines), self.wasted)

    def waste_since(self, mark: Mark) -> None:
        self.wasted = sum((line.usage for line in self.lines[mark.lines :]), mark.wasted)

    def with_overcharge(self, model: ModelCard) -> ModelCard:
        """Return a model that is reserved at what it has proven to cost."""
        return model.replace(overcharge=max(model.overcharge, self.overcharges.get(model.name, 1.0)))

    def learn(self, overcharges: Mapping[str, float]) -> None:
        """Take over what another workflow of the session has seen models cost."""
        for name, factor in overcharges.items():
            self.overcharges[name] = max(factor, self.overcharges.get(name, 1.0))

    def prove(self, model: ModelCard, cost: Decimal, worst: Decimal) -> None:
        """Note that a call of a model cost more than its worst case, if it did."""
        if cost > worst > 0:
            self.overcharges[model.name] = min(model.overcharge * float(cost / worst), MOST_OVERCHARGE)
