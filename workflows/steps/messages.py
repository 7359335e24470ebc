"""What arrives in the mailbox of a session, by the kind of message, and what a person tells its agents."""

import asyncio

from temporalio import workflow

from workflows.budget.ledger import Amount
from workflows.mailbox.contracts import (
    CallReport,
    CallRequest,
    Envelope,
    Grant,
    GrantRequest,
    Places,
    QuestionRequest,
    SteeringItem,
)
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import answer, notify
from workflows.rules.refusal import Refused
from workflows.state.progress import Progress
from workflows.state.session import Session
from workflows.state.steering import Delivery
from workflows.steps.decisions import answer_subtask, note_outcome
from workflows.steps.visibility import publish
from workflows.steps.waits import wait_for_budget, wait_for_returns


async def act_on(session: Session, envelope: Envelope) -> bool:
    """Act on a request or a notice; false if nothing that belongs to this session can have sent it."""
    match envelope.body:
        case GrantRequest() as request:
            return await _answer_grant_request(session, envelope, request)
        case CallRequest() | QuestionRequest() as request:
            return await answer_subtask(session, envelope, request)
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
    if child not in session.budget.grants.amounts:
        return False
    session.budget.grants.queue(child, is_optional=request.is_optional)
    granted = await _enlarge_in_time(session, child, request)
    session.budget.grants.dequeue(child, is_optional=request.is_optional)
    publish(session)
    # A child that has ended meanwhile needs no reply: its grant comes back with its outcome.
    await answer(session.mailbox, envelope, Grant(turns=granted.turns, usd=granted.usd))
    return True


async def _enlarge_in_time(session: Session, child: str, request: GrantRequest) -> Amount:
    """Enlarge a grant as soon as there is enough; nothing if there will not be."""
    missing, granted = Amount(request.turns, request.usd), Amount()

    def is_in_vain() -> bool:
        return session.budget.grants.is_hopeless(child, is_optional=request.is_optional)

    is_hopeless = missing == granted  # only a forged request asks for nothing
    while granted == Amount() and not is_hopeless:
        wait = wait_for_returns if request.is_optional else wait_for_budget
        await wait(session, missing, is_in_vain)
        if session.clock.work_is_over:
            break
        # Of several children that wait for the same amount, the others wait on.
        is_hopeless = is_in_vain()
        unfinished = len(session.progress.subtasks) - len(session.progress.outcomes)
        granted = session.budget.grants.enlarge(child, missing, unfinished)
    return granted


def check_steering(progress: Progress, text: str, path: str) -> None:
    """Refuse a message that no agent can read or, without text, an interruption of what does not run."""
    progress.refuse_if_over()
    subtask, _, below = path.partition("/")
    running = progress.steering.running
    open_ = [each.id for each in progress.subtasks if each.id not in progress.outcomes]
    if text and path and subtask not in open_:
        problem = "has ended" if subtask in progress.outcomes else "is not in the plan"
        raise Refused(f"subtask: '{subtask}' {problem}; subtasks that have not ended: {', '.join(open_) or 'none'}")
    if not text and (not running or (path and subtask not in running)):
        named = f"'{subtask}' does not run" if path else "no agent runs"
        raise Refused(f"subtask: {named}; subtasks that run: {', '.join(running) or 'none'}")
    if below and not progress.steering.nested(subtask):
        raise Refused(f"subtask: '{subtask}' is no nested session that runs; leave out '/{below}'")
    if text:
        progress.steering.check_room(text)


async def steer(mailbox: Mailbox, progress: Progress, text: str, path: str) -> None:
    """Keep a message for the agents that it is for, and send it to those that run; no text interrupts these."""
    item, ways = progress.steering.address(text, path)

    async def send(way: Delivery) -> None:
        # If the child has ended, the next attempt gets what is kept for the subtask.
        if await notify(mailbox, way, item):
            way.give([item])

    await asyncio.gather(*map(send, ways))


async def pass_on(session: Session, item: SteeringItem) -> bool:
    """Tell the agents of a nested session what its parent hands down; what none of them can read becomes a gap.

    False if no parent can have sent it.
    """
    if session.request.delegation is None:
        return False
    try:
        session.progress.refuse_if_over()
        if item.text:
            check_steering(session.progress, item.text, item.path)
    except Refused:
        session.progress.steering.lose(item)
    else:
        await steer(session.mailbox, session.progress, item.text, item.path)
    return True
