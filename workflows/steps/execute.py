"""The middle step of a session: start each subtask as soon as its inputs are available, and collect outcomes.

A template of the plan becomes one subtask per item of a list.
"""

import asyncio
from collections.abc import Coroutine
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from activities.turn_kinds.plan import ExpandAnswer, ExpandTask, RejectedPlan
from chargehand.contracts import Failure, FailureReason, Outcome, Subtask
from workflows import options
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.metrics import count_lost_grant
from workflows.rules.graph import USABLE, skip_reason
from workflows.rules.information_flow import capabilities_of, is_leak
from workflows.rules.inputs import DECISION_TOKENS, fit
from workflows.rules.plan_templates import MOST_ITEMS, expand_template, item_ids
from workflows.rules.plan_validation import InvalidPlan
from workflows.run_end import is_continue_as_new_due
from workflows.state.session import Session
from workflows.steps.attempts import attempt
from workflows.steps.effects import ask_parent, continue_as_new, publish, take_turn, wait_for_budget
from workflows.steps.plan import validate
from workflows.steps.review import is_look_due

_Running = dict["asyncio.Task[Outcome | None]", Subtask]
"""Running subtasks; an expanded template ends without an outcome."""
_NO_ROOM: Final = "The limits left no room for its subtasks."
_ATTEMPTS: Final = 2
"""The first expansion, and one correction."""


async def execute(session: Session) -> None:
    """Run the plan to its end, to the end of a wave that needs a review, or until the report is due."""
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
            # It stops running children, so it happens only when there are none.
            await continue_as_new(
                session,
                lambda: session.clock.work_is_over,
                lambda: session.original.replace(state=session.state().model_dump_json()),
            )
        elif not await _wait_for_budget(session):
            return
    session.clock.interrupt()


def _must_continue_as_new(session: Session) -> bool:
    """Return whether to continue as new once no child is running; a cron's next run would start with the state.

    Without storage for large payloads, the ceiling of turns keeps histories short.
    """
    may_go_on = session.progress.has_moved and session.facts.stores_payloads
    return may_go_on and is_continue_as_new_due() and not workflow.info().cron_schedule


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
    # A template being expanded will need places for its subtasks.
    is_growing = any(subtask.for_each for subtask in running.values())
    session.places.offer(0 if is_growing else session.places.free(len(running)) - len(progress.waiting))
    publish(session)


def _start(session: Session, subtask: Subtask, not_started: int) -> Coroutine[None, None, Outcome | None] | None:
    """Start expanding a template or attempting another subtask; None if the ledger cannot cover the minimum."""
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
    """Wait for budget for the subtasks that cannot start; False once none is left."""
    outcomes, planned, plan = session.progress.outcomes, session.progress.subtasks, session.progress.plan
    blocked = session.progress.ready(())
    if not blocked:
        # A skipped subtask may have made earlier ones in the plan ready or skippable.
        return len(outcomes) < len(planned)
    needed = session.budget.least_start(blocked[0])
    await wait_for_budget(session, needed, lambda: True, lambda: session.progress.plan is not plan)
    if session.clock.work_is_over or session.budget.unspent.covers(needed) or session.progress.plan is not plan:
        return True
    for subtask in blocked:
        needed = session.budget.least_start(subtask)
        if not session.budget.unspent.covers(needed):
            reason: FailureReason = "out_of_turns" if session.budget.unspent.turns < needed.turns else "out_of_budget"
            _end(session, subtask, Failure(reason=reason, message="The limits left too little for it to start."))
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
    """Cancel running subtasks and collect their results; give up those that do not stop in time."""
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
        # Settle the ledger before the cancellation propagates.
        cancelled_again = error
        await workflow.wait([*running], timeout=timeout)
    _collect(session, running)
    for subtask in running.values():
        _end(session, subtask, Failure(reason="deadline", message="It did not stop in time."))
    count_lost_grant(session.budget.grants.charge_lost())
    if cancelled_again is not None:
        raise cancelled_again


async def expand(session: Session, template: Subtask) -> Outcome | None:
    """Replace a template with one subtask per item of its list; return a failure if there are none."""
    try:
        return await _expand(session, template)
    except (asyncio.CancelledError, ActivityError) as error:
        # Only the session itself cancels this.
        if not is_cancelled_exception(error):
            raise
        return Failure(reason="cancelled", message="The session ended before its subtasks were planned.")


async def _expand(session: Session, template: Subtask) -> Outcome | None:
    refusal = _refusal(session, template)
    rejected: list[RejectedPlan] = []
    while refusal is None and len(rejected) < _ATTEMPTS:
        try:
            answer = await _ask(session, template, rejected)
        except TurnLost as error:
            return Failure(reason=error.reason, message=_NO_ROOM if isinstance(error, CannotPay) else error.message)
        if isinstance(answer, RejectedPlan):
            rejected.append(answer)
        elif not answer.instructions:
            refusal = _skip(f"Its list, {template.for_each}, names no item.")
        elif not (room := await _paid(session, template, len(answer.instructions))):
            refusal = Failure(reason="out_of_budget", message=_NO_ROOM)
        elif errors := _adopt(session, template, answer, room):
            session.budget.spending.waste_last()
            rejected.append(RejectedPlan(plan=answer.model_dump_json(exclude={"kind"}), errors=errors))
        else:
            return None
    return refusal or Failure(reason="malformed", message=f"No valid subtasks were planned: {rejected[-1].errors[0]}")


def _refusal(session: Session, template: Subtask) -> Failure | None:
    """Refuse a template whose list was lost, or whose instructions would send out private text without approval."""
    items = session.progress.outcomes[template.for_each or ""]
    if items.kind not in USABLE:
        return _skip(f"Its list, {template.for_each}, was lost.")
    reads = session.provenance.of_inputs(template, template)
    able = capabilities_of(template.agent, session.facts.crew)
    if session.request.approval == "none" and is_leak(able, reads):
        return _skip(f"It reaches out, and its list, {template.for_each}, rests on private text.")
    return None


async def _ask(session: Session, template: Subtask, rejected: list[RejectedPlan]) -> ExpandAnswer | RejectedPlan:
    own_turn, waiting = session.budget.expansion_turn(), session.budget.least_of_waiting()
    room = session.budget.items_beside(template, own_turn + waiting)
    most = MOST_ITEMS if session.may_grow else room
    if not most:
        raise CannotPay("out_of_budget")
    task = fit(
        session.progress.inputs([template.for_each or ""]),
        lambda lists: ExpandTask(
            goal=session.request.goal,
            agent=template.agent,
            template=template.instruction,
            items=lists[0],
            max_subtasks=most,
            rejected=tuple(rejected),
        ),
        DECISION_TOKENS,
    )
    result = await take_turn(session, task)
    answer = result.answer_as(ExpandAnswer)
    return answer or RejectedPlan(plan=result.text, errors=(result.problem or f"the reply was {result.stop}",))


async def _paid(session: Session, template: Subtask, wanted: int) -> int:
    """Compute how many of the requested subtasks the limits pay for; a nested session asks its parent for the rest."""
    least = session.budget.least_grant(template.agent)
    await ask_parent(session, sum([least] * min(wanted, MOST_ITEMS), session.budget.least_of_waiting()))
    if session.request.limits.on_limit == "pause":
        return MOST_ITEMS
    return session.budget.items_beside(template, session.budget.least_of_waiting())


def _adopt(session: Session, template: Subtask, answer: ExpandAnswer, room: int) -> tuple[str, ...]:
    plan = session.progress.plan
    if plan is None:
        raise AssertionError("a template is part of a plan")
    draft = expand_template(plan, template, answer.instructions[:room])
    try:
        # The limits were already checked for the subtasks that have not started.
        larger = validate(session, draft, begun={each.id for each in draft.subtasks})
    except InvalidPlan as error:
        return error.errors
    reads = session.provenance.of_inputs(template, template)
    session.provenance.record_instructions(item_ids(plan, larger), reads)
    session.progress.adopt(larger)
    left_out = [*answer.instructions[room:], *answer.omitted][:MOST_ITEMS]
    session.progress.add_gaps(f"{template.id}: the limits left no room for: {item[:200]}" for item in left_out)
    publish(session)
    return ()


def _skip(message: str) -> Failure:
    return Failure(reason="skipped", message=message)
