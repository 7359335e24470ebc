"""The middle step of a session: start every subtask as soon as its inputs are there, and collect the outcomes."""

import asyncio

from temporalio import workflow

from chargehand.contracts import Failure, FailureReason, Outcome, Plan, Subtask
from workflows import options
from workflows.rules.graph import ready
from workflows.rules.recovery import skip_reason
from workflows.session import Session
from workflows.steps.attempts import attempt, least_grant, reserve
from workflows.steps.writer import is_long, reserve_report

_Running = dict["asyncio.Task[Outcome]", Subtask]


async def execute(session: Session, plan: Plan) -> None:
    """Run the plan to its end, or until the report is due."""
    if len(plan.subtasks) == 1 and not is_long(session):
        session.report_reserve.release()
    running: _Running = {}
    try:
        while not session.clock.work_is_over:
            _start_ready(session, plan, running)
            if running:
                await _wait_for_change(session, running)
                _collect(session, running)
            elif not await _wait_for_budget(session, plan):
                return
        session.clock.interrupt()
    finally:
        await _stop(session, running)


def _start_ready(session: Session, plan: Plan, running: _Running) -> None:
    outcomes = session.progress.outcomes
    for subtask in ready(plan, {*outcomes, *(started.id for started in running.values())}, outcomes):
        refusal = skip_reason(subtask, outcomes)
        if refusal is not None:
            _end(session, subtask, refusal)
        elif len(running) < session.request.limits.max_parallel:
            not_started = len(plan.subtasks) - len(outcomes) - len(running)
            reservation = reserve(session, subtask, not_started)
            if reservation is None:
                break  # running subtasks finish first and return what they do not need
            running[asyncio.create_task(attempt(session, subtask, reservation))] = subtask
    session.peaks.count_parallel(len(running))
    session.refresh_details()


async def _wait_for_change(session: Session, running: _Running) -> None:
    """Wait until a subtask has ended, a grant was closed that another could start with, or time is up."""
    closed = session.grants.closed
    await workflow.wait_condition(
        lambda: session.clock.work_is_over or session.grants.closed != closed or any(task.done() for task in running)
    )


async def _wait_for_budget(session: Session, plan: Plan) -> bool:
    """Wait for budget for the subtasks that cannot start; False once none is left to start."""
    outcomes = session.progress.outcomes
    blocked = ready(plan, outcomes, outcomes)
    if not blocked:
        # A skipped subtask can have made others ready, or skippable, that came before it in the plan.
        return len(outcomes) < len(plan.subtasks)
    needed = least_grant(session, blocked[0])
    await session.wait_for_budget(needed, lambda: True)
    if session.clock.work_is_over or session.ledger.unspent.covers(needed):
        return True
    reason: FailureReason = "out_of_turns" if session.ledger.unspent.turns < needed.turns else "out_of_budget"
    for subtask in blocked:
        _end(session, subtask, Failure(reason=reason, message="The limits were used up before it could start."))
    return True


def _collect(session: Session, running: _Running) -> None:
    for task in [task for task in running if task.done()]:
        _end(session, running.pop(task), task.result())
    session.stop_if_overcharged()


def _end(session: Session, subtask: Subtask, outcome: Outcome) -> None:
    session.progress.end(subtask.id, outcome, workflow.now())
    reserve_report(session)
    session.refresh_details()


async def _stop(session: Session, running: _Running) -> None:
    """Cancel what still runs and collect what it returns; give up what does not stop in time."""
    if not running:
        return
    session.clock.stop()
    for task in running:
        task.cancel()
    cancelled_again: asyncio.CancelledError | None = None
    timeout = options.STOP_TIMEOUT.total_seconds()
    try:
        await workflow.wait([*running], timeout=timeout)
    except asyncio.CancelledError as error:
        # The ledger is settled before the cancellation goes on.
        cancelled_again = error
        await workflow.wait([*running], timeout=timeout)
    _collect(session, running)
    for subtask in running.values():
        _end(session, subtask, Failure(reason="deadline", message="It did not stop in time."))
    session.grants.charge_lost()
    if cancelled_again is not None:
        raise cancelled_again
