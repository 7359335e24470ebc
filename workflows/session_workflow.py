"""The common base of the session and conversation workflows: their state and shared message handlers."""

from collections.abc import Callable, Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.turn.apply_once import ActingCalls
    from chargehand.contracts import CallDecision, LostCharges, RaisedLimits, SessionState, Status
    from chargehand.contracts.base import TypedByPeople
    from chargehand.messages import CommonMessages, handles
    from chargehand.record import Decision
    from chargehand.wire import SignalName
    from workflows import options
    from workflows.mailbox.contracts import Envelope
    from workflows.mailbox.mailbox import Mailbox
    from workflows.options import execution_timeout
    from workflows.rules.refusal import Refused
    from workflows.state.progress import Progress
    from workflows.state.session import Session
    from workflows.steps.decisions import act_on, decide_call
    from workflows.steps.effects import publish
    from workflows.steps.open import Place

_ENDED = frozenset[SessionState]({"failed", "cancelled"})


class SessionWorkflow:
    """A session, which may not be open yet, and its message handlers."""

    def __init__(self) -> None:
        self._progress = Progress(session=workflow.info().workflow_id)
        self._session: Session | None = None
        self._mailbox = Mailbox(address=workflow.info().workflow_id)
        self._place = Place(self._mailbox)

    @workflow.query(**handles(CommonMessages.status))
    def status(self) -> Status:
        return self._progress.status()

    @workflow.update(**handles(CommonMessages.raise_limits))
    async def raise_limits(self, raised: RaisedLimits) -> Status:
        await self._record(raised)
        self._open.check_raised(raised, execution_timeout())
        await self._place.enlarge(raised.budget_usd)
        self._open.raise_limits(raised)
        self._progress.waits.decide(self._progress.waits.limits_id, "raised", raised.by)
        publish(self._open)
        return self._progress.status()

    @raise_limits.validator
    def _check_raised(self, raised: RaisedLimits) -> None:
        self._check(lambda session: session.progress.refuse_if_over())
        self._check(lambda session: session.check_raised(raised, execution_timeout()))

    @workflow.update(**handles(CommonMessages.book_charges))
    async def book_charges(self, lost: LostCharges) -> Status:
        await next_task()
        self._open.book_charges(lost)
        publish(self._open)
        return self._progress.status()

    @book_charges.validator
    def _check_charges(self, lost: LostCharges) -> None:  # noqa: ARG002  # the handler's signature
        self._check(lambda session: session.progress.refuse_if_over())

    @workflow.update(**handles(CommonMessages.decide_call))
    async def decide_call(self, decision: CallDecision) -> Status:
        await self._record(decision)
        await decide_call(self._open, decision)
        return self._progress.status()

    @decide_call.validator
    def _check_call(self, decision: CallDecision) -> None:
        self._open.approvals.check(decision)

    @workflow.signal(name=SignalName.MAILBOX, description="What the parent session, subtasks and ledgers send.")
    async def receive(self, envelope: Envelope) -> None:
        """Settle a reply or act on a request or notice; ignore and count anything that cannot be genuine."""
        if not envelope.is_reply:
            await workflow.wait_condition(lambda: self._session is not None or self._progress.state in _ENDED)
        is_expected = self._mailbox.receive(envelope)
        if is_expected and not envelope.is_reply:
            is_expected = self._session is not None and await act_on(self._session, envelope)
        if not is_expected:
            self._progress.ignore_message()

    @workflow.signal(dynamic=True, description="Any other signal does nothing: sessions are steered by updates.")
    def ignore_unknown(self, signal: str, _: Sequence[RawValue]) -> None:
        """Count and show an unknown signal, for senders who wait for its effect."""
        self._progress.ignore_unknown(signal)

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise Refused("The session is still being opened; try again.")
        return self._session

    @property
    def _is_resuming(self) -> bool:
        """Whether this run continues another one, and is therefore opened before any handler runs."""
        return self._session is None and workflow.info().continued_run_id is not None

    async def _record(self, decision: TypedByPeople, wait_id: str = "") -> None:
        """Record a decision outside Temporal before it takes effect in a later workflow task (see `next_task`).

        Meanwhile the wait accepts no other decision. One that could not be recorded is refused.
        """
        info, update = workflow.info(), workflow.current_update_info()
        if update is None:
            raise AssertionError("decisions come by updates")
        self._progress.waits.claim(wait_id)
        entry = Decision(
            session=self._session.root if self._session else info.workflow_id,
            workflow_id=info.workflow_id,
            run_id=info.run_id,
            update_id=update.id,
            name=update.name,
            content=decision.model_dump(mode="json", exclude_defaults=True),
            at=workflow.now(),
        )
        try:
            await workflow.execute_activity_method(
                ActingCalls.record_decision,
                entry,
                summary=f"record {update.name}",
                priority=options.FIRST,
                **options.CHECK,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            self._progress.waits.release(wait_id)
            raise Refused("It could not be recorded and has no effect; try again, or see the worker's log.") from error

    def _check(self, rule: Callable[[Session], object]) -> None:
        """Validate an update before it is accepted, unless the session is only about to continue."""
        if not self._is_resuming:
            rule(self._open)


async def next_task() -> None:
    """Wait for the next workflow task before an update takes effect.

    Without a cached workflow, the SDK can deliver an update together with what an earlier, commandless task already
    decided, and the update first, while a replay sees them in the other order (docs/decisions/0008).
    """
    await workflow.sleep(options.NEXT_TASK, summary="apply an update")
