"""The private parts of Temporal's SDK that workers need, imported here only."""

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker._command_aware_visitor import CommandInfo

__all__ = ["CommandInfo", "WorkflowActivation", "WorkflowActivationCompletion"]
