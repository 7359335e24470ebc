"""The purse: books that always balance."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.simulation import budget
from workflows.purse import Amount, Purse, Reservation

DOLLARS = st.integers(min_value=0, max_value=3_000_000_000).map(lambda nanodollars: Decimal(nanodollars).scaleb(-9))
AMOUNTS = st.builds(Amount, st.integers(min_value=0, max_value=30), DOLLARS)


class PurseMachine(RuleBasedStateMachine):
    """Reserves and settles in any order, beside books kept by hand in whole nanodollars."""

    opened = Bundle[Reservation]("opened")

    @initialize(granted=AMOUNTS)
    def grant(self, granted: Amount) -> None:
        self.purse = Purse(granted)
        self.granted = granted
        self.spent_turns, self.spent_nanodollars = 0, 0
        self.open: dict[int, Amount] = {}

    @rule(target=opened, amount=AMOUNTS)
    def reserve(self, amount: Amount) -> Reservation:
        free_turns = self.granted.turns - self.spent_turns - sum(held.turns for held in self.open.values())
        free = _nano(self.granted) - self.spent_nanodollars - sum(_nano(held) for held in self.open.values())
        fits = amount.turns <= free_turns and _nano(amount) <= free
        before = (self.purse.spent, self.purse.reserved, self.purse.unspent)

        reservation = self.purse.reserve(amount)

        assert (reservation is not None) == fits
        if reservation is None:
            assert (self.purse.spent, self.purse.reserved, self.purse.unspent) == before
            return Reservation(-1, amount)
        self.open[reservation.number] = amount
        return reservation

    @rule(reservation=consumes(opened), cost=AMOUNTS)
    def settle(self, reservation: Reservation, cost: Amount) -> None:
        if reservation.number == -1:
            return
        held = self.open.pop(reservation.number)
        self.spent_turns += min(cost.turns, held.turns)
        self.spent_nanodollars += min(_nano(cost), _nano(held))

        self.purse.settle(reservation, cost)

        with pytest.raises(KeyError):
            self.purse.settle(reservation, cost)

    @invariant()
    def balances(self) -> None:
        purse = self.purse
        assert purse.spent + purse.reserved + purse.unspent == purse.granted == self.granted
        assert (purse.spent.turns, _nano(purse.spent)) == (self.spent_turns, self.spent_nanodollars)
        assert _nano(purse.reserved) == sum(_nano(held) for held in self.open.values())

    @invariant()
    def never_passes_what_was_granted(self) -> None:
        assert self.granted.covers(self.purse.spent + self.purse.reserved)


def _nano(amount: Amount) -> int:
    return int(amount.usd.scaleb(9))


class TestPurse(PurseMachine.TestCase):
    """I01: after every operation, in any order, spent + reserved + unspent = granted, exactly, and none is negative."""

    settings = budget.settings_for(500)


@pytest.mark.parametrize("usd", ["NaN", "sNaN", "Infinity", "-Infinity", "-0.000000001"])
def test_no_amount_is_negative_or_no_number(usd: str) -> None:
    """I01: NaN, infinite and negative dollars cannot even be written down."""
    with pytest.raises(ValueError, match="never negative, infinite or NaN"):
        Amount(1, Decimal(usd))


def test_no_amount_has_negative_turns() -> None:
    """I01: fewer than no turns cannot be written down."""
    with pytest.raises(ValueError, match="never negative"):
        Amount(-1)


@given(less=AMOUNTS, more=AMOUNTS)
def test_what_is_not_there_cannot_be_taken_away(less: Amount, more: Amount) -> None:
    """I01: a subtraction gives a true difference, or raises."""
    if less.covers(more):
        assert (less - more) + more == less
    else:
        with pytest.raises(ValueError, match="never negative"):
            _ = less - more


def test_a_purse_covers_both_turns_and_dollars() -> None:
    """I01: neither dollars stand in for turns, nor turns for dollars."""
    purse = Purse(Amount(1, Decimal(1)))

    refused = [purse.reserve(Amount(2, Decimal(0))), purse.reserve(Amount(0, Decimal("1.000000001")))]
    taken = purse.reserve(Amount(1, Decimal(1)))

    assert refused == [None, None]
    assert taken == Reservation(1, Amount(1, Decimal(1)))
    assert purse.unspent == Amount()


def test_a_cost_above_its_reserve_is_booked_at_the_reserve() -> None:
    """I01: what was reserved is the most that can ever be booked for it."""
    purse = Purse(Amount(5, Decimal(2)))
    reservation = purse.reserve(Amount(1, Decimal("0.5")))
    assert reservation is not None

    purse.settle(reservation, Amount(3, Decimal(9)))

    assert purse.spent == Amount(1, Decimal("0.5"))
    assert purse.unspent == Amount(4, Decimal("1.5"))


def test_a_reserve_of_one_purse_is_not_settled_from_another() -> None:
    """A reservation that a purse does not know changes nothing in it."""
    purse = Purse(Amount(5, Decimal(2)))

    with pytest.raises(KeyError):
        purse.settle(Reservation(7, Amount(1)), Amount())

    assert purse.unspent == purse.granted
