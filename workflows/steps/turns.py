"""The supervisor's own turns."""

from datetime import datetime
from typing import TypeVar

from activities.turn.contracts import TurnRequest, TurnResult
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Task
from chargehand.contracts import Tier
from workflows import options
from workflows.budget.estimates import fixed_bytes, input_bound, purpose_of
from workflows.budget.model_calls import ModelCalls, TurnLost, was_reset
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
    facts, documents = session.facts, session.request.documents
    crew, tier = facts.crew, tier or facts.crew.tier
    list_state(session)
    request = TurnRequest(
        session=session.root,
        step="",
        crew=crew.reference,
        agent=SUPERVISOR,
        tier=tier,
        documents=documents,
        hides_documents=session.hides_documents(task),
        task=task,
        profile=facts.terms.profile,
        today=session.clock.started_at.date(),
        max_input_tokens=input_bound(task, fixed_bytes(crew, documents)),
        max_output_tokens=0,
        effort=purpose_of(task).effort_in(crew.effort),
        urgency=session.request.urgency,
        live_text=session.request.live_text,
        after_reset=was_reset(),
    )
    calls = ModelCalls(
        spending=session.budget.spending,
        output_caps=facts.output_caps,
        queue=facts.turns_queue,
        priority=options.priority_of(session.request, facts.weight),
    )
    # The clock's own alarm comes first.
    result = await calls.take(
        request, session.budget.model(tier), lambda: until or session.clock.report_starts_at + options.LEAST_REPORT_TIME
    )
    session.stop_if_overcharged()
    return result


async def try_turn(
    session: Session, task: Task, answer: type[_Answer], *, tier: Tier | None = None, until: datetime | None = None
) -> _Answer | None:
    """Take a turn that the session can do without; None if it cannot be paid, fails, or gives no such answer."""
    try:
        result = await take_turn(session, task, tier=tier, until=until)
    except TurnLost:
        return None
    return result.answer_as(answer)
