"""The middle step of a session: start every subtask as soon as its inputs are there, and collect the outcomes."""

import asyncio
from collections.abc import Coroutine

from temporalio import workflow

from chargehand.contracts import Failure, FailureReason, Outcome, Subtask
from workflows import continue_as_new, options
from workflows.mailbox.signals import raise_if_cancelled
from workflows.metrics import count_lost_grant
from workflows.rules.graph import skip_reason
from workflows.state.session import Session
from workflows.steps.attempts import attempt
from workflows.steps.expand import expand
from workflows.steps.review import is_look_due
from workflows.steps.visibility import publish
from workflows.steps.waits import wait_for_budget

_Running = dict["asyncio.Task[Outcome | None]", Subtask]
"""What runs; a template that was expanded ends without an outcome."""


async def execute(session: Session) -> None:
    """Run the plan to its end, to the end of a wave that has to be looked at, or until the report is due."""
    if len(session.progress.subtasks) == 1 and not session.is_long_report:
        session.budget.report_reserve.release()
    running: _Running = {}
    try:
        await _run_until_done(session, running)
    except (asyncio.CancelledError, Exception):  # not `finally`: see `on_exit`
        await _stop(session, running)
        raise
    await _stop(session, running)


async def _run_until_done(session: Session, running: _Running) -> None:
    while not session.clock.work_is_over:
        if not running and is_look_due(session):
            return
        if not _must_continue_as_new(session):
            _start_ready(session, running)
        if running:
            await _wait_for_change(session, running)
            _collect(session, running)
        elif _must_continue_as_new(session):
            await _continue_as_new(session)
        elif not await _wait_for_budget(session):
            return
    session.clock.interrupt()


def _must_continue_as_new(session: Session) -> bool:
    """Whether a new run has to go on, as soon as no child is running; that of a cron would start with its state.

    Without storage for large payloads, the ceiling of turns keeps histories short.
    """
    may_go_on = session.progress.has_moved and session.facts.stores_payloads
    return may_go_on and continue_as_new.is_due() and not workflow.info().cron_schedule


async def _continue_as_new(session: Session) -> None:
    """Continue in a new run as soon as every message is answered; returns only if the work is over before.

    A run that continues as new loses its running children, so this happens only when there are none.
    """
    await workflow.wait_condition(lambda: workflow.all_handlers_finished() or session.clock.work_is_over)
    raise_if_cancelled()
    if not session.clock.work_is_over:
        request = session.original.model_copy(update={"state": session.state().model_dump_json()})
        workflow.continue_as_new(request)


def _start_ready(session: Session, running: _Running) -> None:
    progress = session.progress
    for subtask in progress.ready([each.id for each in running.values()]):
        refusal = skip_reason(subtask, progress.outcomes)
        if refusal is not None:
            _end(session, subtask, refusal)
        elif session.places.free(len(running)) > 0:
            left = len(progress.subtasks) - len(progress.outcomes)
            step = _start(session, subtask, not_started=left - len(running))
            if step is None:
                break  # running subtasks finish first and return what they do not need
            progress.begin(subtask.id)
            running[asyncio.create_task(step)] = subtask
    # A template that is expanded is about to need places for what becomes of it.
    is_growing = any(subtask.for_each for subtask in running.values())
    session.places.offer(0 if is_growing else session.places.free(len(running)) - len(progress.waiting))
    publish(session)


def _start(session: Session, subtask: Subtask, not_started: int) -> Coroutine[None, None, Outcome | None] | None:
    """Begin to expand a template, or to attempt any other subtask; None if not even the least of it can be paid."""
    budget = session.budget
    if subtask.for_each:
        return expand(session, subtask) if budget.unspent.covers(budget.least_start(subtask)) else None
    reservation = budget.reserve(subtask, not_started)
    return None if reservation is None else attempt(session, subtask, reservation)


async def _wait_for_change(session: Session, running: _Running) -> None:
    """Wait until a subtask has ended or may be able to start, or time is up."""
    closed, plan, places = session.budget.grants.closed, session.progress.plan, session.places.total
    await workflow.wait_condition(
        lambda: (
            session.clock.work_is_over
            or session.budget.grants.closed != closed
            or session.places.total != places
            or session.progress.plan is not plan
            or any(task.done() for task in running)
        )
    )


async def _wait_for_budget(session: Session) -> bool:
    """Wait for budget for the subtasks that cannot start; False once none is left to start."""
    outcomes, planned, plan = session.progress.outcomes, session.progress.subtasks, session.progress.plan
    blocked = session.progress.ready(())
    if not blocked:
        # A skipped subtask can have made others ready, or skippable, that came before it in the plan.
        return len(outcomes) < len(planned)
    needed = session.budget.least_start(blocked[0])
    await wait_for_budget(session, needed, lambda: True, lambda: session.progress.plan is not plan)
    if session.clock.work_is_over or session.budget.unspent.covers(needed) or session.progress.plan is not plan:
        return True
    for subtask in blocked:
        needed = session.budget.least_start(subtask)
        if not session.budget.unspent.covers(needed):
            reason: FailureReason = "out_of_turns" if session.budget.unspent.turns < needed.turns else "out_of_budget"
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
    session.budget.reserve_report(session.report_words)


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
    count_lost_grant(session.budget.grants.charge_lost())
    if cancelled_again is not None:
        raise cancelled_again
