"""The first step of a session: a plan that passes its check."""

from contextlib import suppress
from typing import Final

from temporalio.exceptions import ApplicationError

from activities.contracts import SubtaskDraft
from activities.turn_kinds.plan import PlanAnswer, PlanTask, RejectedPlan
from chargehand.contracts import Plan
from chargehand.wire import ErrorType
from workflows.budget.estimates import PLAN_OUTPUT_TOKENS
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.plan_validation import InvalidPlan, check_plan
from workflows.session import Session

_ATTEMPTS: Final = 3
"""The first plan, and two more after its errors were named."""
MOST_SUBTASKS: Final = 100


async def make_plan(session: Session) -> Plan:
    """Have a model write a plan, and write it again while it cannot be carried out; at last, plan by rule.

    Raises:
        ApplicationError: `InvalidPlan` with every reason, or why no model answered.
    """
    rejected: list[RejectedPlan] = []
    for _ in range(_ATTEMPTS):
        draft = await _drafted(session, rejected)
        if isinstance(draft, RejectedPlan):
            rejected.append(draft)
            continue
        try:
            return checked(session, draft)
        except InvalidPlan as error:
            session.model_calls.waste_last()
            rejected.append(RejectedPlan(plan=draft.model_dump_json(exclude={"kind"}), errors=error.errors))
    return _undivided(session, rejected[-1].errors)


def _undivided(session: Session, errors: tuple[str, ...]) -> Plan:
    """Give the whole request to the first agent of the crew that may have it, since nobody could divide it.

    A session below another says instead what went wrong: the one above has other ways.
    """
    if session.edition < 3 or session.request.delegation is not None:
        raise invalid_plan(errors)
    instruction = f"Answer this request: {session.request.goal}"
    for agent in session.facts.crew.agents:
        whole = SubtaskDraft(id="T1", agent=agent.name, instruction=instruction, depends_on=[], required=[])
        with suppress(InvalidPlan):
            plan = checked(session, PlanAnswer(subtasks=[whole], strategy="merge", final_instruction=""))
            session.missing.append(f"'{agent.name}' got the whole request, since no plan was valid: {errors[0]}.")
            return plan
    raise invalid_plan(errors)


def checked(session: Session, draft: PlanAnswer | Plan, *, already: int = 0) -> Plan:
    """Check a plan against this session's crew and limits; its first subtasks may have been carried out already.

    Raises:
        InvalidPlan: with every reason against it.
    """
    return check_plan(
        draft,
        session.facts.crew,
        max_subtasks=already + most_subtasks(session),
        may_nest=session.may_nest,
        ancestors=session.ancestors,
        inherited=session.inherited,
        is_watched=session.request.approval == "plan",
    )


def invalid_plan(errors: tuple[str, ...]) -> ApplicationError:
    """Build the error for a plan that cannot be carried out."""
    return ApplicationError(
        f"The plan cannot be carried out: {'; '.join(errors)}", type=ErrorType.INVALID_PLAN, non_retryable=True
    )


async def _drafted(session: Session, rejected: list[RejectedPlan]) -> PlanAnswer | RejectedPlan:
    task = PlanTask(
        goal=session.request.goal,
        # This very turn is paid before the plan is carried out.
        max_subtasks=max(1, most_subtasks(session) - 1),
        may_nest=session.may_nest,
        rejected=tuple(rejected),
    )
    try:
        result = await session.turn(task, PLAN_OUTPUT_TOKENS)
    except TurnLost as error:
        raise ApplicationError(error.message, type=error.error_type, non_retryable=True) from error
    except CannotPay as error:
        raise ApplicationError(
            "The limits were used up before there was a plan; raise max_turns or budget_usd.",
            type=ErrorType.LIMIT_TOO_SMALL,
            non_retryable=True,
        ) from error
    if result.stop == "refused":
        raise ApplicationError(
            "The model declined to plan this request.", type=ErrorType.PROVIDER_REFUSED, non_retryable=True
        )
    plan = result.answer_as(PlanAnswer)
    return plan or RejectedPlan(plan=result.text, errors=(result.problem or f"the reply was {result.stop}",))


def most_subtasks(session: Session) -> int:
    """Reckon how many more subtasks the turns allow: one needs at least one turn."""
    return max(1, min(MOST_SUBTASKS, session.ledger.unspent.turns))
