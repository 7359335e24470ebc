"""Activation jobs for workflows, in the SDK core's format."""

from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import RetryState
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from chargehand.converter import data_converter
from chargehand_plugins.testing.in_memory.sdk import Job, StartChildWorkflowExecutionFailedCause

_CONVERTER = data_converter()
PAYLOADS = _CONVERTER.payload_converter


def job(**content: Any) -> Job:
    """Build a job; protobuf accepts nested messages as dictionaries, and None as absent."""
    return Job(**content)


def application_failure(error: ApplicationError) -> Failure:
    failure = Failure()
    _CONVERTER.failure_converter.to_failure(error, PAYLOADS, failure)
    return failure


def error_of(failure: Failure) -> BaseException:
    return _CONVERTER.failure_converter.from_failure(failure, PAYLOADS)


def cancelled() -> Failure:
    failure = Failure(message="Cancelled")
    failure.canceled_failure_info.SetInParent()
    return failure


def no_such_execution() -> Failure:
    failure = Failure(message="Unable to signal external workflow because it was not found")
    failure.application_failure_info.type = "ExternalWorkflowExecutionNotFound"
    return failure


def activity_resolved(
    seq: int, activity_type: str, activity_id: str, *, result: Payload | None = None, cause: Failure | None = None
) -> Job:
    is_cancelled = cause is not None and cause.HasField("canceled_failure_info")
    state = RetryState.RETRY_STATE_CANCEL_REQUESTED if is_cancelled else RetryState.RETRY_STATE_NON_RETRYABLE_FAILURE
    about = {"activity_type": {"name": activity_type}, "activity_id": activity_id, "retry_state": state}
    message = "Activity cancelled" if is_cancelled else "Activity task failed"
    end = _end(result, cause, {"message": message, "activity_failure_info": about, "cause": cause})
    return job(resolve_activity={"seq": seq, "result": end})


def child_started(seq: int, run_id: str) -> Job:
    return job(resolve_child_workflow_execution_start={"seq": seq, "succeeded": {"run_id": run_id}})


def child_refused(seq: int, workflow_id: str, workflow_type: str) -> Job:
    """Build the refusal of a child whose id already exists."""
    cause = StartChildWorkflowExecutionFailedCause.START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS
    failed = {"workflow_id": workflow_id, "workflow_type": workflow_type, "cause": cause}
    return job(resolve_child_workflow_execution_start={"seq": seq, "failed": failed})


def child_never_sent(seq: int, workflow_id: str, workflow_type: str) -> Job:
    """Build the cancellation of a child in the task that started it."""
    failure = _child_failure(workflow_id, workflow_type, cancelled())
    return job(resolve_child_workflow_execution_start={"seq": seq, "cancelled": {"failure": failure}})


def child_resolved(
    seq: int, workflow_id: str, workflow_type: str, *, result: Payload | None, cause: Failure | None
) -> Job:
    end = _end(result, cause, _child_failure(workflow_id, workflow_type, cause))
    return job(resolve_child_workflow_execution={"seq": seq, "result": end})


def _end(result: Payload | None, cause: Failure | None, failure: dict[str, Any]) -> dict[str, Any]:
    if cause is None:
        return {"completed": {"result": result}}
    return {"cancelled" if cause.HasField("canceled_failure_info") else "failed": {"failure": failure}}


def _child_failure(workflow_id: str, workflow_type: str, cause: Failure | None) -> dict[str, Any]:
    about = {"workflow_execution": {"workflow_id": workflow_id}, "workflow_type": {"name": workflow_type}}
    message = "Child Workflow execution did not complete"
    return {"message": message, "child_workflow_execution_failure_info": about, "cause": cause}


def update_requested(update_id: str, name: str, payloads: Sequence[Payload]) -> Job:
    return job(
        do_update={
            "id": update_id,
            "protocol_instance_id": update_id,
            "name": name,
            "input": payloads,
            "run_validator": True,
        }
    )


def queried(name: str) -> Job:
    return job(query_workflow={"query_id": "query", "query_type": name})
