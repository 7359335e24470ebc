"""Steering: what a person tells the agents of a session goes to the child workflows that run."""

import asyncio
from collections.abc import Iterable

from temporalio import workflow
from temporalio.exceptions import FailureError

from chargehand.wire import SignalName
from workflows.contracts import Steering, SteeringItem
from workflows.state.progress import Progress
from workflows.steering import Delivery, SteeringRefused


def check_message(progress: Progress, text: str, path: str) -> None:
    """Refuse a message that nobody can read.

    Raises:
        SteeringRefused: its subtask has ended or is unknown, or there are too many messages.
    """
    subtask, _, below = path.partition("/")
    open_ = [each.id for each in progress.subtasks if each.id not in progress.outcomes]
    if path and subtask not in open_:
        problem = "has ended" if subtask in progress.outcomes else "is not in the plan"
        raise SteeringRefused(
            f"subtask: '{subtask}' {problem}; subtasks that have not ended: {', '.join(open_) or 'none'}"
        )
    _check_below(progress, subtask, below)
    progress.steering.check_room(text)


def check_interruption(progress: Progress, path: str) -> None:
    """Refuse an interruption of what does not run.

    Raises:
        SteeringRefused: no agent of it runs.
    """
    subtask, _, below = path.partition("/")
    running = progress.steering.running
    if not running or (path and subtask not in running):
        named = f"'{subtask}' does not run" if path else "no agent runs"
        raise SteeringRefused(f"subtask: {named}; subtasks that run: {', '.join(running) or 'none'}")
    _check_below(progress, subtask, below)


async def tell(progress: Progress, text: str, path: str) -> None:
    """Keep a message for the agents that it is for, and send it to those that run."""
    subtask, _, below = path.partition("/")
    await _send(progress.steering.tell(text, subtask, below))


async def interrupt(progress: Progress, path: str) -> None:
    """End the tools of the agents that run."""
    subtask, _, below = path.partition("/")
    await _send(progress.steering.interrupt(subtask, below))


async def pass_on(progress: Progress, items: Iterable[SteeringItem], *, is_over: bool) -> None:
    """Tell the agents of a nested session what its parent hands down; what nobody can read becomes a gap."""
    ways: dict[Delivery, None] = {}
    for item in filter(progress.steering.accept, items):
        subtask, _, below = item.path.partition("/")
        try:
            if item.text:
                check_message(progress, item.text, item.path)
        except SteeringRefused:
            progress.steering.lose(item)
            continue
        if is_over:
            progress.steering.lose(item)
        elif item.text:
            ways |= dict.fromkeys(progress.steering.tell(item.text, subtask, below))
        else:
            ways |= dict.fromkeys(progress.steering.interrupt(subtask, below))
    await _send(ways)


def _check_below(progress: Progress, subtask: str, below: str) -> None:
    if below and not progress.steering.nested(subtask):
        raise SteeringRefused(f"subtask: '{subtask}' is no nested session that runs; leave out '/{below}'")


async def _send(ways: Iterable[Delivery]) -> None:
    await asyncio.gather(*map(_send_what_waits, ways))


async def _send_what_waits(way: Delivery) -> None:
    """Send a child what waits for it, once it exists; everything arrives in order."""
    async with way.lock:
        await workflow.wait_condition(lambda: way.is_started or way.is_over)
        items = way.take()
        if way.is_over or not items:
            return
        try:
            # By id alone: the child may have continued as new.
            child = workflow.get_external_workflow_handle(way.workflow_id)
            await child.signal(SignalName.STEER, Steering(items=items))
        except FailureError:
            return  # it has ended; the next attempt gets what is kept for the subtask
        way.give(items)
