"""The workflows that callers start, as typed signatures without the implementation."""

from temporalio import workflow

from chargehand.contracts import Report, SessionRequest, TenantUsage, VerificationReport, VerificationRequest
from chargehand.wire import QueryName, WorkflowType


@workflow.defn(name=WorkflowType.VERIFICATION)
class Verification:
    """Input and result of the verification of a report."""

    @workflow.run
    async def run(self, request: VerificationRequest) -> VerificationReport:
        """Verify the report of a session."""
        raise NotImplementedError(request)


@workflow.defn(name=WorkflowType.SUPERVISOR)
class Supervisor:
    """Input and result of a session; its queries and updates are in `chargehand.messages`."""

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        """Run a session."""
        raise NotImplementedError(request)


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
