"""The step after the plan's subtasks: is it enough, what contradicts what, and what has to be added."""

from collections.abc import Iterable
from typing import Final

from activities.contracts import SubtaskDraft
from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.review import ReviewAnswer, ReviewTask
from chargehand.contracts import Outcome, Plan, Success
from workflows.budget.estimates import DECISION_OUTPUT_TOKENS, SYNTHESIS_INPUT_BYTES
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.information_flow import leaks
from workflows.rules.plan_validation import InvalidPlan
from workflows.rules.report_content import fitted
from workflows.session import Session
from workflows.steps.judgement import settle_contradictions
from workflows.steps.plan import checked, most_subtasks

_MOST_REVIEWS: Final = 2
"""The plan's outcomes are reviewed, and once more what was added."""
_DOUBTFUL: Final = 50
"""Confidence below which an answer is looked at again."""


async def review(session: Session, plan: Plan) -> Plan | None:
    """Look whether the outcomes meet the goal; the plan with what is to be added, or None if nothing is."""
    if session.edition < 2 or session.is_over or session.reviews == _MOST_REVIEWS or not wants_review(session):
        return None
    session.reviews += 1
    found = await _asked(session)
    if found is None:
        return None
    outcomes = session.inputs(subtask.id for subtask in plan.subtasks)
    session.contradictions += await settle_contradictions(session, found.contradictions, outcomes)
    if found.enough:
        return None
    larger = _enlarged(session, plan, found)
    if larger is None:
        session.missing += found.missing
    return larger


def wants_review(session: Session) -> bool:
    """Whether this session's outcomes are to be looked at again."""
    wanted = session.request.review
    return wanted == "always" or (wanted == "auto" and any_doubtful(session.outcomes.values()))


def any_doubtful(outcomes: Iterable[Outcome]) -> bool:
    """Whether something among outcomes is missing or unsure."""
    return any(
        not isinstance(outcome, Success) or bool(outcome.gaps) or outcome.confidence < _DOUBTFUL for outcome in outcomes
    )


async def _asked(session: Session) -> ReviewAnswer | None:
    plan = session.progress.plan
    outcomes = session.inputs(subtask.id for subtask in plan.subtasks) if plan else ()
    task = ReviewTask(
        goal=session.request.goal,
        outcomes=fitted(outcomes, SYNTHESIS_INPUT_BYTES),
        max_subtasks=max(0, most_subtasks(session) - 1) if session.can_still_write else 0,
        may_nest=session.may_nest,
    )
    try:
        result = await session.turn(task, DECISION_OUTPUT_TOKENS)
    except (CannotPay, TurnLost):
        return None
    return result.answer_as(ReviewAnswer)


def _enlarged(session: Session, plan: Plan, found: ReviewAnswer) -> Plan | None:
    """Add what a review asks for to the plan; None if it asks for nothing that can be carried out."""
    if not found.subtasks or not session.set_report_aside():
        return None
    there = [SubtaskDraft.model_validate(subtask.model_dump(mode="json")) for subtask in plan.subtasks]
    draft = PlanAnswer(
        subtasks=[*there, *found.subtasks],
        strategy=plan.strategy,
        final_instruction=plan.final_instruction,
    )
    try:
        larger = checked(session, draft, already=len(plan.subtasks))
    except InvalidPlan:
        return None
    # Whoever reviews has read all of it, and nobody has approved what they add.
    read = session.inherited.union(*session.carried.values())
    if leaks(found.subtasks, session.facts.crew, read):
        return None
    session.dictated |= {added.id: read for added in found.subtasks}
    return larger
