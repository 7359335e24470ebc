"""The first step of a session: read the facts about its request, and check that its limits pay for anything."""

from collections.abc import Sequence
from datetime import date
from decimal import ROUND_UP, Decimal
from typing import Final

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

from activities.contracts import OpenSessionRequest, SessionFacts
from activities.session_facts import SessionActivities
from activities.tenant_contracts import LEDGER_PREFIX
from chargehand.contracts import Capability, Delegation, JsonSchema, SessionRequest
from chargehand.converter import invalid_input
from chargehand.listing import listing_memo
from chargehand.wire import ErrorType
from workflows import options
from workflows.admission import Place
from workflows.budget.estimates import fixed_bytes, least_workable, worst_output, worst_report
from workflows.budget.grants import Grants, ReportReserve
from workflows.budget.ledger import Amount, Ledger
from workflows.budget.model_calls import MeteredModelCalls, ledger_of
from workflows.contracts import SupervisorRequest, SupervisorState
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.authority import narrowed
from workflows.rules.information_flow import Provenance
from workflows.state.clock import Clock
from workflows.state.progress import Progress
from workflows.state.session import Session, priority_of
from workflows.steps.writer import reserve_report

_LONGEST_ID: Final = 175
"""Characters. A child's id is at most 80 longer, and databases keep ids of 255 characters."""


async def open_session(asked: SupervisorRequest, progress: Progress, mailbox: Mailbox, place: Place) -> Session:
    """Read the facts about a request, reserve the report, and refuse what cannot work; or go on from a state.

    Raises:
        ApplicationError: `InvalidInput`, `LimitTooSmall` or `TenantLimit`.
    """
    _check(asked)
    progress.set_goal(asked.goal)
    if not asked.state and asked.delegation is None:
        _show_in_lists(asked)
    if asked.state:
        state = _read(asked.state)
        place.take(state.facts.admission)
        return _resume(asked.model_copy(update={"state": ""}), state, progress, mailbox)
    delegation, now = asked.delegation, workflow.now()
    facts = _within_authority(await _read_facts(asked), delegation)
    place.take(facts.admission)
    request = _on_terms(asked, facts)
    limits = request.limits
    progress.add_gaps(facts.unread)
    ledger = Ledger(Amount(limits.max_turns, limits.budget_usd))
    report_reserve, output_reserve = _reserve_report(ledger, facts, request)
    if facts.admission is not None:
        await place.wait(facts, asked, progress, lambda: _is_limited(asked))
        now = workflow.now()
    deadline_at = now + limits.deadline
    clock = Clock(now, min(deadline_at, delegation.deadline_at) if delegation else deadline_at)
    clock.start()
    progress.open(ledger, clock)
    session = Session(
        asked=asked,
        request=request,
        facts=facts,
        progress=progress,
        clock=clock,
        ledger=ledger,
        grants=Grants(ledger),
        report_reserve=report_reserve,
        output_reserve=output_reserve,
        model_calls=_model_calls(request, facts, ledger, now.date()),
        mailbox=mailbox,
        provenance=Provenance(_goal_reads(asked, facts)),
        run=delegation.run if delegation else _run_name(),
    )
    reserve_report(session)
    if delegation is not None:
        session.model_calls.learn(delegation.overcharges)
    session.publish()
    return session


def _show_in_lists(asked: SessionRequest) -> None:
    """Add the memo by which lists show a session, unless it was started with one."""
    present = workflow.info().raw_memo
    missing = {name: text for name, text in listing_memo(asked).items() if name not in present}
    if missing:
        workflow.upsert_memo(missing)


def _on_terms(asked: SessionRequest, facts: SessionFacts) -> SessionRequest:
    """Settle a request by its crew's terms, with the documents of the session that it follows."""
    earlier = facts.earlier.documents if facts.earlier else ()
    return asked.model_copy(update={**dict(facts.terms), "documents": (*asked.documents, *earlier)})


def _goal_reads(asked: SessionRequest, facts: SessionFacts) -> tuple[Capability, ...]:
    """List what kinds of text a session begins with: in its goal, or in the report of the session that it follows."""
    return (
        *(asked.delegation.goal_reads if asked.delegation else ()),
        *(facts.earlier.reads if facts.earlier else ()),
    )


def _within_authority(facts: SessionFacts, delegation: Delegation | None) -> SessionFacts:
    """Reduce the crew of a nested session to what its parent may do.

    Raises:
        ApplicationError: `InvalidInput`, if none of its agents is left.
    """
    if delegation is None:
        return facts
    crew = narrowed(facts.crew, delegation.authority)
    if not crew.agents:
        problem = f"each agent of '{crew.name}' may do something that no agent of the parent session may"
        raise invalid_input("SessionRequest", [f"crew: {problem}; nest a crew that may do less"])
    return facts.model_copy(update={"crew": crew})


def _read(state: str) -> SupervisorState:
    try:
        return SupervisorState.model_validate_json(state)
    except ValidationError as error:
        raise invalid_input("SessionRequest", ["state: is none that a session hands on"]) from error


def _resume(asked: SupervisorRequest, state: SupervisorState, progress: Progress, mailbox: Mailbox) -> Session:
    """Go on where the run before this one stopped."""
    facts, ledger, clock = state.facts, ledger_of(state.model_calls), Clock(state.started_at, state.deadline_at)
    request = _on_terms(asked, facts)
    clock.start()
    progress.open(ledger, clock)
    progress.resume(state.progress)
    mailbox.resume(state.mailbox)
    session = Session(
        asked=asked,
        request=request,
        facts=facts,
        progress=progress,
        clock=clock,
        ledger=ledger,
        grants=Grants(ledger),
        report_reserve=ReportReserve(ledger, _worst_report(facts, request.documents)),
        output_reserve=None
        if request.output_schema is None
        else ReportReserve(ledger, _worst_output(facts, request.documents, request.output_schema)),
        model_calls=_model_calls(request, facts, ledger, state.started_at.date()),
        mailbox=mailbox,
        provenance=Provenance(_goal_reads(asked, facts)),
        run=state.run,
        limit_usage=state.limit_usage,
        children=set(state.children),
        resumed_with=len(state.progress.outcomes),
        was_reset_before=state.was_reset,
    )
    session.model_calls.resume(state.model_calls)
    session.provenance.resume(state.provenance)
    if session.output_reserve:
        session.output_reserve.hold()
    if state.holds_report:
        session.report_reserve.hold()
        reserve_report(session)
    return session


def _model_calls(request: SessionRequest, facts: SessionFacts, ledger: Ledger, today: date) -> MeteredModelCalls:
    return MeteredModelCalls(
        ledger=ledger,
        session=workflow.info().workflow_id,
        crew=facts.crew.reference,
        documents=request.documents,
        output_caps=facts.output_caps,
        effort=facts.crew.effort,
        today=today,
        urgency=request.urgency,
        queue=facts.turns_queue,
        priority=priority_of(request, facts.weight),
    )


def _run_name() -> str:
    """Name this run in the ids of its children: the same after a reset, another one in each run of a cron."""
    info = workflow.info()
    run = info.first_execution_run_id if info.continued_run_id is None else str(workflow.uuid4())
    return run.rpartition("-")[2]


def _check(request: SupervisorRequest) -> None:
    info = workflow.info()
    if request.state and (info.continued_run_id is None or info.cron_schedule):
        raise invalid_input("SessionRequest", ["state: is set by a session that continues as new; leave it out"])
    if request.delegation is not None and info.parent is None:
        raise invalid_input("SessionRequest", ["delegation: is set by a supervisor only; leave it out"])
    if info.workflow_id.startswith(LEDGER_PREFIX):
        raise invalid_input("id", [f"workflow id: '{LEDGER_PREFIX}…' is kept for ledgers; use another id"])
    length = len(info.workflow_id)
    if request.delegation is None and length > _LONGEST_ID:
        problem = f"has {length} characters; start it with {_LONGEST_ID} at most, since its subtasks' ids begin with it"
        raise invalid_input("id", [f"workflow id: {problem}"])


def _reserve_report(
    ledger: Ledger, facts: SessionFacts, request: SessionRequest
) -> tuple[ReportReserve, ReportReserve | None]:
    least = least_workable(facts, request.documents)
    report, output = ReportReserve(ledger, _worst_report(facts, request.documents)), None
    if request.output_schema is not None:
        worst = _worst_output(facts, request.documents, request.output_schema)
        least += Amount(worst.turns, worst.usd.quantize(Decimal("0.01"), rounding=ROUND_UP))
        output = ReportReserve(ledger, worst)
    if not ledger.granted.covers(least) or not all(reserve.hold() for reserve in (report, output) if reserve):
        also = ", the report and its output" if output else " and the report"
        raise ApplicationError(
            f"The limits cannot pay for a plan, one turn of an agent{also}. The smallest that work here are "
            f"max_turns {least.turns} and budget_usd {least.usd:.2f}.",
            type=ErrorType.LIMIT_TOO_SMALL,
            non_retryable=True,
        )
    return report, output


def _worst_report(facts: SessionFacts, documents: Sequence[str]) -> Amount:
    return worst_report(facts.models[facts.crew.tier], fixed_bytes(facts.crew, documents))


def _worst_output(facts: SessionFacts, documents: Sequence[str], schema: JsonSchema) -> Amount:
    return worst_output(facts.models[facts.crew.tier], fixed_bytes(facts.crew, documents), schema)


async def _read_facts(request: SessionRequest) -> SessionFacts:
    opening = OpenSessionRequest(session=workflow.info().workflow_id, request=request)
    if not (request.documents or request.follows or request.delegation):
        facts = await _facts_at_once(opening)
        if facts is not None:
            return facts
    return await _facts_by_activity(opening)


async def _is_limited(request: SessionRequest) -> bool:
    """Have the ledger of the session's tenant asked once more; whether there still is one."""
    try:
        opening = OpenSessionRequest(session=workflow.info().workflow_id, request=request)
        return (await _facts_by_activity(opening, "ask-again")).admission is not None
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        return True  # no worker has answered; it is asked again


async def _facts_by_activity(opening: OpenSessionRequest, activity_id: str = "open") -> SessionFacts:
    request = opening.request
    try:
        return await workflow.execute_activity_method(
            SessionActivities.open_session,
            opening,
            activity_id=activity_id,
            summary="look up crew, models and ceilings; index documents",
            priority=priority_of(request),
            **options.open_session(request.limits.deadline, has_documents=bool(request.documents)),
        )
    except ActivityError as error:
        if isinstance(error.cause, ApplicationError):
            raise error.cause from error
        raise


async def _facts_at_once(opening: OpenSessionRequest) -> SessionFacts | None:
    """Read the facts within the first workflow task; None if that failed, so that it is tried again outside of it."""
    try:
        return await workflow.execute_local_activity_method(
            SessionActivities.open_session, opening, activity_id="open-at-once", **options.open_at_once()
        )
    except FailureError as error:
        # The SDK wraps only some failures of a local activity in an `ActivityError`.
        cause = error.cause if isinstance(error, ActivityError) else error
        if is_cancelled_exception(error):
            raise
        if isinstance(cause, ApplicationError) and cause.non_retryable:
            raise cause from None
        return None
