"""The session workflow: plan, delegate, synthesise. It never does an agent's work."""

import asyncio
from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from chargehand.contracts import Answer, Interruption, Plan, PlanDecision, PlanEdit, Report, Status, UserMessage
    from chargehand.messages import Messages, handles
    from chargehand.plugins import Hook
    from chargehand.wire import WorkflowType
    from workflows.contracts import SupervisorRequest
    from workflows.rules.plugin_results import hook_functions, optional
    from workflows.session_workflow import SessionWorkflow, next_task
    from workflows.state.session import Session
    from workflows.steps.decisions import await_approval, check_edit, check_steering, decide_plan, edit_plan, steer
    from workflows.steps.effects import enter, within_time
    from workflows.steps.execute import execute
    from workflows.steps.open import open_session
    from workflows.steps.plan import OPEN_SPAN, design_agents, make_plan
    from workflows.steps.report import close, close_early, report_after, write_report
    from workflows.steps.review import review


_ALL: Final = Interruption()


@workflow.defn(name=WorkflowType.SUPERVISOR)
class SupervisorWorkflow(SessionWorkflow):
    """Runs one session and always returns a report, unless no model could plan it."""

    @workflow.run
    async def run(self, request: SupervisorRequest) -> Report:
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
            # The parent session needs the spend and the findings.
            return await report_after(error, self._session)

    @workflow.query(**handles(Messages.plan))
    def plan(self) -> Plan | None:
        return self._progress.plan

    @workflow.update(**handles(Messages.decide_plan))
    async def decide_plan(self, decision: PlanDecision) -> Plan:
        await self._record(decision, "plan")
        return decide_plan(self._open, decision)

    @decide_plan.validator
    def _check_decision(self, decision: PlanDecision) -> None:  # noqa: ARG002  # the handler's signature
        self._progress.check_decision()

    @workflow.update(**handles(Messages.finish_now))
    async def finish_now(self) -> Status:
        await next_task()
        self._open.clock.finish_now()
        return self._progress.status()

    @finish_now.validator
    def _check_finish(self) -> None:
        self._check(lambda session: session.progress.refuse_if_over())

    @workflow.update(**handles(Messages.answer))
    async def answer(self, answer: Answer) -> Status:
        await self._record(answer, f"question-{answer.subtask}")
        self._progress.answer(answer)
        return self._progress.status()

    @answer.validator
    def _check_answer(self, answer: Answer) -> None:
        self._progress.check_answer(answer)

    @workflow.update(**handles(Messages.edit_plan))
    async def edit_plan(self, edit: PlanEdit) -> Plan:
        await self._record(edit)
        return edit_plan(self._open, edit)

    @edit_plan.validator
    def _check_edit(self, edit: PlanEdit) -> None:
        self._check(lambda session: check_edit(session, edit))

    @workflow.update(**handles(Messages.tell))
    async def tell(self, message: UserMessage) -> Status:
        return await self._steer(message.text, message.subtask)

    @tell.validator
    def _check_message(self, message: UserMessage) -> None:
        self._check_steering(message.text, message.subtask)

    @workflow.update(**handles(Messages.interrupt))
    async def interrupt(self, interruption: Interruption = _ALL) -> Status:
        return await self._steer("", interruption.subtask)

    @interrupt.validator
    def _check_interruption(self, interruption: Interruption = _ALL) -> None:
        self._check_steering("", interruption.subtask)

    async def _steer(self, text: str, subtask: str | None) -> Status:
        await next_task()
        check_steering(self._progress, text, subtask or "")
        await steer(self._mailbox, self._progress, text, subtask or "")
        return self._progress.status()

    def _check_steering(self, text: str, subtask: str | None) -> None:
        if not self._is_resuming:
            check_steering(self._progress, text, subtask or "")


async def _plan(session: Session) -> Plan | None:
    """Make a plan, and have a person approve it if requested; None if time is up."""
    plan = await within_time(session.clock, _route_or_plan(session))
    if plan is not None and session.request.approval == "plan":
        plan = await within_time(session.clock, await_approval(session))
    return plan


async def _route_or_plan(session: Session) -> Plan:
    with OPEN_SPAN.get()("plan"):
        for route in hook_functions(Hook.ROUTE, optional(Plan)):
            if (routed := await route(session)) is not None:
                return routed
        await design_agents(session)
        return await make_plan(session)
