"""The waits of a session for people: each is an event when it begins and when it is decided, for plug-ins to tell."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow

from chargehand.contracts import DecisionRecord, Wait, WaitKind
from chargehand.plugins import Hook, installed
from workflows.on_exit import on_exit
from workflows.options import execution_timeout
from workflows.rules.answer_time import usual_time
from workflows.state.session import Session

_ASKS_CHARACTERS = 500


def new_wait(session: Session, kind: WaitKind, id_: str, asks: str) -> Wait:
    """Describe a wait that begins now; it ends so that the server leaves the session the time for its work."""
    now, info, clock = workflow.now(), workflow.info(), session.clock
    left = session.request.answer_within or usual_time(kind, now)
    timeout = execution_timeout()
    if timeout is not None:
        ends_at = min(info.workflow_start_time, clock.started_at) + timeout
        left = max(min(left, ends_at - max(clock.deadline_at, now)), timedelta(0))
    return Wait(id=id_, kind=kind, asks=" ".join(asks.split())[:_ASKS_CHARACTERS], since=now, until=now + left)


async def wait_for_person(session: Session, wait: Wait, is_over: Callable[[], bool]) -> bool:
    """Announce that the session waits for a person, wait until that is over, and announce how it ended.

    The session's clock stands still meanwhile. A wait of the same id is announced once. Returns whether it is over.
    """
    if is_over() or wait.until <= workflow.now():
        return is_over()
    waits, clock, is_new = session.progress.waits, session.clock, wait.id not in session.progress.waits.open

    def end() -> None:
        clock.resume()
        if is_new:
            _announce(session, wait, waits.end(wait, workflow.now()))

    clock.pause()
    if is_new:
        waits.begin(wait)
        _announce(session, wait, None)
    with on_exit(end), suppress(TimeoutError):
        await workflow.wait_condition(
            is_over, timeout=wait.until - workflow.now(), timeout_summary=f"until {wait.id} ends without a decision"
        )
    return is_over()


def _announce(session: Session, wait: Wait, decision: DecisionRecord | None) -> None:
    for announce in installed().functions(Hook.WAIT):
        asyncio.create_task(announce(session, wait, decision))  # noqa: RUF006  # the SDK keeps the tasks of a workflow
