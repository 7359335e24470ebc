"""The workflow of a session: plan, delegate, synthesise. It never does an agent's work."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

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
    from chargehand.messages import Messages, handles
    from chargehand.wire import ErrorType, SignalName, WorkflowType
    from workflows import options
    from workflows.contracts import SupervisorRequest
    from workflows.mailbox.contracts import Envelope
    from workflows.mailbox.mailbox import Mailbox
    from workflows.rules.refusal import Refused
    from workflows.rules.web_ui import details
    from workflows.state.progress import Progress
    from workflows.state.session import Session
    from workflows.steps.admission import Place
    from workflows.steps.call_approvals import decide_call
    from workflows.steps.close import close, close_early, report_after
    from workflows.steps.design import design_agents
    from workflows.steps.execute import execute
    from workflows.steps.messages import act_on
    from workflows.steps.open import open_session
    from workflows.steps.plan import OPEN_SPAN, make_plan
    from workflows.steps.plan_decisions import await_approval, check_edit, decide_plan, edit_plan
    from workflows.steps.report import write_report
    from workflows.steps.review import review
    from workflows.steps.route import route
    from workflows.steps.steering import check_steering, steer
    from workflows.steps.visibility import enter, publish
    from workflows.steps.waits import within_time


_ALL: Final = Interruption()
_ENDED: Final = frozenset[SessionState]({"failed", "cancelled"})


@workflow.defn(name=WorkflowType.SUPERVISOR)
class SupervisorWorkflow:
    """Runs one session and always returns a report, unless no model could plan it."""

    def __init__(self) -> None:
        self._progress = Progress(workflow.info().workflow_id)
        self._session: Session | None = None
        self._mailbox = Mailbox(workflow.info().workflow_id)
        self._place = Place(self._mailbox)

    @workflow.run
    async def run(self, request: SupervisorRequest) -> Report:
        """Plan, execute, review, write the report."""
        try:
            session = self._session = await open_session(request, self._progress, self._mailbox, self._place)
            plan = self._progress.plan or await _plan(session)
            while plan is not None:
                enter(session, "executing")
                await execute(session)
                plan = await within_time(session.clock, review(session)) or session.plan_left
            enter(session, "synthesising")
            return await close(session, await write_report(session), self._place)
        except (asyncio.CancelledError, Exception) as error:
            await close_early(error, self._session, self._progress, self._place)
            if self._session is None or request.delegation is None:
                raise
            # The parent session has to learn what was spent and found.
            return await report_after(error, self._session)

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
        """Apply a person's decision."""
        self._progress.receive_decision()
        await _next_task()
        with _refusals():
            return decide_plan(self._open, decision)

    @decide_plan.validator
    def _check_decision(self, decision: PlanDecision) -> None:  # noqa: ARG002  # the handler's signature
        with _refusals():
            self._progress.check_decision()

    @workflow.update(**handles(Messages.finish_now))
    async def finish_now(self) -> Status:
        """Stop what runs, and write the report from what there is."""
        await _next_task()
        with _refusals():
            self._open.clock.finish_now()
            return self._progress.status()

    @finish_now.validator
    def _check_finish(self) -> None:
        self._check(lambda session: session.progress.refuse_if_over())

    @workflow.update(**handles(Messages.raise_limits))
    async def raise_limits(self, raised: RaisedLimits) -> Status:
        """Apply higher limits; a paused session continues."""
        await _next_task()
        with _refusals():
            self._open.check_raised(raised, workflow.info().execution_timeout)
            await self._place.enlarge(raised.budget_usd)
            self._open.raise_limits(raised)
            self._progress.waits.decide(self._progress.waits.limits_id, "raised", raised.by)
            publish(self._open)
            return self._progress.status()

    @raise_limits.validator
    def _check_raised(self, raised: RaisedLimits) -> None:
        self._check(lambda session: session.progress.refuse_if_over())
        self._check(lambda session: session.check_raised(raised, workflow.info().execution_timeout))

    @workflow.update(**handles(Messages.answer))
    async def answer(self, answer: Answer) -> Status:
        """Give a person's answer to the subtask that asked."""
        self._progress.receive_answer(answer.subtask)
        await _next_task()
        self._progress.answer(answer)
        return self._progress.status()

    @answer.validator
    def _check_answer(self, answer: Answer) -> None:
        with _refusals():
            self._progress.check_answer(answer.subtask)

    @workflow.update(**handles(Messages.decide_call))
    async def decide_call(self, decision: CallDecision) -> Status:
        """Apply a person's decision to the call that it names, once."""
        await _next_task()
        with _refusals():
            await decide_call(self._open, decision)
            return self._progress.status()

    @decide_call.validator
    def _check_call(self, decision: CallDecision) -> None:
        with _refusals():
            self._open.approvals.check(decision)

    @workflow.update(**handles(Messages.edit_plan))
    async def edit_plan(self, edit: PlanEdit) -> Plan:
        """Follow the plan as edited; what runs and what has ended stays."""
        await _next_task()
        with _refusals():
            return edit_plan(self._open, edit)

    @edit_plan.validator
    def _check_edit(self, edit: PlanEdit) -> None:
        self._check(lambda session: check_edit(session, edit))

    @workflow.update(**handles(Messages.tell))
    async def tell(self, message: UserMessage) -> Status:
        """Keep a message for the agents that it is for; those that run get it now."""
        return await self._steer(message.text, message.subtask)

    @tell.validator
    def _check_message(self, message: UserMessage) -> None:
        self._check_steering(message.text, message.subtask)

    @workflow.update(**handles(Messages.interrupt))
    async def interrupt(self, interruption: Interruption = _ALL) -> Status:
        """End the tools of the agents that run; they go on with their next turn."""
        return await self._steer("", interruption.subtask)

    @interrupt.validator
    def _check_interruption(self, interruption: Interruption = _ALL) -> None:
        self._check_steering("", interruption.subtask)

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

    async def _steer(self, text: str, subtask: str | None) -> Status:
        await _next_task()
        with _refusals():
            check_steering(self._progress, text, subtask or "")
            await steer(self._mailbox, self._progress, text, subtask or "")
            return self._progress.status()

    def _check_steering(self, text: str, subtask: str | None) -> None:
        if not self._is_resuming:
            with _refusals():
                check_steering(self._progress, text, subtask or "")

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise Refused("The session is still being opened; try again.")
        return self._session

    @property
    def _is_resuming(self) -> bool:
        """Whether another run has continued in this one, which is open before any handler is."""
        return self._session is None and workflow.info().continued_run_id is not None

    def _check(self, rule: Callable[[Session], object]) -> None:
        """Apply a rule to an update before it is accepted, unless the session is only about to continue."""
        if not self._is_resuming:
            with _refusals():
                rule(self._open)


async def _plan(session: Session) -> Plan | None:
    """Make a plan, and have a person decide on it if the request asks for that; None if time is up."""
    plan = await within_time(session.clock, _route_or_plan(session))
    if plan is not None and session.request.approval == "plan":
        plan = await within_time(session.clock, await_approval(session))
    return plan


async def _route_or_plan(session: Session) -> Plan:
    with OPEN_SPAN.get()("plan"):
        routed = await route(session)
        if routed is not None:
            return routed
        await design_agents(session)
        return await make_plan(session)


@contextmanager
def _refusals() -> Generator[None]:
    """Have an update fail with the reason for which it is refused."""
    try:
        yield
    except Refused as error:
        raise ApplicationError(str(error), type=ErrorType.UPDATE_REFUSED, non_retryable=True) from None


async def _next_task() -> None:
    """Wait for the next workflow task before an update changes anything.

    Without a cached workflow the SDK can deliver an update together with what an earlier, commandless task already
    decided, and the update first; a replay then sees them one after the other (docs/decisions/0008).
    """
    await workflow.sleep(options.NEXT_TASK, summary="apply an update")
