"""The upper side of a lease: what a supervisor lends its children, and how it answers when they ask for more."""

from contextlib import suppress
from decimal import ROUND_DOWN, Decimal
from typing import Final

from temporalio import workflow
from temporalio.exceptions import FailureError

from chargehand.wire import SignalName
from workflows.contracts import LeaseGrant, LeaseRequest
from workflows.purse import Amount, Reservation
from workflows.session import Session

_LEAST_TURNS: Final = 2
"""A smaller share would let an agent look but not answer."""
_USUAL: Final = 4
"""How many times the least a subtask is lent at first, if there is enough; it asks when it needs more."""


def lend(session: Session, least: Amount, not_started: int) -> Reservation | None:
    """Set a share of what is left aside for a subtask; None if not even the least can be paid.

    Args:
        least: the least that is of use: the worst case of one turn, or a whole session below.
        not_started: among how many subtasks the rest has to be shared, this one included.
    """
    left = session.purse.unspent
    fair = _share(left, not_started)
    usual = Amount(least.turns * _USUAL, least.usd * _USUAL)
    share = usual.capped(Amount(min(max(_LEAST_TURNS, fair.turns), left.turns), fair.usd))
    return session.purse.reserve(share if share.covers(least) else least)


async def serve(session: Session, request: LeaseRequest) -> None:
    """Answer a child that asks for more.

    What has begun comes before what has not: whatever is unspent may be lent. A patient child waits until others have
    given enough back, or the limits are raised, or nobody is left who could give anything back.
    """
    asked = Amount(request.turns, request.usd)
    if request.patient:
        session.waiting.append(request.child)
        await session.more(asked, hopeless=lambda: _is_hopeless(session, request.child))
        session.waiting.remove(request.child)
    granted = Amount()
    lease = session.leases.get(request.child)
    if lease is not None and not session.is_over:
        lent = asked + _ahead(session, lease, asked)
        extended = session.purse.extend(lease, lent)
        if extended is not None:
            session.leases[request.child] = extended
            granted = lent
    session.show()
    grant = LeaseGrant(number=request.number, turns=granted.turns, usd=granted.usd)
    # A child that has ended meanwhile needs no answer: its lease comes back with its outcome.
    with suppress(FailureError):
        await workflow.get_external_workflow_handle(request.child).signal(SignalName.GRANT_LEASE, grant)


def _ahead(session: Session, lease: Reservation, asked: Amount) -> Amount:
    """Reckon what to lend beyond what was asked for, so that a child with much to do asks seldom.

    As much again as it has, if it is no more than its share of what is left.
    """
    plan = session.progress.plan
    left = session.purse.unspent
    if session.edition < 3 or plan is None or not left.covers(asked):
        return Amount()
    return lease.amount.capped(_share(left - asked, len(plan.subtasks) - len(session.outcomes)))


def _share(left: Amount, sharers: int) -> Amount:
    return Amount(left.turns // sharers, (left.usd / sharers).quantize(Decimal("0.000001"), rounding=ROUND_DOWN))


def _is_hopeless(session: Session, child: str) -> bool:
    """Whether all that run wait for more, and this one came last: then it is the one that goes without."""
    return child not in session.leases or (set(session.leases) <= set(session.waiting) and session.waiting[-1] == child)
