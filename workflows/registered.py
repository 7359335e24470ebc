"""The workflows that a worker runs, and how it runs them."""

from collections.abc import Sequence
from typing import Any, Final

from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from chargehand.contracts import Contract
from chargehand.converter import invalid_input
from workflows.subtask import SubtaskWorkflow
from workflows.supervisor import SupervisorWorkflow

WORKFLOWS: Final[Sequence[type]] = (SupervisorWorkflow, SubtaskWorkflow)

# Our own modules and pydantic are loaded once, not anew for every workflow start: that halves the worker's load.
_SHARED_MODULES: Final = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "chargehand",
    "activities",
    "workflows",
)


def workflow_runner() -> SandboxedWorkflowRunner:
    """Build the sandbox in which workflows run."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*_SHARED_MODULES))


class RefuseBadInput(Interceptor):
    """Fails a workflow at once that was started with no input or with several, instead of retrying it for ever."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002  # the SDK's own name
    ) -> type[WorkflowInboundInterceptor]:
        """Name the interceptor of workflows."""
        return _RefuseBadInput


class _RefuseBadInput(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002  # the SDK's own name
        if len(input.args) != 1 or not isinstance(input.args[0], Contract):
            raise invalid_input(
                "input", [f'input: one JSON object is expected, such as {{"goal": "…"}}; {len(input.args)} were given']
            )
        return await super().execute_workflow(input)
