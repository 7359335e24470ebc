"""The first step of a session: what the world says about its request, and whether its limits pay for anything."""

from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from activities.contracts import OpenSessionRequest, SessionFacts
from activities.session_facts import SessionActivities
from chargehand.contracts import SessionRequest
from chargehand.converter import invalid_input
from chargehand.wire import ErrorType
from workflows import options
from workflows.budget.client import BudgetClient
from workflows.budget.estimates import least_workable, worst_report
from workflows.budget.ledger import Amount, Ledger, Reservation
from workflows.budget.model_calls import MeteredModelCalls
from workflows.progress import Progress
from workflows.session import Session

_LONGEST_ID: Final = 800


async def open_session(request: SessionRequest, progress: Progress, budget_client: BudgetClient) -> Session:
    """Read what the world says about a request, and refuse what cannot work.

    Raises:
        ApplicationError: `InvalidInput` or `LimitTooSmall`.
    """
    lent = request.delegation
    if lent is not None and workflow.info().parent is None:
        raise invalid_input("SessionRequest", ["delegation: is set by a supervisor only; leave it out"])
    if len(workflow.info().workflow_id) > _LONGEST_ID:
        raise invalid_input(
            "id", [f"workflow id: is longer than {_LONGEST_ID} characters; its subtasks' ids begin with it"]
        )
    progress.goal = request.goal
    facts = await _read_facts(request)
    limits = request.limits
    ledger = Ledger(Amount(limits.max_turns, limits.budget_usd))
    now = workflow.now()
    deadline_at = min(now + limits.deadline, lent.deadline_at) if lent else now + limits.deadline
    progress.ledger, progress.started_at, progress.deadline_at = ledger, now, deadline_at
    session = Session(
        request=request,
        facts=facts,
        progress=progress,
        ledger=ledger,
        model_calls=MeteredModelCalls(
            ledger,
            session=workflow.info().workflow_id,
            crew=facts.crew.name,
            documents=request.documents,
            urgency=request.urgency,
            queue=facts.turns_queue,
        ),
        started_at=now,
        deadline_at=deadline_at,
        budget_client=budget_client,
        for_report=_set_report_aside(ledger, facts),
    )
    session.show()
    return session


def _set_report_aside(ledger: Ledger, facts: SessionFacts) -> Reservation:
    least = least_workable(facts)
    reservation = None
    if ledger.granted.covers(least):
        reservation = ledger.reserve(worst_report(facts.models[facts.crew.tier], facts.crew.prompt_bytes))
    if reservation is None:
        raise ApplicationError(
            "The limits cannot pay for a plan, one turn of an agent and the report. The smallest that work here are "
            f"max_turns {least.turns} and budget_usd {least.usd:.2f}.",
            type=ErrorType.LIMIT_TOO_SMALL,
            non_retryable=True,
        )
    return reservation


async def _read_facts(request: SessionRequest) -> SessionFacts:
    try:
        # Not a local activity: next to a small workflow cache, the SDK can leave the first task of a workflow that
        # starts with one unanswered until the server gives it up after ten seconds.
        return await workflow.execute_activity_method(
            SessionActivities.open_session,
            OpenSessionRequest(session=workflow.info().workflow_id, request=request),
            activity_id="open",
            start_to_close_timeout=options.OPEN_SESSION_TIMEOUT,
            retry_policy=options.OPEN_SESSION_RETRIES,
            summary="look up crew, models and ceilings",
        )
    except ActivityError as error:
        if isinstance(error.cause, ApplicationError):
            raise error.cause from error
        raise
