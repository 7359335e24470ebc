"""What arrives in the mailbox of a session, by the kind of message; requests for larger grants are answered here."""

from temporalio import workflow

from workflows.budget.ledger import Amount
from workflows.mailbox.contracts import CallReport, CallRequest, Envelope, Grant, GrantRequest, Places, SteeringItem
from workflows.mailbox.signals import answer
from workflows.state.session import Session
from workflows.steps.call_approvals import answer_call_request, note_outcome
from workflows.steps.steering import pass_on
from workflows.steps.visibility import publish
from workflows.steps.waits import wait_for_budget, wait_for_returns


async def act_on(session: Session, envelope: Envelope) -> bool:
    """Act on a request or a notice; false if nothing that belongs to this session can have sent it."""
    match envelope.body:
        case GrantRequest() as request:
            return await _answer_grant_request(session, envelope, request)
        case CallRequest() as request:
            return await answer_call_request(session, envelope, request)
        case CallReport() as report:
            return note_outcome(session, envelope, report)
        case SteeringItem() as item:
            return await pass_on(session, item)
        case Places() as places if _is_from_parent(envelope):
            session.places.grow(min(places.total, session.request.limits.max_parallel))
            if places.is_paused != session.clock.is_paused:
                session.clock.pause() if places.is_paused else session.clock.resume()
            return True
        case _:
            return False


def _is_from_parent(envelope: Envelope) -> bool:
    parent = workflow.info().parent
    return parent is not None and parent.workflow_id == envelope.sender


async def _answer_grant_request(session: Session, envelope: Envelope, request: GrantRequest) -> bool:
    """Enlarge a running child's grant, or refuse to; false if none of them can have sent the request.

    Running children come before subtasks that have not started: whatever is unspent may be granted. A child waits until
    others return enough, the limits are raised, or no child is left that could return anything.
    """
    child = envelope.sender
    if child not in session.grants.amounts:
        return False
    session.grants.queue(child)
    granted = await _enlarge_in_time(session, child, request)
    session.grants.dequeue(child)
    publish(session)
    # A child that has ended meanwhile needs no reply: its grant comes back with its outcome.
    await answer(session.mailbox, envelope, Grant(turns=granted.turns, usd=granted.usd))
    return True


async def _enlarge_in_time(session: Session, child: str, request: GrantRequest) -> Amount:
    """Enlarge a grant as soon as there is enough; nothing if there will not be."""
    missing, granted = Amount(request.turns, request.usd), Amount()
    is_hopeless = missing == granted  # only a forged request asks for nothing
    while granted == Amount() and not is_hopeless:
        wait = wait_for_returns if request.is_optional else wait_for_budget
        await wait(session, missing, lambda: session.grants.is_hopeless(child))
        if session.clock.work_is_over:
            break
        # Of several children that wait for the same amount, the others wait on.
        is_hopeless = session.grants.is_hopeless(child)
        unfinished = len(session.progress.subtasks) - len(session.progress.outcomes)
        granted = session.grants.enlarge(child, missing, unfinished)
    return granted
