"""Awaiting a condition with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from temporalio.client import Client, WorkflowExecution

from chargehand.contracts import SessionState
from chargehand.session import Session

_LOOK_SECONDS: Final = 0.02
_PAUSE_SECONDS: Final = 0.05
"""Pause between two checks that are queries."""
Answer = TypeVar("Answer")


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 120) -> None:
    """Wait until a condition holds; fail when it still does not after `seconds`."""
    async with asyncio.timeout(seconds):
        while not (holds if isinstance(holds := condition(), bool) else await holds):  # noqa: ASYNC110  # what is awaited happens in another process
            await asyncio.sleep(_PAUSE_SECONDS)


async def eventually(
    ask: Callable[[], Awaitable[Answer]], holds: Callable[[Answer], bool] = bool, seconds: float = 120
) -> Answer:
    """Ask until the answer satisfies the condition, and return that answer; fail as `until` does."""
    answers: list[Answer] = []

    async def is_right() -> bool:
        answers[:] = [await ask()]
        return holds(answers[0])

    await until(is_right, seconds)
    return answers[0]


async def until_state(session: Session, state: SessionState) -> None:
    await eventually(session.status, lambda status: status.state == state)


async def runs_of(client: Client, workflow_id: str, least: int = 1) -> Sequence[WorkflowExecution]:
    """List the runs of a workflow, latest first, once the server lists at least this many."""

    async def listed() -> list[WorkflowExecution]:
        return [each async for each in client.list_workflows(f"WorkflowId = '{workflow_id}'")]

    return await eventually(listed, lambda runs: len(runs) >= least)


def hold_until(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait without an event loop until a condition of other processes holds; fail after `seconds`."""
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at, f"{what} did not happen within {seconds} s"
        time.sleep(_LOOK_SECONDS)
