"""What a server tells a workflow, as the SDK's core hands it over."""

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import RetryState
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from chargehand.converter import data_converter
from chargehand_plugins.testing.in_memory.sdk import Job, StartChildWorkflowExecutionFailedCause

_CONVERTER = data_converter()
PAYLOADS = _CONVERTER.payload_converter


def application_failure(error: ApplicationError) -> Failure:
    """Write an error as a worker does."""
    failure = Failure()
    _CONVERTER.failure_converter.to_failure(error, PAYLOADS, failure)
    return failure


def error_of(failure: Failure) -> BaseException:
    """Read what a workflow ended by as a client does."""
    return _CONVERTER.failure_converter.from_failure(failure, PAYLOADS)


def cancelled() -> Failure:
    failure = Failure(message="Cancelled")
    failure.canceled_failure_info.SetInParent()
    return failure


def activity_resolved(
    seq: int, activity_type: str, activity_id: str, *, result: Payload | None = None, cause: Failure | None = None
) -> Job:
    job = Job()
    job.resolve_activity.seq = seq
    resolution = job.resolve_activity.result
    if cause is None:
        if result is not None:
            resolution.completed.result.CopyFrom(result)
        else:
            resolution.completed.SetInParent()
        return job
    is_cancelled = cause.HasField("canceled_failure_info")
    failure = resolution.cancelled.failure if is_cancelled else resolution.failed.failure
    failure.message = "Activity cancelled" if is_cancelled else "Activity task failed"
    info = failure.activity_failure_info
    info.activity_type.name = activity_type
    info.activity_id = activity_id
    info.retry_state = (
        RetryState.RETRY_STATE_CANCEL_REQUESTED if is_cancelled else RetryState.RETRY_STATE_NON_RETRYABLE_FAILURE
    )
    failure.cause.CopyFrom(cause)
    return job


def child_started(seq: int, run_id: str) -> Job:
    job = Job()
    job.resolve_child_workflow_execution_start.seq = seq
    job.resolve_child_workflow_execution_start.succeeded.run_id = run_id
    return job


def child_refused(seq: int, workflow_id: str, workflow_type: str) -> Job:
    """Say that a workflow of this id was started before."""
    job = Job()
    job.resolve_child_workflow_execution_start.seq = seq
    failed = job.resolve_child_workflow_execution_start.failed
    failed.workflow_id, failed.workflow_type = workflow_id, workflow_type
    failed.cause = (
        StartChildWorkflowExecutionFailedCause.START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS
    )
    return job


def child_never_sent(seq: int, workflow_id: str, workflow_type: str) -> Job:
    """Say that a child was cancelled in the very task that asked for it."""
    job = Job()
    job.resolve_child_workflow_execution_start.seq = seq
    _child_failure(
        job.resolve_child_workflow_execution_start.cancelled.failure, workflow_id, workflow_type, cancelled()
    )
    return job


def child_resolved(
    seq: int, workflow_id: str, workflow_type: str, *, result: Payload | None, cause: Failure | None
) -> Job:
    job = Job()
    job.resolve_child_workflow_execution.seq = seq
    resolution = job.resolve_child_workflow_execution.result
    if cause is None:
        resolution.completed.SetInParent()
        if result is not None:
            resolution.completed.result.CopyFrom(result)
    elif cause.HasField("canceled_failure_info"):
        _child_failure(resolution.cancelled.failure, workflow_id, workflow_type, cause)
    else:
        _child_failure(resolution.failed.failure, workflow_id, workflow_type, cause)
    return job


def _child_failure(failure: Failure, workflow_id: str, workflow_type: str, cause: Failure) -> None:
    failure.message = "Child Workflow execution did not complete"
    info = failure.child_workflow_execution_failure_info
    info.workflow_execution.workflow_id = workflow_id
    info.workflow_type.name = workflow_type
    failure.cause.CopyFrom(cause)


def signalled(name: str, payloads: Sequence[Payload]) -> Job:
    job = Job()
    job.signal_workflow.signal_name = name
    job.signal_workflow.input.extend(payloads)
    return job


def signal_resolved(seq: int, failure: Failure | None = None) -> Job:
    job = Job()
    job.resolve_signal_external_workflow.seq = seq
    if failure is not None:
        job.resolve_signal_external_workflow.failure.CopyFrom(failure)
    return job


def cancel_resolved(seq: int, failure: Failure | None = None) -> Job:
    job = Job()
    job.resolve_request_cancel_external_workflow.seq = seq
    if failure is not None:
        job.resolve_request_cancel_external_workflow.failure.CopyFrom(failure)
    return job


def no_such_execution() -> Failure:
    failure = Failure(message="Unable to signal external workflow because it was not found")
    failure.application_failure_info.type = "ExternalWorkflowExecutionNotFound"
    return failure


def timer_fired(seq: int) -> Job:
    job = Job()
    job.fire_timer.seq = seq
    return job


def cancel_requested(reason: str) -> Job:
    job = Job()
    job.cancel_workflow.reason = reason
    return job


def update_asked(update_id: str, name: str, payloads: Sequence[Payload]) -> Job:
    job = Job()
    update = job.do_update
    update.id = update.protocol_instance_id = update_id
    update.name = name
    update.input.extend(payloads)
    update.run_validator = True
    return job


def queried(name: str) -> Job:
    job = Job()
    job.query_workflow.query_id = "query"
    job.query_workflow.query_type = name
    return job


def evicted() -> Job:
    job = Job()
    job.remove_from_cache.message = "the simulated worker is gone"
    return job
