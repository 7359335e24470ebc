"""The place of a session in the ledger of its tenant: it waits there to begin, and gives back what it did not spend."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from activities.contracts.session import AdmissionTerms, SessionFacts
from chargehand.contracts import SessionRequest, SessionState
from chargehand.search_attributes import CREW, STATE, TENANT
from chargehand.wire import ErrorType
from workflows import options
from workflows.mailbox.contracts import Admission, AdmissionRequest, Idling, Leaving
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import ask, notify
from workflows.state.progress import Progress
from workflows.steps.visibility import list_attributes


class Place:
    """What a session and its tenant's ledger tell each other. Without limits, they tell each other nothing."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._terms: AdmissionTerms | None = None
        self._is_idle = False

    def take(self, terms: AdmissionTerms | None) -> None:
        """Know the ledger from now on, if there is one."""
        self._terms = terms

    async def wait(
        self,
        facts: SessionFacts,
        written: SessionRequest,
        progress: Progress,
        is_limited: Callable[[], Awaitable[bool]],
    ) -> None:
        """Wait until the session may begin.

        `is_limited` has the ledger run again, should it have ended; it returns whether the tenant still has limits.

        Raises:
            ApplicationError: `TenantLimit`: it may not.
        """
        _show(facts, written, progress, "queued")
        give_up_at, pause = _give_up_at(facts), options.ASK_AGAIN
        admission: Admission | None = None
        while self._terms is not None and admission is None:
            left = give_up_at - workflow.now()
            if left <= timedelta():
                await self.leave(Decimal(0))
                raise _refusal(
                    f"The session waited for other sessions of the tenant '{written.tenant}' until its time was up; "
                    "start it again, or have the operator raise the tenant's limits."
                )
            usd = facts.terms.limits.budget_usd
            request = AdmissionRequest(key=self._terms.key, usd=usd, priority=written.priority)
            admission = await ask(self._mailbox, self._terms.ledger, request, Admission, patience=min(pause, left))
            if admission is None and not await is_limited():
                await self.leave(Decimal(0))
            pause = min(2 * pause, options.MOST_ASK_AGAIN)
        if admission is not None and admission.refusal:
            self._terms = None
            raise _refusal(f"The tenant '{written.tenant}' has reached its limits: {admission.refusal}.")
        _show(facts, written, progress, "planning")

    async def enlarge(self, usd: Decimal | None) -> None:
        """Have the ledger reserve a larger budget."""
        if self._terms is None or usd is None:
            return
        request = AdmissionRequest(key=self._terms.key, usd=usd, is_larger=True)
        admission = await ask(self._mailbox, self._terms.ledger, request, Admission, patience=options.STOP_TIMEOUT)
        problem = "the tenant's ledger does not answer; try again" if admission is None else admission.refusal
        if problem:
            raise ApplicationError(problem, type=ErrorType.UPDATE_REFUSED, non_retryable=True)

    async def idle(self, *, is_idle: bool) -> None:
        """Tell the ledger whether the session needs its place; one that goes on has it at once."""
        if self._terms is not None and is_idle != self._is_idle:
            self._is_idle = is_idle
            idling = Idling(key=self._terms.key, is_idle=is_idle)
            await notify(self._mailbox, self._mailbox.outbox(self._terms.ledger), idling)

    async def leave(self, spent: Decimal) -> None:
        """Tell the ledger what the session has spent, once; the rest of its budget is free."""
        terms, self._terms = self._terms, None
        if terms is not None:
            # One that has ended knows nothing of this session.
            await notify(self._mailbox, self._mailbox.outbox(terms.ledger), Leaving(key=terms.key, spent_usd=spent))


def _give_up_at(facts: SessionFacts) -> datetime:
    """Compute until when a session may wait: the time that the server leaves it then is enough for its own deadline."""
    timeout = options.execution_timeout()
    if timeout is None:
        return datetime.max.replace(tzinfo=UTC)
    kept = facts.terms.limits.deadline + options.QUEUE_MARGIN
    return max(workflow.info().workflow_start_time + timeout - kept, workflow.now() + options.QUEUE_MARGIN)


def list_end(state: SessionState) -> None:
    """Show how a session ended that was queued and never began."""
    if workflow.memo_value("state", None) == "queued":
        workflow.upsert_memo({"state": state})
    if workflow.info().typed_search_attributes.get(STATE) == "queued":
        list_attributes({STATE: state})


def _refusal(message: str) -> ApplicationError:
    return ApplicationError(message, type=ErrorType.TENANT_LIMIT, non_retryable=True)


def _show(facts: SessionFacts, written: SessionRequest, progress: Progress, state: SessionState) -> None:
    """Show a session that is not open yet in its status, in its memo and in lists."""
    progress.enter(state)
    workflow.upsert_memo({"state": state})
    if facts.is_listed:
        list_attributes({STATE: state, CREW: facts.crew.name, TENANT: written.tenant})
