"""The middle step of a session: every subtask is started the moment its inputs are there, and its outcome taken in."""

import asyncio
from datetime import timedelta
from typing import Final

from temporalio import workflow

from chargehand.contracts import Failure, FailureReason, Outcome, Plan, Subtask
from workflows.budget.grants import lend
from workflows.rules.graph import ready
from workflows.rules.recovery import skipped
from workflows.session import Session
from workflows.steps.attempts import least_grant, pursue

_GRACE: Final = timedelta(seconds=5)
"""How long a subtask that is asked to stop may take to hand back what it has."""

_Running = dict["asyncio.Task[Outcome]", Subtask]


async def carry_out(session: Session, plan: Plan) -> None:
    """Run the plan to its end, or until it is time to write the report."""
    if len(plan.subtasks) == 1:
        session.release_report_reserve()
    running: _Running = {}
    try:
        while not session.is_over:
            _start_what_is_ready(session, plan, running)
            if running:
                await _wait_for_something(session, running)
                _take_in(session, running)
            elif not await _wait_for_more(session, plan):
                return
        session.cut_short = True
    finally:
        await _stop(session, running)


async def _wait_for_something(session: Session, running: _Running) -> None:
    """Wait until a subtask has ended, or has given something back that another could start with, or time is up."""
    session.returned.clear()
    events = [session.clock]
    if session.edition >= 2:
        events.append(asyncio.create_task(_until_set(session.returned)))
    try:
        await workflow.wait([*running, *events], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for event in events[1:]:
            event.cancel()


async def _until_set(event: asyncio.Event) -> None:
    await event.wait()


def _start_what_is_ready(session: Session, plan: Plan, running: _Running) -> None:
    for subtask in ready(plan, {*session.outcomes, *(taken.id for taken in running.values())}, session.outcomes):
        refusal = skipped(subtask, session.outcomes)
        if refusal is not None:
            _end(session, subtask, refusal)
        elif len(running) < session.request.limits.max_parallel:
            not_started = len(plan.subtasks) - len(session.outcomes) - len(running)
            lent = lend(session, least_grant(session, subtask), not_started)
            if lent is None:
                break  # what has begun is finished first; it gives back what it does not need
            running[asyncio.create_task(pursue(session, subtask, lent))] = subtask
    session.used.at_once = max(session.used.at_once, len(running))
    session.show()


async def _wait_for_more(session: Session, plan: Plan) -> bool:
    """Get means for the subtasks that nothing is left for; False once none is left to start."""
    unable = ready(plan, session.outcomes, session.outcomes)
    if not unable:
        # A skipped subtask can have made others ready, or skippable, that came before it in the plan.
        return len(session.outcomes) < len(plan.subtasks)
    needed = least_grant(session, unable[0])
    await session.more(needed, hopeless=lambda: True)
    if session.is_over or session.ledger.unspent.covers(needed):
        return True
    reason: FailureReason = "out_of_turns" if session.ledger.unspent.turns < needed.turns else "out_of_budget"
    for subtask in unable:
        _end(session, subtask, Failure(reason=reason, message="The limits were used up before it could start."))
    return True


def _take_in(session: Session, running: _Running) -> None:
    for task in [task for task in running if task.done()]:
        _end(session, running.pop(task), task.result())


def _end(session: Session, subtask: Subtask, outcome: Outcome) -> None:
    session.outcomes[subtask.id] = outcome
    session.progress.ended(subtask.id, outcome, workflow.now())
    session.show()


async def _stop(session: Session, running: _Running) -> None:
    """Ask what still runs to hand back what it has; what does not answer in time is given up."""
    session.is_stopping = bool(running) or session.is_stopping
    if not running:
        return
    for task in running:
        task.cancel()
    told_again: asyncio.CancelledError | None = None
    try:
        await workflow.wait([*running], timeout=_GRACE.total_seconds())
    except asyncio.CancelledError as error:
        # It is stopping already; its books are closed before it says so.
        told_again = error
        await workflow.wait([*running], timeout=_GRACE.total_seconds())
    _take_in(session, running)
    for subtask in running.values():
        _end(session, subtask, Failure(reason="deadline", message="It did not stop in time."))
    session.charge_what_is_lost()
    if told_again is not None:
        raise told_again
