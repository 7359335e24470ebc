"""The supervisor's own turns."""

from datetime import datetime
from typing import TypeVar

from activities.turn.contracts import TurnResult
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Task
from chargehand.contracts import Tier
from workflows import options
from workflows.budget.estimates import fixed_bytes, input_bound
from workflows.budget.model_calls import CannotPay, ModelCalls, NewTurn, TurnLost
from workflows.rules.plan_validation import SUPERVISOR
from workflows.state.session import Session
from workflows.steps.visibility import list_state

_Answer = TypeVar("_Answer", bound=TurnAnswer)


async def take_turn(
    session: Session, task: Task, *, tier: Tier | None = None, until: datetime | None = None
) -> TurnResult:
    """Take one of the supervisor's own turns; `tier` replaces the crew's own.

    Raises:
        CannotPay: the ledger does not cover it.
        TurnLost: it failed for good.
    """
    crew, documents = session.facts.crew, session.request.documents
    tier = tier or crew.tier
    list_state(session)
    input_tokens = input_bound(task, fixed_bytes(crew, documents))
    turn = NewTurn(task=task, agent=SUPERVISOR, tier=tier, model=session.model(tier), input_tokens=input_tokens)
    # The clock's own alarm comes first.
    result = await _model_calls(session).take(
        turn, lambda: until or session.clock.report_starts_at + options.LEAST_REPORT_TIME
    )
    session.stop_if_overcharged()
    return result


async def try_turn(
    session: Session,
    task: Task,
    answer: type[_Answer],
    *,
    tier: Tier | None = None,
    until: datetime | None = None,
) -> _Answer | None:
    """Take a turn that the session can do without; None if it cannot be paid, fails, or gives no such answer."""
    try:
        result = await take_turn(session, task, tier=tier, until=until)
    except (CannotPay, TurnLost):
        return None
    return result.answer_as(answer)


def _model_calls(session: Session) -> ModelCalls:
    facts, request = session.facts, session.request
    return ModelCalls(
        spending=session.spending,
        session=session.id,
        crew=facts.crew.reference,
        documents=request.documents,
        output_caps=facts.output_caps,
        effort=facts.crew.effort,
        today=session.clock.started_at.date(),
        urgency=request.urgency,
        queue=facts.turns_queue,
        priority=options.priority_of(request, facts.weight),
    )
