"""The middle step of a session: start every subtask as soon as its inputs are there, and collect the outcomes."""

import asyncio
from collections.abc import Coroutine

from temporalio import workflow

from chargehand.contracts import Failure, FailureReason, Outcome, Subtask
from workflows import options
from workflows.budget.ledger import Amount
from workflows.contracts import LimitUsage
from workflows.metrics import count_lost_grant
from workflows.rules.graph import ready
from workflows.rules.recovery import skip_reason
from workflows.state.session import Session
from workflows.steps.attempts import attempt, reserve
from workflows.steps.continuation import continue_as_new
from workflows.steps.expand import expand, least_expansion
from workflows.steps.writer import is_long, reserve_report

_Running = dict["asyncio.Task[Outcome | None]", Subtask]
"""What runs; a template that was expanded ends without an outcome."""


async def execute(session: Session) -> None:
    """Run the plan to its end, or until the report is due."""
    if len(session.progress.subtasks) == 1 and not is_long(session):
        session.report_reserve.release()
    running: _Running = {}
    try:
        await _run_until_done(session, running)
    except (asyncio.CancelledError, Exception):  # not `finally`: see `on_exit`
        await _stop(session, running)
        raise
    await _stop(session, running)


async def _run_until_done(session: Session, running: _Running) -> None:
    while not session.clock.work_is_over:
        if not session.must_continue_as_new:
            _start_ready(session, running)
        if running:
            await _wait_for_change(session, running)
            _collect(session, running)
        elif session.must_continue_as_new:
            await continue_as_new(session)
        elif not await _wait_for_budget(session):
            return
    session.clock.interrupt()


def _start_ready(session: Session, running: _Running) -> None:
    outcomes, planned = session.progress.outcomes, session.progress.subtasks
    for subtask in ready(planned, {*outcomes, *(started.id for started in running.values())}, outcomes):
        refusal = skip_reason(subtask, outcomes)
        if refusal is not None:
            _end(session, subtask, refusal)
        elif len(running) < session.request.limits.max_parallel:
            step = _start(session, subtask, not_started=len(planned) - len(outcomes) - len(running))
            if step is None:
                break  # running subtasks finish first and return what they do not need
            session.progress.begin(subtask.id)
            running[asyncio.create_task(step)] = subtask
    session.count_use(LimitUsage(parallel=len(running)))
    session.publish()


def _start(session: Session, subtask: Subtask, not_started: int) -> Coroutine[None, None, Outcome | None] | None:
    """Begin to expand a template, or to attempt any other subtask; None if not even the least of it can be paid."""
    if subtask.for_each:
        return expand(session, subtask) if session.ledger.unspent.covers(_least(session, subtask)) else None
    reservation = reserve(session, subtask, not_started)
    return None if reservation is None else attempt(session, subtask, reservation)


def _least(session: Session, subtask: Subtask) -> Amount:
    return least_expansion(session, subtask) if subtask.for_each else session.least_grant(subtask.agent)


async def _wait_for_change(session: Session, running: _Running) -> None:
    """Wait until a subtask has ended or may be able to start, or time is up."""
    closed, plan = session.grants.closed, session.progress.plan
    await workflow.wait_condition(
        lambda: (
            session.clock.work_is_over
            or session.grants.closed != closed
            or session.progress.plan is not plan
            or any(task.done() for task in running)
        )
    )


async def _wait_for_budget(session: Session) -> bool:
    """Wait for budget for the subtasks that cannot start; False once none is left to start."""
    outcomes, planned, plan = session.progress.outcomes, session.progress.subtasks, session.progress.plan
    blocked = ready(planned, outcomes, outcomes)
    if not blocked:
        # A skipped subtask can have made others ready, or skippable, that came before it in the plan.
        return len(outcomes) < len(planned)
    needed = _least(session, blocked[0])
    await session.wait_for_budget(needed, lambda: True, lambda: session.progress.plan is not plan)
    if session.clock.work_is_over or session.ledger.unspent.covers(needed) or session.progress.plan is not plan:
        return True
    for subtask in blocked:
        needed = _least(session, subtask)
        if not session.ledger.unspent.covers(needed):
            reason: FailureReason = "out_of_turns" if session.ledger.unspent.turns < needed.turns else "out_of_budget"
            _end(session, subtask, Failure(reason=reason, message="The limits were used up before it could start."))
    return True


def _collect(session: Session, running: _Running) -> None:
    for task in [task for task in running if task.done()]:
        subtask, outcome = running.pop(task), task.result()
        if outcome is not None:
            _end(session, subtask, outcome)
    session.stop_if_overcharged()


def _end(session: Session, subtask: Subtask, outcome: Outcome) -> None:
    session.progress.end(subtask.id, outcome, workflow.now())
    reserve_report(session)
    session.publish()


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
    count_lost_grant(session.grants.charge_lost())
    if cancelled_again is not None:
        raise cancelled_again
