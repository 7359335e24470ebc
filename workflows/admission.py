"""The place of a session in the ledger of its tenant: it waits there to begin, and gives back what it did not spend."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

from activities.contracts.session import SessionFacts
from activities.tenant_contracts import Admission, AdmissionRequest, AdmissionTerms, Leaving
from chargehand.contracts import Message, SessionRequest, SessionState
from chargehand.search_attributes import CREW, STATE, TENANT, change_of
from chargehand.wire import ErrorType, SignalName
from workflows import options
from workflows.state.progress import Progress


class Place:
    """What a session and its tenant's ledger tell each other. Without limits, they tell each other nothing."""

    def __init__(self) -> None:
        self._terms: AdmissionTerms | None = None
        self._answers: list[Admission] = []

    def receive(self, admission: Admission) -> None:
        """Keep an answer of the ledger."""
        self._answers.append(admission)

    def take(self, terms: AdmissionTerms | None) -> None:
        """Know the ledger from now on, if there is one."""
        self._terms = terms

    async def wait(
        self, facts: SessionFacts, asked: SessionRequest, progress: Progress, ask_again: Callable[[], Awaitable[bool]]
    ) -> None:
        """Wait until the session may begin.

        Args:
            facts: those of the session.
            asked: its request.
            progress: where its state is shown.
            ask_again: has the ledger asked once more; returns whether the tenant still has limits.

        Raises:
            ApplicationError: `TenantLimit`: it may not.
        """
        _show(facts, asked, progress, "queued")
        answer = await self._patient_answer(facts, ask_again)
        if answer is None:
            await self.leave(Decimal(0))
            raise _refusal(
                f"The session waited for other sessions of the tenant '{asked.tenant}' until its time was up; start it "
                "again, or have the operator raise the tenant's limits."
            )
        if answer.refusal:
            self._terms = None
            raise _refusal(f"The tenant '{asked.tenant}' has reached its limits: {answer.refusal}.")
        _show(facts, asked, progress, "planning")

    async def enlarge(self, usd: Decimal | None) -> None:
        """Have the ledger reserve a larger budget.

        Raises:
            ApplicationError: `UpdateRefused`: it does not.
        """
        if self._terms is None or usd is None:
            return
        self._answers = [each for each in self._answers if each.usd != usd]
        info = workflow.info()
        request = AdmissionRequest(session=info.workflow_id, key=self._terms.key, usd=usd, is_larger=True)
        await _signal(self._terms.ledger, SignalName.REQUEST_ADMISSION, request)
        answer = await self._answer(usd, options.STOP_TIMEOUT)
        problem = "the tenant's ledger does not answer; try again" if answer is None else answer.refusal
        if problem:
            raise ApplicationError(problem, type=ErrorType.UPDATE_REFUSED, non_retryable=True)

    async def leave(self, spent: Decimal) -> None:
        """Tell the ledger what the session has spent, once; the rest of its budget is free."""
        terms, self._terms = self._terms, None
        if terms is not None:
            await _signal(terms.ledger, SignalName.LEAVE, Leaving(key=terms.key, spent_usd=spent))

    async def _patient_answer(self, facts: SessionFacts, ask_again: Callable[[], Awaitable[bool]]) -> Admission | None:
        """Wait for the answer to the session's first question; None if its time is up."""
        usd, give_up_at, pause = facts.terms.limits.budget_usd, _give_up_at(facts), options.ASK_AGAIN
        while (left := give_up_at - workflow.now()) > timedelta():
            if answer := await self._answer(usd, min(pause, left)):
                return answer
            if self._terms is not None and not await ask_again():
                answer = Admission(key=self._terms.key, usd=usd)
                await self.leave(Decimal(0))
                return answer
            pause = min(2 * pause, options.MOST_ASK_AGAIN)
        return None

    async def _answer(self, usd: Decimal, patience: timedelta) -> Admission | None:
        def answers() -> list[Admission]:
            return [each for each in self._answers if self._terms and (each.key, each.usd) == (self._terms.key, usd)]

        try:
            await workflow.wait_condition(lambda: bool(answers()), timeout=patience, timeout_summary="tenant's limits")
        except TimeoutError:
            return None
        return answers()[-1]


def _give_up_at(facts: SessionFacts) -> datetime:
    """Compute until when a session may wait: the time that the server leaves it then is enough for its own deadline."""
    info = workflow.info()
    if info.execution_timeout is None:
        return datetime.max.replace(tzinfo=UTC)
    kept = facts.terms.limits.deadline + options.QUEUE_MARGIN
    return max(info.workflow_start_time + info.execution_timeout - kept, workflow.now() + options.QUEUE_MARGIN)


def list_end(state: SessionState) -> None:
    """Have the server list how a session ended that was queued and never began."""
    listed = workflow.info().typed_search_attributes
    if listed.get(STATE) == "queued":
        workflow.upsert_search_attributes(change_of(listed, STATE, state))  # pyright: ignore[reportUnknownMemberType]  # SDK generics


def _refusal(message: str) -> ApplicationError:
    return ApplicationError(message, type=ErrorType.TENANT_LIMIT, non_retryable=True)


def _show(facts: SessionFacts, asked: SessionRequest, progress: Progress, state: SessionState) -> None:
    """Show a session that is not open yet in its status, in its memo and in lists."""
    progress.enter(state)
    workflow.upsert_memo({"state": state})
    if facts.is_listed:
        listed = workflow.info().typed_search_attributes
        workflow.upsert_search_attributes(  # pyright: ignore[reportUnknownMemberType]  # SDK generics
            [
                *change_of(listed, STATE, state),
                *change_of(listed, CREW, facts.crew.name),
                *change_of(listed, TENANT, asked.tenant),
            ]
        )


async def _signal(ledger: str, name: SignalName, message: Message) -> None:
    """Send a signal to a ledger; one that has ended knows nothing of this session."""
    try:
        await workflow.get_external_workflow_handle(ledger).signal(name, message)
    except FailureError as error:
        if is_cancelled_exception(error):
            raise asyncio.CancelledError from error
