"""The budget ledger of one workflow. Pure bookkeeping in exact amounts.

At every step `spent + reserved + unspent = granted`, in turns and in dollars, unless a provider has charged more than
could be reserved: every cost is reserved at its worst case before it arises, and settled at its true amount afterwards.
A grant to a child is a reservation like any other.
"""

from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Final

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


class Ledger:
    """The budget of one supervisor or one subtask."""

    def __init__(self, granted: Amount, spent: Amount = Amount()) -> None:
        self.granted = granted
        self.spent = spent
        self._open: dict[int, Reservation] = {}
        self._numbers = 0

    @property
    def reserved(self) -> Amount:
        return sum((reservation.amount for reservation in self._open.values()), Amount())

    @property
    def unspent(self) -> Amount:
        return self.granted.beyond(self.spent + self.reserved)

    def missing(self, amount: Amount) -> Amount:
        """Compute what would have to be granted so that an amount could be reserved."""
        return (self.spent + self.reserved + amount).beyond(self.granted)

    def reserve(self, amount: Amount) -> Reservation | None:
        """Reserve an amount; None, and nothing changes, if it does not fit."""
        if not self.unspent.covers(amount):
            return None
        self._numbers += 1
        reservation = Reservation(self._numbers, amount)
        self._open[reservation.number] = reservation
        return reservation

    def extend(self, reservation: Reservation, more: Amount) -> Reservation | None:
        """Enlarge a reservation; None, and nothing changes, if it does not fit."""
        if not self.unspent.covers(more):
            return None
        extended = Reservation(reservation.number, self._open[reservation.number].amount + more)
        self._open[reservation.number] = extended
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
