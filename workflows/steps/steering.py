"""Steering: what a person tells the agents of a session goes to the child workflows that run."""

import asyncio

from workflows.mailbox.contracts import SteeringItem
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import notify
from workflows.rules.refusal import Refused
from workflows.state.progress import Progress
from workflows.state.session import Session
from workflows.state.steering import Delivery


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
