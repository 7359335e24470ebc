"""The session as a typed Temporal workflow, for callers: names and types without the code behind them."""

from temporalio import workflow

from chargehand.contracts import Answer, Plan, PlanDecision, RaisedLimits, Report, SessionRequest, Status
from chargehand.wire import QueryName, UpdateName, WorkflowType


@workflow.defn(name=WorkflowType.SUPERVISOR)
class Supervisor:
    """What a session takes, answers and returns."""

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        """Carry out the request; see `SessionRequest` and `Report`."""
        raise NotImplementedError(request)

    @workflow.query(name=QueryName.STATUS)
    def status(self) -> Status:
        """Say where the session stands."""
        raise NotImplementedError

    @workflow.query(name=QueryName.PLAN)
    def plan(self) -> Plan | None:
        """Show the plan; None until there is one."""
        raise NotImplementedError

    @workflow.update(name=UpdateName.DECIDE_PLAN)
    def decide_plan(self, decision: PlanDecision) -> Plan:
        """Approve, edit or reject a plan that waits for approval; returns the plan that is carried out."""
        raise NotImplementedError(decision)

    @workflow.update(name=UpdateName.RAISE_LIMITS)
    def raise_limits(self, raised: RaisedLimits) -> Status:
        """Allow the session more turns, money or time; one that waits for them goes on."""
        raise NotImplementedError(raised)

    @workflow.update(name=UpdateName.ANSWER)
    def answer(self, answer: Answer) -> Status:
        """Answer the question of a subtask, which goes on with it."""
        raise NotImplementedError(answer)

    @workflow.update(name=UpdateName.FINISH_NOW)
    def finish_now(self) -> Status:
        """Stop what runs, and write the report from what is there."""
        raise NotImplementedError
