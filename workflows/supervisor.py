"""The workflow of a session: plan, delegate, synthesise. It never does an agent's work."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from chargehand.contracts import (
        Answer,
        CallDecision,
        Interruption,
        Plan,
        PlanDecision,
        PlanEdit,
        RaisedLimits,
        Report,
        SessionState,
        Status,
        UserMessage,
    )
    from chargehand.converter import join_problems
    from chargehand.messages import Messages, handles
    from chargehand.wire import ErrorType, SignalName, WorkflowType
    from workflows import options
    from workflows.contracts import SupervisorRequest
    from workflows.mailbox.contracts import Envelope
    from workflows.mailbox.mailbox import Mailbox
    from workflows.metrics import count_refusal
    from workflows.rules.plan_validation import InvalidPlan
    from workflows.rules.web_ui import details
    from workflows.state.approvals import CallRefused
    from workflows.state.progress import Progress
    from workflows.state.session import Session
    from workflows.state.steering import SteeringRefused
    from workflows.steps.admission import Place, list_end
    from workflows.steps.announce import announce_end
    from workflows.steps.approvals import argument_problems
    from workflows.steps.design import design_agents
    from workflows.steps.edit import check_edit, edit_plan
    from workflows.steps.execute import execute
    from workflows.steps.messages import act_on
    from workflows.steps.open import open_session
    from workflows.steps.plan import OPEN_SPAN, invalid_plan, make_plan, validate
    from workflows.steps.report import with_late_messages, write_report
    from workflows.steps.review import review
    from workflows.steps.route import route
    from workflows.steps.steering import check_interruption, check_message, interrupt, tell
    from workflows.steps.visibility import enter, list_state, publish
    from workflows.steps.waits import within_time


_ALL: Final = Interruption()
_ENDED: Final = frozenset[SessionState]({"failed", "cancelled"})


@workflow.defn(name=WorkflowType.SUPERVISOR)
class SupervisorWorkflow:
    """Runs one session and always returns a report, unless no model could plan it."""

    def __init__(self) -> None:
        self._progress = Progress(workflow.info().workflow_id)
        self._session: Session | None = None
        self._decision: PlanDecision | None = None
        self._has_decision = False
        """Whether a decision was received, even if it is not applied yet: another one is refused."""
        self._answered: set[str] = set()
        """Subtasks whose question has received an answer, in the same sense."""
        self._mailbox = Mailbox(workflow.info().workflow_id)
        self._place = Place(self._mailbox)

    @workflow.run
    async def run(self, request: SupervisorRequest) -> Report:
        """Plan, execute, review, write the report."""
        try:
            session = self._session = await open_session(request, self._progress, self._mailbox, self._place)
            plan = self._progress.plan or await self._plan(session)
            while plan is not None:
                enter(session, "executing")
                await execute(session)
                plan = await within_time(session.clock, review(session)) or session.plan_left
            enter(session, "synthesising")
            report = await write_report(session)
            await workflow.wait_condition(workflow.all_handlers_finished)
            report = with_late_messages(session, report)
            enter(session, "finished")
            list_state(session, report)
            await self._place.leave(session.close_ledger())
            await announce_end(session, stop_reason=report.stop_reason)
        except (asyncio.CancelledError, Exception) as error:
            self._progress.enter("cancelled" if _is_cancellation(error) else "failed")
            await self._finish_handlers()
            if self._session is not None:
                list_state(self._session)
            else:
                list_end(self._progress.state)
            if workflow.in_workflow():
                await self._place.leave(self._session.close_ledger() if self._session else Decimal(0))
            if self._session is None or request.delegation is None:
                await self._announce_failure(error)
                raise
            # The parent session has to learn what was spent and found.
            return await _report_after(error, self._session)
        else:
            return report

    @workflow.query(**handles(Messages.status))
    def status(self) -> Status:
        """Return the session status."""
        return self._progress.status()

    @workflow.query(**handles(Messages.plan))
    def plan(self) -> Plan | None:
        """Return the plan."""
        return self._progress.plan

    @workflow.update(**handles(Messages.decide_plan))
    async def decide_plan(self, decision: PlanDecision) -> Plan:
        """Apply a person's decision; an edited plan is validated like any plan."""
        self._has_decision = True
        await _next_task()
        if decision.plan is not None and self._session is not None:
            try:
                self._progress.adopt(validate(self._session, decision.plan))
            except InvalidPlan as error:
                self._has_decision = False
                raise invalid_plan(error.errors) from None
        self._decision = decision
        plan = self._progress.plan
        if plan is None:
            raise AssertionError("the validator accepts decisions only when there is a plan")
        return plan

    @decide_plan.validator
    def _is_awaited(self, decision: PlanDecision) -> None:  # noqa: ARG002  # the handler's signature
        if self._progress.state != "awaiting_approval" or self._has_decision:
            raise _refusal("This session is not awaiting approval.")

    @workflow.update(**handles(Messages.finish_now))
    async def finish_now(self) -> Status:
        """Stop what runs, and write the report from what there is."""
        await _next_task()
        self._open.clock.finish_now()
        return self._progress.status()

    @finish_now.validator
    def _can_finish(self) -> None:
        self._refuse_if_over()

    @workflow.update(**handles(Messages.raise_limits))
    async def raise_limits(self, raised: RaisedLimits) -> Status:
        """Apply higher limits; a paused session continues."""
        await _next_task()
        self._refuse_problems(raised)
        await self._place.enlarge(raised.budget_usd)
        self._open.raise_limits(raised)
        publish(self._open)
        return self._progress.status()

    @raise_limits.validator
    def _may_raise(self, raised: RaisedLimits) -> None:
        self._refuse_if_over()
        if workflow.info().parent is not None:
            raise _refusal("A nested session gets its limits from its parent; raise them at the root session.")
        if not self._is_resuming:
            self._refuse_problems(raised)

    @workflow.update(**handles(Messages.answer))
    async def answer(self, answer: Answer) -> Status:
        """Give a person's answer to the subtask that asked."""
        self._answered.add(answer.subtask)
        await _next_task()
        self._progress.answer(answer.subtask, answer.text)
        return self._progress.status()

    @answer.validator
    def _is_asked(self, answer: Answer) -> None:
        unanswered = [id_ for id_ in self._progress.questions if id_ not in self._answered]
        if answer.subtask not in unanswered:
            raise _refusal(
                f"subtask: '{answer.subtask}' has no open question; subtasks that have one: "
                f"{', '.join(unanswered) or 'none'}."
            )

    @workflow.update(**handles(Messages.decide_call))
    async def decide_call(self, decision: CallDecision) -> Status:
        """Apply a person's decision to the call that it names, once."""
        await _next_task()
        if problems := await argument_problems(self._open, decision):
            raise _refusal(join_problems(problems))
        try:
            pending = self._open.approvals.decide(decision)
        except CallRefused as error:
            raise _refusal(str(error)) from None
        await workflow.wait_condition(lambda: pending.is_delivered is not None)
        if not pending.is_delivered:
            raise _refusal(f"call: the subtask of '{decision.call}' has ended meanwhile; the call is not made.")
        return self._progress.status()

    @decide_call.validator
    def _is_pending(self, decision: CallDecision) -> None:
        try:
            self._open.approvals.check(decision)
        except CallRefused as error:
            raise _refusal(str(error)) from None

    @workflow.update(**handles(Messages.edit_plan))
    async def edit_plan(self, edit: PlanEdit) -> Plan:
        """Follow the plan as edited; what runs and what has ended stays."""
        await _next_task()
        self._refuse_if_over()
        try:
            return edit_plan(self._open, edit)
        except InvalidPlan as error:
            raise _refusal(str(error)) from None

    @edit_plan.validator
    def _can_be_edited(self, edit: PlanEdit) -> None:
        self._refuse_if_over()
        if not self._is_resuming:
            try:
                check_edit(self._open, edit)
            except InvalidPlan as error:
                raise _refusal(str(error)) from None

    @workflow.update(**handles(Messages.tell))
    async def tell(self, message: UserMessage) -> Status:
        """Keep a message for the agents that it is for; those that run get it now."""
        await _next_task()
        self._refuse_message(message)
        await tell(self._mailbox, self._progress, message.text, message.subtask or "")
        return self._progress.status()

    @tell.validator
    def _can_be_read(self, message: UserMessage) -> None:
        if not self._is_resuming:
            self._refuse_message(message)

    @workflow.update(**handles(Messages.interrupt))
    async def interrupt(self, interruption: Interruption = _ALL) -> Status:
        """End the tools of the agents that run; they go on with their next turn."""
        await _next_task()
        self._refuse_interruption(interruption)
        await interrupt(self._mailbox, self._progress, interruption.subtask or "")
        return self._progress.status()

    @interrupt.validator
    def _can_be_interrupted(self, interruption: Interruption = _ALL) -> None:
        if not self._is_resuming:
            self._refuse_interruption(interruption)

    @workflow.signal(name=SignalName.MAILBOX, description="What the parent session, subtasks and ledgers send.")
    async def receive(self, envelope: Envelope) -> None:
        """Settle a reply, or act on anything else; what cannot come from any of these is ignored and counted."""
        if not envelope.is_reply:
            await workflow.wait_condition(lambda: self._session is not None or self._progress.state in _ENDED)
        is_expected = self._mailbox.receive(envelope)
        if is_expected and not envelope.is_reply:
            is_expected = self._session is not None and await act_on(self._session, envelope)
        if not is_expected:
            self._progress.ignore_message()

    @workflow.signal(dynamic=True, description="Any other signal does nothing: sessions are steered by updates.")
    def ignore_unknown(self, signal: str, _: Sequence[RawValue]) -> None:
        """Show that a signal was ignored, to those who would wait for its effect."""
        self._progress.ignore_unknown(signal)

    def details(self) -> str:
        """Render what the Web UI shows of the session, when it asks."""
        return details(self._progress.status())

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise _refusal("The session is still being opened; try again.")
        return self._session

    @property
    def _is_resuming(self) -> bool:
        """Whether another run has continued in this one, which is open before any handler is."""
        return self._session is None and workflow.info().continued_run_id is not None

    def _refuse_problems(self, raised: RaisedLimits) -> None:
        problems = self._open.problems_with(raised, workflow.info().execution_timeout)
        if problems:
            raise _refusal(join_problems(problems))

    def _refuse_if_over(self) -> None:
        if self._is_resuming:
            return
        if self._open.work_is_over:
            raise self._too_late()

    @property
    def _is_over(self) -> bool:
        return self._session is not None and self._session.work_is_over

    def _too_late(self) -> ApplicationError:
        return _refusal(f"The session can no longer be changed: it is {self._progress.state}.")

    def _refuse_message(self, message: UserMessage) -> None:
        if self._is_over:
            raise self._too_late()
        try:
            check_message(self._progress, message.text, message.subtask or "")
        except SteeringRefused as error:
            raise _refusal(str(error)) from None

    def _refuse_interruption(self, interruption: Interruption) -> None:
        if self._is_over:
            raise self._too_late()
        try:
            check_interruption(self._progress, interruption.subtask or "")
        except SteeringRefused as error:
            raise _refusal(str(error)) from None

    async def _plan(self, session: Session) -> Plan | None:
        """Make a plan, and have a person decide on it if the request asks for that; None if time is up."""
        plan = await within_time(session.clock, _route_or_plan(session))
        if plan is not None and session.request.approval == "plan":
            enter(session, "awaiting_approval")
            plan = await within_time(session.clock, self._approval())
        return plan

    async def _approval(self) -> Plan | None:
        """Wait for a person's decision on the plan; returns the plan, as edited."""
        await workflow.wait_condition(lambda: self._decision is not None)
        if self._decision is not None and self._decision.decision == "reject":
            count_refusal("approval")
            raise ApplicationError(
                f"The plan was rejected. {self._decision.reason}".strip(),
                type=ErrorType.PLAN_REJECTED,
                non_retryable=True,
            )
        return self._progress.plan

    async def _announce_failure(self, error: BaseException) -> None:
        if self._session is not None:
            kind = error.type if isinstance(error, ApplicationError) else None
            await announce_end(self._session, error=kind or "")

    async def _finish_handlers(self) -> None:
        """Let update and signal handlers answer before the workflow closes."""
        if self._session is not None:
            self._session.clock.stop()
        if workflow.all_handlers_finished():
            return
        with suppress(TimeoutError):
            await workflow.wait_condition(workflow.all_handlers_finished, timeout=options.HANDLER_TIMEOUT)


async def _route_or_plan(session: Session) -> Plan:
    with OPEN_SPAN.get()("plan"):
        routed = await route(session)
        if routed is not None:
            return routed
        await design_agents(session)
        return await make_plan(session)


async def _report_after(error: BaseException, session: Session) -> Report:
    """Report what a nested session spent and found before it failed or was cancelled."""
    if _is_cancellation(error):
        session.clock.finish_now()
        session.clock.interrupt()
    else:
        session.progress.add_gaps([error.message if isinstance(error, ApplicationError) else str(error)])
    return await write_report(session, by_models=False)


def _refusal(message: str) -> ApplicationError:
    """Build the error of an update that is refused."""
    return ApplicationError(message, type=ErrorType.UPDATE_REFUSED, non_retryable=True)


async def _next_task() -> None:
    """Wait for the next workflow task before an update changes anything.

    Without a cached workflow the SDK can deliver an update together with what an earlier, commandless task already
    decided, and the update first; a replay then sees them one after the other (docs/decisions/0008).
    """
    await workflow.sleep(options.NEXT_TASK, summary="apply an update")


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error)
