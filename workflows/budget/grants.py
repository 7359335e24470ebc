"""The upper side of a grant: what a supervisor lends its children, and how it answers when they ask for more."""

from contextlib import suppress
from decimal import ROUND_DOWN, Decimal
from typing import Final

from temporalio import workflow
from temporalio.exceptions import FailureError

from chargehand.wire import SignalName
from workflows.budget.ledger import Amount, Reservation
from workflows.contracts import Grant, GrantRequest
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
    left = session.ledger.unspent
    fair = _share(left, not_started)
    usual = Amount(least.turns * _USUAL, least.usd * _USUAL)
    share = usual.capped(Amount(min(max(_LEAST_TURNS, fair.turns), left.turns), fair.usd))
    return session.ledger.reserve(share if share.covers(least) else least)


async def serve(session: Session, request: GrantRequest) -> None:
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
    grant = session.grants.get(request.child)
    if grant is not None and not session.is_over:
        lent = asked + _ahead(session, grant, asked)
        extended = session.ledger.extend(grant, lent)
        if extended is not None:
            session.grants[request.child] = extended
            granted = lent
    session.show()
    grant = Grant(number=request.number, turns=granted.turns, usd=granted.usd)
    # A child that has ended meanwhile needs no answer: its grant comes back with its outcome.
    with suppress(FailureError):
        await workflow.get_external_workflow_handle(request.child).signal(SignalName.GRANT, grant)


def _ahead(session: Session, grant: Reservation, asked: Amount) -> Amount:
    """Reckon what to lend beyond what was asked for, so that a child with much to do asks seldom.

    As much again as it has, if it is no more than its share of what is left.
    """
    plan = session.progress.plan
    left = session.ledger.unspent
    if session.edition < 3 or plan is None or not left.covers(asked):
        return Amount()
    return grant.amount.capped(_share(left - asked, len(plan.subtasks) - len(session.outcomes)))


def _share(left: Amount, sharers: int) -> Amount:
    return Amount(left.turns // sharers, (left.usd / sharers).quantize(Decimal("0.000001"), rounding=ROUND_DOWN))


def _is_hopeless(session: Session, child: str) -> bool:
    """Whether all that run wait for more, and this one came last: then it is the one that goes without."""
    return child not in session.grants or (set(session.grants) <= set(session.waiting) and session.waiting[-1] == child)
