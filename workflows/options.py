"""How every activity is called: its time limits and retries, each decided in this one place."""

from datetime import timedelta
from typing import Final

from temporalio.common import RetryPolicy

HEARTBEAT_TIMEOUT: Final = timedelta(seconds=3.5)
"""After this long without a sign of life a worker is taken for lost; heartbeats come every 0.8 s."""

DUPLICATE_TIMEOUT: Final = timedelta(days=7)
"""The longest that a session may run; its own deadline ends the wait sooner."""

OPEN_SESSION_TIMEOUT: Final = timedelta(seconds=10)
# It costs nothing and touches only the worker's own memory: it is tried until it succeeds or refuses the request.
OPEN_SESSION_RETRIES: Final = RetryPolicy(initial_interval=timedelta(milliseconds=100))

TURN_TIMEOUT: Final = timedelta(minutes=5)
TURN_PATIENCE: Final = timedelta(hours=1)
"""A turn's time with all its attempts; the session's deadline usually ends it sooner."""
BATCH_PATIENCE: Final = timedelta(hours=24)
"""What a provider may take for a batch; the session's deadline usually ends it sooner."""
# No limit on attempts here: the activity counts the provider's errors itself, and lost workers are not among them.
TURN_RETRIES: Final = RetryPolicy(
    # After a lost worker. After an error of the provider, `activities.model_turn.retry_policy` says how long to wait.
    initial_interval=timedelta(milliseconds=100),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=60),
    maximum_attempts=0,
    non_retryable_error_types=["PayloadsTooLarge"],
)

TOOL_TIMEOUT: Final = timedelta(minutes=2)
TOOL_PATIENCE: Final = timedelta(minutes=10)
TOOL_RETRIES: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=4,
    non_retryable_error_types=["PayloadsTooLarge"],
)

# A child is never run again as a whole: its own activities are what is retried.
CHILD_RETRIES: Final = RetryPolicy(maximum_attempts=1)
