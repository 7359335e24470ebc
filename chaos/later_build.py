"""A later build of the workflows with one additional step; the sandbox loads it like the current ones."""

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from chargehand.contracts import Report
    from chargehand.wire import WorkflowType
    from workflows.contracts import SubtaskRequest, SubtaskResult, SupervisorRequest
    from workflows.subtask import SubtaskWorkflow
    from workflows.supervisor import SupervisorWorkflow

STEP = "a step of the later build"


@workflow.defn(name=WorkflowType.SUPERVISOR)
class LaterSupervisor(SupervisorWorkflow):
    """Waits a moment before anything else."""

    @workflow.run
    async def run(self, request: SupervisorRequest) -> Report:
        """Take the additional step."""
        await workflow.sleep(timedelta(milliseconds=10), summary=STEP)
        return await super().run(request)


@workflow.defn(name=WorkflowType.SUBTASK)
class LaterSubtask(SubtaskWorkflow):
    """Waits a moment before anything else."""

    @workflow.run
    async def run(self, request: SubtaskRequest) -> SubtaskResult:
        """Take the additional step."""
        await workflow.sleep(timedelta(milliseconds=10), summary=STEP)
        return await super().run(request)


LATER_WORKFLOWS = (LaterSupervisor, LaterSubtask)
