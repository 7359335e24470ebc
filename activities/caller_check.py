"""The caller check: activities that cost money or reach out run only inside a session."""

from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from chargehand.wire import ErrorType, WorkflowType

_OURS: Final = {WorkflowType.SUPERVISOR, WorkflowType.SUBTASK}


def require_session() -> None:
    """Raise unless one of our workflows scheduled the running activity.

    Raises:
        ApplicationError: `NotStandalone`, for an activity that was started by hand.
    """
    if activity.info().workflow_type not in _OURS:
        raise ApplicationError(
            "This activity spends money or reaches out, and runs only within a session, whose limits hold. "
            f"Start the workflow '{WorkflowType.SUPERVISOR}' instead.",
            type=ErrorType.NOT_STANDALONE,
            non_retryable=True,
        )
