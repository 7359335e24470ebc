"""The session as a typed Temporal workflow, for callers: its signatures without the implementation."""

from temporalio import workflow

from chargehand.contracts import (
    Answer,
    CallDecision,
    Interruption,
    Plan,
    PlanDecision,
    PlanEdit,
    RaisedLimits,
    Report,
    SessionRequest,
    Status,
    TenantUsage,
    UserMessage,
    VerificationReport,
    VerificationRequest,
)
from chargehand.wire import QueryName, UpdateName, WorkflowType


@workflow.defn(name=WorkflowType.VERIFICATION)
class Verification:
    """Input and result of the verification of a report."""

    @workflow.run
    async def run(self, request: VerificationRequest) -> VerificationReport:
        """Verify the report of a session."""
        raise NotImplementedError(request)


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

    @workflow.update(name=UpdateName.TELL)
    def tell(self, message: UserMessage) -> Status:
        """Have agents read a message at their next turn."""
        raise NotImplementedError(message)

    @workflow.update(name=UpdateName.INTERRUPT)
    def interrupt(self, interruption: Interruption) -> Status:
        """End the tools that agents are using."""
        raise NotImplementedError(interruption)

    @workflow.update(name=UpdateName.EDIT_PLAN)
    def edit_plan(self, edit: PlanEdit) -> Plan:
        """Change what has not begun of the plan; return the plan."""
        raise NotImplementedError(edit)


@workflow.defn(name=WorkflowType.TENANT)
class Tenant:
    """The query of a tenant's ledger, which only sessions start."""

    @workflow.run
    async def run(self, request: object) -> None:
        """Keep the ledger."""
        raise NotImplementedError(request)

    @workflow.query(name=QueryName.USAGE)
    def usage(self) -> TenantUsage:
        """Return how much of its limits the tenant uses."""
        raise NotImplementedError
