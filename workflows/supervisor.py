"""The workflow of a session: plan, delegate, synthesise. It never does an agent's work."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from chargehand.contracts import Answer, Plan, PlanDecision, RaisedLimits, Report, SessionRequest, Status
    from chargehand.wire import ErrorType, QueryName, SignalName, UpdateName, WorkflowType
    from workflows.budget.client import BudgetClient
    from workflows.budget.grants import serve
    from workflows.contracts import Grant, GrantRequest
    from workflows.progress import Progress
    from workflows.rules.plan_validation import InvalidPlan
    from workflows.session import Session
    from workflows.steps.execute import carry_out
    from workflows.steps.open import open_session
    from workflows.steps.plan import checked, invalid_plan, make_plan
    from workflows.steps.report import write_report
    from workflows.steps.review import review


_FOR_HANDLERS: Final = timedelta(seconds=1)


@workflow.defn(name=WorkflowType.SUPERVISOR)
class SupervisorWorkflow:
    """Carries out one session and always ends in a report, unless no model could be had for its plan."""

    def __init__(self) -> None:
        self._progress = Progress(workflow.info().workflow_id)
        self._session: Session | None = None
        self._decision: PlanDecision | None = None
        self._is_being_decided = False
        """A decision is taken: another that comes at the same time is refused."""
        self._answered: set[str] = set()
        """Subtasks whose question has its answer, in the same sense."""
        self._budget_client = BudgetClient()

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        """Plan, carry out, review, write the report."""
        try:
            session = self._session = await open_session(request, self._progress, self._budget_client)
            plan = await session.before_the_deadline(make_plan(session))
            if plan is not None:
                self._progress.planned(plan)
            if plan is not None and request.approval == "plan":
                session.enter("awaiting_approval")
                plan = await session.before_the_deadline(self._decided())
            while plan is not None:
                session.enter("executing")
                await carry_out(session, plan)
                plan = await session.before_the_deadline(review(session, plan))
                if plan is not None:
                    self._progress.planned(plan)
            session.enter("synthesising")
            report = await write_report(session)
            await workflow.wait_condition(workflow.all_handlers_finished)
            session.enter("finished")
        except (asyncio.CancelledError, Exception) as error:
            self._progress.state = "cancelled" if _is_cancellation(error) else "failed"
            await self._let_handlers_finish()
            if not self._hands_back:
                raise
            return await self._handed_back(error)
        else:
            return report

    async def _let_handlers_finish(self) -> None:
        """Give whoever sent an update or a signal their answer before the workflow closes."""
        if self._session is not None:
            self._session.is_stopping = True
        if workflow.all_handlers_finished():
            return
        with suppress(TimeoutError):
            await workflow.wait_condition(workflow.all_handlers_finished, timeout=_FOR_HANDLERS)

    @property
    def _hands_back(self) -> bool:
        """Whether a session above has to know what was spent and found before this one broke off."""
        session = self._session
        return session is not None and session.edition >= 2 and session.request.delegation is not None

    async def _handed_back(self, error: BaseException) -> Report:
        session = self._open
        if _is_cancellation(error):
            session.cut_short = session.finish_now = True
        else:
            session.missing.append(error.message if isinstance(error, ApplicationError) else str(error))
        return await write_report(session, by_models=False)

    @workflow.query(name=QueryName.STATUS, description="Where the session stands.")
    def status(self) -> Status:
        """Say where the session stands."""
        return self._progress.status()

    @workflow.query(name=QueryName.PLAN, description="The plan; null until there is one.")
    def plan(self) -> Plan | None:
        """Show the plan."""
        return self._progress.plan

    @workflow.update(name=UpdateName.DECIDE_PLAN, description="Approve, edit or reject the plan.")
    async def decide_plan(self, decision: PlanDecision) -> Plan:
        """Take a person's decision; an edited plan is checked like any plan."""
        self._is_being_decided = True
        await _after_this_task()
        if decision.plan is not None and self._session is not None:
            try:
                self._progress.planned(checked(self._session, decision.plan))
            except InvalidPlan as error:
                self._is_being_decided = False
                raise invalid_plan(error.errors) from None
        self._decision = decision
        plan = self._progress.plan
        if plan is None:
            raise AssertionError("the validator lets decisions through only when there is a plan")
        return plan

    @decide_plan.validator
    def _is_awaited(self, decision: PlanDecision) -> None:
        if self._progress.state != "awaiting_approval" or self._is_being_decided:
            raise ValueError("No plan of this session waits for a decision.")
        if (decision.plan is not None) != (decision.decision == "edit"):
            raise ValueError("plan: is given with 'edit', and only then")

    @workflow.update(name=UpdateName.FINISH_NOW, description="Write the report from what is there.")
    async def finish_now(self) -> Status:
        """Stop what runs, and write the report from what is there."""
        await _after_this_task()
        self._open.finish_now = True
        return self._progress.status()

    @finish_now.validator
    def _can_finish(self) -> None:
        self._refuse_if_over()

    @workflow.update(name=UpdateName.RAISE_LIMITS, description="Allow the session more turns, money or time.")
    async def raise_limits(self, raised: RaisedLimits) -> Status:
        """Take over higher limits; a session that waits for them goes on."""
        await _after_this_task()
        self._open.raise_limits(raised)
        return self._progress.status()

    @raise_limits.validator
    def _may_raise(self, raised: RaisedLimits) -> None:
        self._refuse_if_over()
        if workflow.info().parent is not None:
            raise ValueError("The limits of a session below another are lent by that one; raise them at its root.")
        problems = self._open.problems_with(raised)
        if problems:
            raise ValueError("; ".join(problems))

    @workflow.update(name=UpdateName.ANSWER, description="Answer the question of a subtask.")
    async def answer(self, answer: Answer) -> Status:
        """Take a person's answer; the subtask that asked goes on with it."""
        self._answered.add(answer.subtask)
        await _after_this_task()
        self._open.answers[answer.subtask] = answer.text
        return self._progress.status()

    @answer.validator
    def _is_asked(self, answer: Answer) -> None:
        asked = self._progress.questions
        if answer.subtask not in asked or answer.subtask in self._answered:
            open_now = ", ".join(id_ for id_ in asked if id_ not in self._answered) or "none"
            raise ValueError(f"subtask: '{answer.subtask}' waits for no answer; those that do: {open_now}.")

    @workflow.signal(name=SignalName.REQUEST_GRANT, description="A subtask asks for more turns or money.")
    async def request_grant(self, request: GrantRequest) -> None:
        """Answer a child that asks for more; before the session is open there is none."""
        if self._session is not None:
            await serve(self._session, request)

    @workflow.signal(name=SignalName.GRANT, description="The answer of the session above.")
    def receive_grant(self, grant: Grant) -> None:
        """Take over the answer."""
        self._budget_client.take(grant)

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise ApplicationError("The session is still being opened; try again.", type=ErrorType.INVALID_INPUT)
        return self._session

    def _refuse_if_over(self) -> None:
        if self._open.is_over or self._progress.state in {"synthesising", "finished", "failed", "cancelled"}:
            raise ValueError(f"The session cannot be changed any more: it is {self._progress.state}.")

    async def _decided(self) -> Plan | None:
        await workflow.wait_condition(lambda: self._decision is not None)
        if self._decision is not None and self._decision.decision == "reject":
            raise ApplicationError(
                f"The plan was rejected. {self._decision.reason}".strip(),
                type=ErrorType.PLAN_REJECTED,
                non_retryable=True,
            )
        return self._progress.plan


async def _after_this_task() -> None:
    """Let an update change nothing before the next workflow task.

    Without a cached workflow the SDK can deliver an update together with what an earlier, commandless task already
    decided upon, and the update first; a replay then sees them one after the other (docs/decisions/0008).
    """
    await workflow.sleep(timedelta(milliseconds=1), summary="take an update over")


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error)
