"""The ledger: books that always balance."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.simulation import budget
from workflows.budget.ledger import Amount, Ledger, Reservation

DOLLARS = st.integers(min_value=0, max_value=3_000_000_000).map(lambda nanodollars: Decimal(nanodollars).scaleb(-9))
AMOUNTS = st.builds(Amount, st.integers(min_value=0, max_value=30), DOLLARS)


class LedgerMachine(RuleBasedStateMachine):
    """Reserves and settles in any order, beside books kept by hand in whole nanodollars."""

    opened = Bundle[Reservation]("opened")

    @initialize(granted=AMOUNTS)
    def grant(self, granted: Amount) -> None:
        self.ledger = Ledger(granted)
        self.granted = granted
        self.spent_turns, self.spent_nanodollars = 0, 0
        self.open: dict[int, Amount] = {}
        self.excess = Amount()

    @rule(target=opened, amount=AMOUNTS)
    def reserve(self, amount: Amount) -> Reservation:
        free_turns = self.granted.turns - self.spent_turns - sum(held.turns for held in self.open.values())
        free = _nano(self.granted) - self.spent_nanodollars - sum(_nano(held) for held in self.open.values())
        fits = amount.turns <= max(free_turns, 0) and _nano(amount) <= max(free, 0)
        missing = self.ledger.missing(amount)
        assert (missing.turns, _nano(missing)) == (max(amount.turns - free_turns, 0), max(_nano(amount) - free, 0))
        before = (self.ledger.spent, self.ledger.reserved, self.ledger.unspent)

        reservation = self.ledger.reserve(amount)

        assert (reservation is not None) == fits
        if reservation is None:
            assert (self.ledger.spent, self.ledger.reserved, self.ledger.unspent) == before
            return Reservation(-1, amount)
        self.open[reservation.number] = amount
        return reservation

    @rule(reservation=consumes(opened), cost=AMOUNTS)
    def settle(self, reservation: Reservation, cost: Amount) -> None:
        if reservation.number == -1:
            return
        held = self.open.pop(reservation.number)
        self.spent_turns += cost.turns
        self.spent_nanodollars += _nano(cost)
        self.excess += cost.beyond(held)

        self.ledger.settle(reservation, cost)

        with pytest.raises(KeyError):
            self.ledger.settle(reservation, cost)

    @invariant()
    def balances(self) -> None:
        ledger = self.ledger
        assert ledger.granted == self.granted
        assert ledger.spent + ledger.reserved + ledger.unspent == ledger.granted + ledger.overdrawn
        assert (ledger.spent.turns, _nano(ledger.spent)) == (self.spent_turns, self.spent_nanodollars)
        assert _nano(ledger.reserved) == sum(_nano(held) for held in self.open.values())

    @invariant()
    def passes_what_was_granted_only_by_what_was_charged_above_reservations(self) -> None:
        assert self.excess.covers(self.ledger.overdrawn)


def _nano(amount: Amount) -> int:
    return int(amount.usd.scaleb(9))


class TestLedger(LedgerMachine.TestCase):
    """I01: after every operation, in any order, spent + reserved + unspent = granted + overdrawn, none negative."""

    settings = budget.settings_for(100)


def test_no_amount_is_negative_or_no_number() -> None:
    """I01: negative turns, and NaN, infinite or negative dollars are refused."""
    cases = [(1, "NaN"), (1, "sNaN"), (1, "Infinity"), (1, "-Infinity"), (1, "-0.000000001"), (-1, "0")]
    for turns, usd in cases:
        with pytest.raises(ValueError, match="never negative"):
            Amount(turns, Decimal(usd))


@given(less=AMOUNTS, more=AMOUNTS)
def test_what_is_not_there_cannot_be_taken_away(less: Amount, more: Amount) -> None:
    """I01: a subtraction gives a true difference, or raises."""
    if less.covers(more):
        assert (less - more) + more == less
    else:
        with pytest.raises(ValueError, match="never negative"):
            _ = less - more


def test_a_cost_above_its_reserve_is_booked_as_charged() -> None:
    """What a provider charged is spent, and nothing is left once it is more than was granted."""
    ledger = Ledger(Amount(5, Decimal(2)))
    reservation = ledger.reserve(Amount(1, Decimal("0.5")))
    assert reservation is not None

    ledger.settle(reservation, Amount(3, Decimal(9)))

    assert ledger.spent == Amount(3, Decimal(9))
    assert ledger.unspent == Amount(2, Decimal(0))
    assert ledger.overdrawn == Amount(0, Decimal(7))
    assert ledger.reserve(Amount(1, Decimal("0.01"))) is None
