"""Going on after an operator's `workflow reset`: children that were started before it are waited for, not refused."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from activities.contracts import RunningDuplicate, RunningDuplicateRequest
from activities.model_turn.resets import RunningDuplicateActivities
from workflows import options


def was_reset() -> bool:
    """Whether this run goes on from the middle of another one."""
    info = workflow.info()
    return info.continued_run_id is None and info.run_id != info.first_execution_run_id


async def await_duplicate(workflow_id: str) -> RunningDuplicate:
    """Wait for a child of that id which an earlier run has started; a `duplicate` is anything else."""
    if not was_reset():
        return RunningDuplicate(ended="duplicate")
    try:
        return await workflow.execute_activity_method(
            RunningDuplicateActivities.await_duplicate,
            RunningDuplicateRequest(workflow_id=workflow_id),
            start_to_close_timeout=options.DUPLICATE_TIMEOUT,
            heartbeat_timeout=options.HEARTBEAT_TIMEOUT,
            retry_policy=options.OPEN_SESSION_RETRIES,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary="wait for what was begun before the reset",
        )
    except ActivityError as error:
        if isinstance(error.cause, ApplicationError):
            return RunningDuplicate(ended="failed", message=error.cause.message)
        raise
