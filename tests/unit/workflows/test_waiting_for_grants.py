"""Who goes without when all children of a session wait for larger grants."""

from itertools import permutations

import pytest

from chargehand.contracts import Failure
from workflows.budget.grants import Grants
from workflows.budget.ledger import Amount, Ledger

CHILDREN = {"a": True, "b": False, "c": True, "d": False}
"""Whether each can go on without what it asks for."""


@pytest.mark.parametrize("order", list(permutations(CHILDREN)))
def test_who_can_go_on_goes_without_first(order: tuple[str, ...]) -> None:
    """One at a time goes without, in whatever order they asked, and none that needs it while another can go on."""
    ledger = Ledger(Amount(8))
    grants, left = Grants(ledger), list(order)
    for child in order:
        reservation = ledger.reserve(Amount(2))
        assert reservation is not None
        assert grants.open(child, reservation)
    for child in order:
        assert not grants.all_wait
        grants.queue(child, is_optional=CHILDREN[child])
    gone = list[str]()
    while left:
        assert grants.all_wait is not any(CHILDREN[each] for each in left)
        (victim,) = (each for each in left if grants.is_hopeless(each, is_optional=CHILDREN[each]))
        grants.dequeue(victim, is_optional=CHILDREN[victim])
        grants.close(victim, "researcher", Failure(reason="out_of_turns", message=""))
        gone.append(victim)
        left.remove(victim)
    assert [CHILDREN[each] for each in gone] == [True, True, False, False]
