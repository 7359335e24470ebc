"""The private parts of Temporal's SDK that the in-memory server needs, imported here only."""

from temporalio.bridge.proto.child_workflow import ParentClosePolicy, StartChildWorkflowExecutionFailedCause
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob as Job
from temporalio.bridge.proto.workflow_commands import (
    ActivityCancellationType,
    ScheduleActivity,
    SignalExternalWorkflowExecution,
    StartChildWorkflowExecution,
    WorkflowCommand,
)
from temporalio.bridge.proto.workflow_completion import Success

__all__ = [
    "ActivityCancellationType",
    "Job",
    "ParentClosePolicy",
    "ScheduleActivity",
    "SignalExternalWorkflowExecution",
    "StartChildWorkflowExecution",
    "StartChildWorkflowExecutionFailedCause",
    "Success",
    "WorkflowActivation",
    "WorkflowCommand",
]
