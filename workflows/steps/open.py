"""The first step of a session: read the facts about its request, and check that its limits are workable.

A session of a tenant with limits is admitted by the tenant's ledger, and returns to it what it did not spend.
"""

from datetime import UTC, datetime, timedelta
from decimal import ROUND_UP, Decimal

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

from activities.contracts.session import LEDGER_PREFIX, AdmissionTerms, OpenSessionRequest, SessionFacts
from activities.opening.activity import SessionActivities
from chargehand.contracts import Delegation, SessionRequest, SessionState
from chargehand.contracts.request import LONGEST_SESSION_ID
from chargehand.converter import invalid_input, non_retryable_error
from chargehand.listing import listing_memo
from chargehand.search_attributes import CREW, STATE, TENANT
from chargehand.wire import ErrorType
from workflows import options
from workflows.budget.estimates import least_workable
from workflows.budget.ledger import Amount, Spending
from workflows.budget.model_calls import was_reset
from workflows.contracts import SupervisorRequest
from workflows.mailbox.contracts import Admission, AdmissionRequest, Idling, Leaving
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import ask, notify
from workflows.rules.authority import narrow_crew
from workflows.state.clock import Clock
from workflows.state.dialogue import Dialogue
from workflows.state.progress import Progress
from workflows.state.session import Session, SupervisorState
from workflows.steps.effects import list_attributes, publish, start_alarm, write_memo


class Place:
    """A session's place in its tenant's ledger. Without tenant limits, nothing is exchanged."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._terms: AdmissionTerms | None = None
        self._is_idle = False

    def take(self, terms: AdmissionTerms | None) -> None:
        """Set the ledger, if there is one."""
        self._terms = terms

    async def wait(self, facts: SessionFacts, written: SessionRequest, progress: Progress) -> None:
        """Wait for admission. Raises `ApplicationError` of type `TenantLimit` if it is refused."""
        _show(facts, written, progress, "queued")
        give_up_at, pause = _give_up_at(facts), options.ASK_AGAIN
        admission: Admission | None = None
        while self._terms is not None and admission is None:
            left = give_up_at - workflow.now()
            if left <= timedelta():
                await self.leave(Decimal(0))
                raise non_retryable_error(
                    ErrorType.TENANT_LIMIT,
                    f"The session waited for other sessions of the tenant '{written.tenant}' until its time was up; "
                    "start it again, or have the operator raise the tenant's limits.",
                )
            usd = facts.terms.limits.budget_usd
            request = AdmissionRequest(key=self._terms.key, usd=usd, priority=written.priority)
            admission = await ask(self._mailbox, self._terms.ledger, request, Admission, patience=min(pause, left))
            if admission is None and not await _is_limited(written):
                await self.leave(Decimal(0))
            pause = min(2 * pause, options.MOST_ASK_AGAIN)
        if admission is not None and admission.refusal:
            self._terms = None
            raise non_retryable_error(
                ErrorType.TENANT_LIMIT, f"The tenant '{written.tenant}' has reached its limits: {admission.refusal}."
            )
        _show(facts, written, progress, "planning")

    async def enlarge(self, usd: Decimal | None) -> None:
        """Ask the ledger to reserve a larger budget."""
        if self._terms is None or usd is None:
            return
        request = AdmissionRequest(key=self._terms.key, usd=usd, is_larger=True)
        admission = await ask(self._mailbox, self._terms.ledger, request, Admission, patience=options.STOP_TIMEOUT)
        problem = "the tenant's ledger does not answer; try again" if admission is None else admission.refusal
        if problem:
            raise non_retryable_error(ErrorType.UPDATE_REFUSED, problem)

    async def idle(self, *, is_idle: bool) -> None:
        """Tell the ledger whether the session is idle; a session that resumes gets its place back at once."""
        if self._terms is not None and is_idle != self._is_idle:
            self._is_idle = is_idle
            idling = Idling(key=self._terms.key, is_idle=is_idle)
            await notify(self._mailbox, self._mailbox.outbox(self._terms.ledger), idling)

    async def leave(self, spent: Decimal) -> None:
        """Report the session's spend to the ledger once, which frees the rest of its budget."""
        terms, self._terms = self._terms, None
        if terms is not None:
            # A ledger that has ended does not know this session.
            await notify(self._mailbox, self._mailbox.outbox(terms.ledger), Leaving(key=terms.key, spent_usd=spent))


async def open_session(
    written: SupervisorRequest, progress: Progress, mailbox: Mailbox, place: Place, dialogue: Dialogue | None = None
) -> Session:
    """Read the facts about a request, reserve the report, and refuse unworkable limits; or resume from a state.

    A conversation has no report, and ends when idle.

    Raises:
        ApplicationError: `InvalidInput`, `LimitTooSmall` or `TenantLimit`.
    """
    _check(written)
    progress.set_goal(written.goal)
    if written.state:
        return _resume(written, progress, mailbox, place, dialogue)
    delegation = written.delegation
    if delegation is None:
        _show_in_lists(written)
    facts = _within_authority(await _read_facts(written, converses=dialogue is not None), delegation)
    place.take(facts.admission)
    progress.add_gaps(facts.unread)
    limits, now = facts.terms.limits, workflow.now()
    ends_at = now + (timedelta(0) if dialogue else limits.deadline)
    session = Session(
        run=delegation.run if delegation else _run_name(),
        original=written,
        facts=facts,
        progress=progress,
        clock=Clock(now, min(ends_at, delegation.deadline_at) if delegation else ends_at, workflow.now),
        spending=Spending.of(Amount(limits.max_turns, limits.budget_usd)),
        mailbox=mailbox,
        was_reset=was_reset(),
        dialogue=dialogue,
    )
    if dialogue is None:
        _hold_report(session)
    if facts.admission is not None:
        queued_at = workflow.now()
        await place.wait(facts, written, progress)
        session.clock.delay(workflow.now() - queued_at)
    progress.open(session.budget.ledger, session.clock)
    if dialogue is None:
        start_alarm(session.clock)
        session.budget.reserve_report(session.report_words)
    if delegation is not None:
        session.budget.spending.learn(delegation.overcharges)
    publish(session)
    return session


def _show_in_lists(asked: SessionRequest) -> None:
    """Write the memo that lists show, unless the session was started with one."""
    present = workflow.info().raw_memo
    missing = {name: text for name, text in listing_memo(asked.goal, asked.follows).items() if name not in present}
    if missing:
        workflow.upsert_memo(missing | {"tenant": asked.tenant})


def _within_authority(facts: SessionFacts, delegation: Delegation | None) -> SessionFacts:
    """Reduce the crew of a nested session to its parent's authority."""
    if delegation is None:
        return facts
    crew = narrow_crew(facts.crew, delegation.authority)
    if not crew.agents:
        problem = f"each agent of '{crew.name}' may do something that no agent of the parent session may"
        raise invalid_input("SessionRequest", [f"crew: {problem}; nest a crew that may do less"])
    return facts.replace(crew=crew)


def _resume(
    written: SupervisorRequest, progress: Progress, mailbox: Mailbox, place: Place, dialogue: Dialogue | None
) -> Session:
    try:
        state = SupervisorState.model_validate_json(written.state)
    except ValidationError as error:
        raise invalid_input("SessionRequest", ["state: is not the state of a continued session"]) from error
    place.take(state.facts.admission)
    session = Session(
        run=state.run,
        original=written.replace(state=""),
        facts=state.facts,
        progress=progress,
        clock=Clock(state.started_at, state.deadline_at, workflow.now),
        spending=state.spending,
        mailbox=mailbox,
        was_reset=state.was_reset or was_reset(),
        dialogue=dialogue,
    )
    if dialogue is None:
        start_alarm(session.clock)
    progress.open(session.budget.ledger, session.clock)
    session.resume(state)
    mailbox.take_over(state.mailbox)
    session.budget.output_reserve.hold()
    session.budget.judge_reserve.hold()
    if state.holds_report:
        session.budget.report_reserve.hold()
        session.budget.reserve_report(session.report_words)
    return session


def _run_name() -> str:
    """Return this run's name in its children's ids: unchanged by a reset, different in each run of a cron."""
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
    if request.delegation is None and (length > LONGEST_SESSION_ID or not info.workflow_id.strip(".")):
        rule = (
            f"1 to {LONGEST_SESSION_ID} characters, not dots alone, which have no page; its subtasks' ids begin with it"
        )
        raise invalid_input("id", [f"workflow id: has {length} characters; start it with {rule}"])


def _hold_report(session: Session) -> None:
    budget, output = session.budget, session.budget.output_reserve
    least = least_workable(session.facts, session.request.documents)
    least += Amount(output.worst.turns, output.worst.usd.quantize(Decimal("0.01"), rounding=ROUND_UP))
    if not (budget.ledger.granted.covers(least) and budget.report_reserve.hold() and output.hold()):
        also = ", the report and its output" if output.is_needed else " and the report"
        raise non_retryable_error(
            ErrorType.LIMIT_TOO_SMALL,
            f"The limits cannot pay for a plan, one turn of an agent{also}. The smallest that work here are "
            f"max_turns {least.turns} and budget_usd {least.usd:.2f}.",
        )
    # Only after a plan and one agent are covered: a report needs an agent more than a judge.
    if budget.ledger.granted.covers(least + least):
        budget.judge_reserve.hold()


async def _read_facts(request: SessionRequest, *, converses: bool) -> SessionFacts:
    opening = OpenSessionRequest(session=workflow.info().workflow_id, request=request, converses=converses)
    if not (request.documents or request.follows or request.delegation):
        facts = await _facts_at_once(opening)
        if facts is not None:
            return facts
    return await _facts_by_activity(opening)


async def _is_limited(request: SessionRequest) -> bool:
    opening = OpenSessionRequest(session=workflow.info().workflow_id, request=request)
    facts = await options.unless_failed(_facts_by_activity(opening, "ask-again"))
    return facts is None or facts.admission is not None  # if no worker answered, it is asked again later


async def _facts_by_activity(opening: OpenSessionRequest, activity_id: str = "open") -> SessionFacts:
    request = opening.request
    try:
        return await workflow.execute_activity_method(
            SessionActivities.open_session,
            opening,
            activity_id=activity_id,
            summary="look up crew, models and ceilings; index documents",
            priority=options.priority_of(request),
            **options.open_session(request.limits.deadline, has_documents=bool(request.documents)),
        )
    except ActivityError as error:
        if isinstance(error.cause, ApplicationError):
            raise error.cause from error
        raise


async def _facts_at_once(opening: OpenSessionRequest) -> SessionFacts | None:
    """Read the facts within the first workflow task; None if that failed and has to be retried as an activity."""
    try:
        return await workflow.execute_local_activity_method(
            SessionActivities.open_session,
            opening,
            activity_id="open-at-once",
            schedule_to_close_timeout=options.OPEN_AT_ONCE_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
    except FailureError as error:
        # The SDK wraps only some failures of local activities in an `ActivityError`.
        cause = error.cause if isinstance(error, ActivityError) else error
        if is_cancelled_exception(error):
            raise
        if isinstance(cause, ApplicationError) and cause.non_retryable:
            raise cause from None
        return None


def _give_up_at(facts: SessionFacts) -> datetime:
    """Compute when a session must stop queueing to leave enough of its execution timeout for its deadline."""
    timeout = options.execution_timeout()
    if timeout is None:
        return datetime.max.replace(tzinfo=UTC)
    reserve = facts.terms.limits.deadline + options.QUEUE_MARGIN
    return max(workflow.info().workflow_start_time + timeout - reserve, workflow.now() + options.QUEUE_MARGIN)


def list_end(state: SessionState) -> None:
    """Show the end state of a session that was queued and never began."""
    if workflow.memo_value("state", None) == "queued":
        write_memo({"state": state})
    if workflow.info().typed_search_attributes.get(STATE) == "queued":
        list_attributes({STATE: state})


def _show(facts: SessionFacts, written: SessionRequest, progress: Progress, state: SessionState) -> None:
    """Show a session that is not open yet in its status, memo and search attributes."""
    progress.enter(state)
    write_memo({"state": state})
    if facts.is_listed:
        list_attributes({STATE: state, CREW: facts.crew.name, TENANT: written.tenant})
