"""Within the middle step: the plan grows over a list. A template becomes one subtask for each item that was found."""

import asyncio
from typing import Final

from temporalio.exceptions import ActivityError, is_cancelled_exception

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.expand_subtask import ExpandAnswer, ExpandTask
from activities.turn_kinds.plan import RejectedPlan
from chargehand.contracts import Failure, Outcome, Subtask
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.graph import USABLE
from workflows.rules.information_flow import capabilities_of, is_leak
from workflows.rules.inputs import DECISION_TOKENS, fit
from workflows.rules.plan_edits import MOST_ITEMS, expand_template, item_ids
from workflows.rules.plan_validation import InvalidPlan
from workflows.state.session import Session
from workflows.steps.plan import validate
from workflows.steps.turns import take_turn
from workflows.steps.visibility import publish
from workflows.steps.waits import ask_parent

_NO_ROOM: Final = "The limits left no room for its subtasks."
_ATTEMPTS: Final = 2
"""The first expansion, and one more after its errors were named."""


async def expand(session: Session, template: Subtask) -> Outcome | None:
    """Replace a template of the plan by a subtask for each item of its list; returns a failure if that gives none."""
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
    """Refuse a template whose list was lost, or would let private text out in instructions without approval."""
    items = session.progress.outcomes[template.for_each or ""]
    if items.kind not in USABLE:
        return _skip(f"Its list, {template.for_each}, was lost.")
    reads = session.provenance.of_inputs(template, template)
    able = capabilities_of(template.agent, session.facts.crew)
    if session.request.approval == "none" and is_leak(able, reads):
        return _skip(f"It reaches out, and its list, {template.for_each}, rests on private text.")
    return None


async def _ask(session: Session, template: Subtask, rejected: list[RejectedPlan]) -> ExpandAnswer | RejectedPlan:
    """Have a model write the instructions."""
    own_turn, waiting = session.budget.expansion_turn(), session.budget.least_of_waiting()
    room = session.budget.items_beside(template, own_turn + waiting)
    most = MOST_ITEMS if session.may_grow else room
    if not most:
        raise CannotPay("out_of_budget")

    def reading(lists: tuple[InputOutcome, ...]) -> ExpandTask:
        [items] = lists
        return ExpandTask(
            goal=session.request.goal,
            agent=template.agent,
            template=template.instruction,
            items=items,
            max_subtasks=most,
            rejected=tuple(rejected),
        )

    found = session.progress.inputs([template.for_each or ""])
    result = await take_turn(session, fit(found, reading, DECISION_TOKENS))
    answer = result.answer_as(ExpandAnswer)
    return answer or RejectedPlan(plan=result.text, errors=(result.problem or f"the reply was {result.stop}",))


async def _paid(session: Session, template: Subtask, wanted: int) -> int:
    """Compute how many of the wanted subtasks the limits pay for; a nested session asks its parent for the rest."""
    least = session.budget.least_grant(template.agent)
    await ask_parent(session, sum([least] * min(wanted, MOST_ITEMS), session.budget.least_of_waiting()))
    if session.request.limits.on_limit == "pause":
        return MOST_ITEMS
    return session.budget.items_beside(template, session.budget.least_of_waiting())


def _adopt(session: Session, template: Subtask, answer: ExpandAnswer, room: int) -> tuple[str, ...]:
    """Follow the plan with a template's subtasks in its place; returns the reasons why it cannot be followed."""
    plan = session.progress.plan
    if plan is None:
        raise AssertionError("a template is part of a plan")
    draft = expand_template(plan, template, answer.instructions[:room])
    try:
        # The limits are checked before, for the subtasks that have not started.
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
