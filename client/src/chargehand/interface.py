"""The session as a typed Temporal workflow, for callers: its signatures without the implementation."""

from temporalio import workflow

from chargehand.contracts import Answer, CallDecision, Plan, PlanDecision, RaisedLimits, Report, SessionRequest, Status
from chargehand.wire import QueryName, UpdateName, WorkflowType


@workflow.defn(name=WorkflowType.SUPERVISOR)
class Supervisor:
    """Input, queries, updates and result of a session."""

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        """Run a session."""
        raise NotImplementedError(request)

    @workflow.query(name=QueryName.STATUS)
    def status(self) -> Status:
        """Return the session's status."""
        raise NotImplementedError

    @workflow.query(name=QueryName.PLAN)
    def plan(self) -> Plan | None:
        """Return the plan; None until there is one."""
        raise NotImplementedError

    @workflow.update(name=UpdateName.DECIDE_PLAN)
    def decide_plan(self, decision: PlanDecision) -> Plan:
        """Approve, edit or reject a plan that is awaiting approval; return the plan that is executed."""
        raise NotImplementedError(decision)

    @workflow.update(name=UpdateName.RAISE_LIMITS)
    def raise_limits(self, raised: RaisedLimits) -> Status:
        """Raise the limits; a paused session continues."""
        raise NotImplementedError(raised)

    @workflow.update(name=UpdateName.ANSWER)
    def answer(self, answer: Answer) -> Status:
        """Answer the question of a subtask, which then continues."""
        raise NotImplementedError(answer)

    @workflow.update(name=UpdateName.DECIDE_CALL)
    def decide_call(self, decision: CallDecision) -> Status:
        """Approve, edit or reject a tool call that waits for a person."""
        raise NotImplementedError(decision)

    @workflow.update(name=UpdateName.FINISH_NOW)
    def finish_now(self) -> Status:
        """Stop the running subtasks, and write the report from the results so far."""
        raise NotImplementedError
