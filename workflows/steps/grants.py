"""Grants: answer the requests of running children for more turns and dollars."""

from workflows.budget.ledger import Amount
from workflows.mailbox.contracts import Envelope, Grant, GrantRequest
from workflows.mailbox.signals import answer
from workflows.state.session import Session
from workflows.steps.visibility import publish
from workflows.steps.waits import wait_for_budget


async def answer_grant_request(session: Session, envelope: Envelope, request: GrantRequest) -> bool:
    """Enlarge a running child's grant, or refuse to; false if none of them can have sent the request.

    Running children come before subtasks that have not started: whatever is unspent may be granted. A child waits until
    others return enough, the limits are raised, or no child is left that could return anything.
    """
    child = envelope.sender
    if child not in session.grants.amounts:
        return False
    session.grants.queue(child)
    granted = await _enlarge_in_time(session, child, Amount(request.turns, request.usd))
    session.grants.dequeue(child)
    publish(session)
    # A child that has ended meanwhile needs no reply: its grant comes back with its outcome.
    await answer(session.mailbox, envelope, Grant(turns=granted.turns, usd=granted.usd))
    return True


async def _enlarge_in_time(session: Session, child: str, missing: Amount) -> Amount:
    """Enlarge a grant as soon as there is enough; nothing if there will not be."""
    granted = Amount()
    is_hopeless = missing == granted  # only a forged request asks for nothing
    while granted == Amount() and not is_hopeless:
        await wait_for_budget(session, missing, lambda: session.grants.is_hopeless(child))
        if session.clock.work_is_over:
            break
        # Of several children that wait for the same amount, the others wait on.
        is_hopeless = session.grants.is_hopeless(child)
        unfinished = len(session.progress.subtasks) - len(session.progress.outcomes)
        granted = session.grants.enlarge(child, missing, unfinished)
    return granted
