"""What the steps of a session wait for: the time of its report, and turns and dollars."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow

from workflows.budget.grant_request import request_grant
from workflows.budget.ledger import Amount
from workflows.state.clock import Clock
from workflows.state.session import Session
from workflows.steps.visibility import enter, resume
from workflows.steps.waits_for_people import new_wait, wait_for_person

_Result = TypeVar("_Result")


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
        await request_grant(session.mailbox, session.ledger, needed, lambda: session.clock.work_is_over)


async def wait_for_returns(session: Session, needed: Amount, is_hopeless: Callable[[], bool]) -> None:
    """Wait until an amount is unspent, cannot become so without others, or the report is due."""
    await workflow.wait_condition(
        lambda: session.ledger.unspent.covers(needed) or session.clock.work_is_over or is_hopeless()
    )


async def wait_for_budget(
    session: Session, needed: Amount, is_hopeless: Callable[[], bool], is_moot: Callable[[], bool] = lambda: False
) -> None:
    """Wait until an amount is unspent, cannot become so any more, is not needed any more, or the report is due.

    It is due, too, once a person was waited for in vain.
    """

    def is_there() -> bool:
        return session.ledger.unspent.covers(needed)

    await ask_parent(session, needed)
    await wait_for_returns(session, needed, is_hopeless)
    if session.request.limits.on_limit == "pause" and not is_there() and not session.clock.work_is_over:
        enter(session, "paused")
        spent, granted = session.ledger.spent, session.ledger.granted
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
