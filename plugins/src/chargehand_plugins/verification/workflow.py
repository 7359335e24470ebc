"""The workflow that verifies the report of a finished session. It calls no model and costs nothing."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from chargehand.contracts import VerificationReport, VerificationRequest
    from chargehand.wire import WorkflowType
    from chargehand_plugins.verification.activity import VerificationActivities
    from workflows.options import VERIFICATION


@workflow.defn(name=WorkflowType.VERIFICATION)
class VerificationWorkflow:
    """Verifies each quotation of a report against its session's documents."""

    @workflow.run
    async def run(self, request: VerificationRequest) -> VerificationReport:
        try:
            return await workflow.execute_activity_method(
                VerificationActivities.verify_report, request, summary=request.session, **VERIFICATION
            )
        except ActivityError as error:
            if isinstance(error.cause, ApplicationError):
                raise error.cause from None  # its message says what to do
            raise
