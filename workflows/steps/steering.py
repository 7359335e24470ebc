"""Steering: what a person tells the agents of a session goes to the child workflows that run."""

import asyncio
from collections.abc import Iterable

from workflows.mailbox.contracts import SteeringItem
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import notify
from workflows.rules.refusal import Refused
from workflows.state.progress import Progress
from workflows.state.session import Session
from workflows.state.steering import Delivery


def check_message(progress: Progress, text: str, path: str) -> None:
    """Refuse a message that no agent can read.

    Raises:
        Refused: the work is over, its subtask has ended or is unknown, or there are too many messages.
    """
    progress.refuse_if_over()
    subtask, _, below = path.partition("/")
    open_ = [each.id for each in progress.subtasks if each.id not in progress.outcomes]
    if path and subtask not in open_:
        problem = "has ended" if subtask in progress.outcomes else "is not in the plan"
        raise Refused(f"subtask: '{subtask}' {problem}; subtasks that have not ended: {', '.join(open_) or 'none'}")
    _check_below(progress, subtask, below)
    progress.steering.check_room(text)


def check_interruption(progress: Progress, path: str) -> None:
    """Refuse an interruption of what does not run.

    Raises:
        Refused: no agent of it runs.
    """
    progress.refuse_if_over()
    subtask, _, below = path.partition("/")
    running = progress.steering.running
    if not running or (path and subtask not in running):
        named = f"'{subtask}' does not run" if path else "no agent runs"
        raise Refused(f"subtask: {named}; subtasks that run: {', '.join(running) or 'none'}")
    _check_below(progress, subtask, below)


async def tell(mailbox: Mailbox, progress: Progress, text: str, path: str) -> None:
    """Keep a message for the agents that it is for, and send it to those that run."""
    subtask, _, below = path.partition("/")
    await _send(mailbox, *progress.steering.tell(text, subtask, below))


async def interrupt(mailbox: Mailbox, progress: Progress, path: str) -> None:
    """End the tools of the agents that run."""
    subtask, _, below = path.partition("/")
    await _send(mailbox, *progress.steering.interrupt(subtask, below))


async def pass_on(session: Session, item: SteeringItem) -> bool:
    """Tell the agents of a nested session what its parent hands down; what none of them can read becomes a gap.

    False if no parent can have sent it.
    """
    progress = session.progress
    if session.request.delegation is None:
        return False
    try:
        if item.text:
            check_message(progress, item.text, item.path)
    except Refused:
        progress.steering.lose(item)
        return True
    if session.progress.work_is_over:
        progress.steering.lose(item)
    elif item.text:
        await tell(session.mailbox, progress, item.text, item.path)
    else:
        await interrupt(session.mailbox, progress, item.path)
    return True


def _check_below(progress: Progress, subtask: str, below: str) -> None:
    if below and not progress.steering.nested(subtask):
        raise Refused(f"subtask: '{subtask}' is no nested session that runs; leave out '/{below}'")


async def _send(mailbox: Mailbox, item: SteeringItem, ways: Iterable[Delivery]) -> None:
    async def send(way: Delivery) -> None:
        if await notify(mailbox, way, item):
            way.give([item])
        # If the child has ended, the next attempt gets what is kept for the subtask.

    await asyncio.gather(*map(send, ways))
