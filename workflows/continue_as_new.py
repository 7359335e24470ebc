"""When a workflow continues as new: well before it reaches Temporal's limits of 51,200 events and 50 MiB."""

from typing import Final

from temporalio import workflow

MOST_EVENTS: Final = 4_000
MOST_BYTES: Final = 4 << 20


def is_due() -> bool:
    """Whether this run's history is long enough to continue as new."""
    info = workflow.info()
    return (
        info.is_continue_as_new_suggested()
        or info.get_current_history_length() > MOST_EVENTS
        or info.get_current_history_size() > MOST_BYTES
    )
