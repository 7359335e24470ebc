"""What the steps of a session wait for: the time of its report, turns and dollars, and people.

Each wait for a person is an event when it begins and when it is decided, for plug-ins to tell.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow

from chargehand.contracts import DecisionRecord, Wait, WaitKind
from chargehand.plugins import Hook, installed
from workflows.budget.ledger import Amount
from workflows.budget.model_calls import request_grant
from workflows.on_exit import on_exit
from workflows.options import execution_timeout
from workflows.state.clock import Clock
from workflows.state.progress import usual_time
from workflows.state.session import Session
from workflows.steps.visibility import enter, resume

_Result = TypeVar("_Result")
_ASKS_CHARACTERS = 500


def start_alarm(clock: Clock) -> None:
    asyncio.create_task(_ring_when_report_is_due(clock))  # noqa: RUF006  # the SDK keeps the tasks of a workflow


async def within_time(clock: Clock, step: Coroutine[object, object, _Result]) -> _Result | None:
    """Run a step; cancel it and return None if the report is due first."""
    task = asyncio.create_task(step)
    try:
        await workflow.wait_condition(lambda: task.done() or clock.is_report_due)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    if task.done():
        return task.result()
    clock.interrupt()
    await _cancel(task)
    return None


async def ask_parent(session: Session, needed: Amount) -> None:
    """Ask the parent session for what is missing of an amount; it may refuse. The root has no parent."""
    if session.request.delegation is not None:
        await request_grant(session.mailbox, session.budget.ledger, needed, lambda: session.clock.work_is_over)


async def wait_for_returns(session: Session, needed: Amount, is_hopeless: Callable[[], bool]) -> None:
    """Wait until an amount is unspent, cannot become so without others, or the report is due."""
    await workflow.wait_condition(
        lambda: session.budget.unspent.covers(needed) or session.clock.work_is_over or is_hopeless()
    )


async def wait_for_budget(
    session: Session, needed: Amount, is_hopeless: Callable[[], bool], is_moot: Callable[[], bool] = lambda: False
) -> None:
    """Wait until an amount is unspent, cannot become so any more, is not needed any more, or the report is due.

    It is due, too, once a person was waited for in vain.
    """

    def is_there() -> bool:
        return session.budget.unspent.covers(needed)

    await ask_parent(session, needed)
    await wait_for_returns(session, needed, is_hopeless)
    if session.request.limits.on_limit == "pause" and not is_there() and not session.clock.work_is_over:
        enter(session, "paused")
        spent, granted = session.budget.ledger.spent, session.budget.ledger.granted
        asks = f"{spent.turns} of {granted.turns} turns and ${spent.usd:.2f} of ${granted.usd:.2f} are spent"
        wait = new_wait(session, "limits", session.progress.waits.limits_id, asks)
        if not await wait_for_person(session, wait, lambda: is_there() or session.clock.work_is_over or is_moot()):
            session.clock.ring()
        resume(session)


async def _ring_when_report_is_due(clock: Clock) -> None:
    while not clock.is_finish_requested and (left := clock.report_starts_at - workflow.now()) > timedelta(0):
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: clock.is_finish_requested or clock.is_paused, timeout=left, timeout_summary="until the report"
            )
        await workflow.wait_condition(lambda: clock.is_finish_requested or not clock.is_paused)
    clock.ring()


async def _cancel(task: "asyncio.Task[_Result]") -> None:
    """Cancel a step and wait until the ledger has booked what it was about to pay."""
    task.cancel()
    await workflow.wait([task])
    if not task.cancelled():
        task.exception()


def new_wait(session: Session, kind: WaitKind, id_: str, asks: str) -> Wait:
    """Describe a wait that begins now; it ends so that the server leaves the session the time for its work."""
    now, info, clock = workflow.now(), workflow.info(), session.clock
    left = session.request.answer_within or usual_time(kind, now)
    timeout = execution_timeout()
    if timeout is not None:
        ends_at = min(info.workflow_start_time, clock.started_at) + timeout
        left = max(min(left, ends_at - max(clock.deadline_at, now)), timedelta(0))
    return Wait(id=id_, kind=kind, asks=_line(asks), since=now, until=now + left)


async def announce_reply(session: Session, number: int, text: str) -> None:
    """Announce that a conversation waits for its user, with the latest reply; what ends that is the next message."""
    clock = session.clock
    wait = Wait(id=f"message-{number}", kind="message", asks=_line(text), since=workflow.now(), until=clock.deadline_at)
    for announce in installed().functions(Hook.WAIT):
        await announce(session, wait, None)


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


def _line(text: str) -> str:
    return " ".join(text.split())[:_ASKS_CHARACTERS]


def _announce(session: Session, wait: Wait, decision: DecisionRecord | None) -> None:
    for announce in installed().functions(Hook.WAIT):
        asyncio.create_task(announce(session, wait, decision))  # noqa: RUF006  # the SDK keeps the tasks of a workflow
