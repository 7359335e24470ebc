"""Every timeout and retry policy of the workflows: how activities and children are called, and how long steps wait."""

from datetime import timedelta
from typing import Final, TypedDict

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy

from activities.heartbeat import HEARTBEAT_TIMEOUT
from chargehand.contracts import SessionRequest

_LEAST_PATIENCE: Final = timedelta(seconds=1)
"""What an activity gets even when its time is up."""

_OPEN_SESSION_TIMEOUT: Final = timedelta(seconds=10)
# It costs nothing: it is retried until it succeeds, refuses the request, or the session's deadline passes.
_OPEN_SESSION_RETRIES: Final = RetryPolicy(initial_interval=timedelta(milliseconds=100))

_LONGEST_TURN: Final = timedelta(days=7)
"""The time of a turn whose workflow has no deadline."""
MOST_CALLS_OF_A_TURN: Final = 10
"""Whatever keeps a turn from being answered."""
# What was not billed is retried until the turn's time is up; the activity ends the retries in all other cases.
TURN_RETRIES: Final = RetryPolicy(
    # After a lost worker. After an error of the provider, `activities.turn.retry_policy` says how long to wait.
    initial_interval=timedelta(milliseconds=100),
    maximum_interval=timedelta(seconds=60),
    non_retryable_error_types=["PayloadsTooLarge"],
)

_TOOL_RETRIES: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=4,
    non_retryable_error_types=["PayloadsTooLarge"],
)

REPORT_TIME: Final = timedelta(minutes=2)
"""The most of a session's time that is kept for writing the report, with thinking; a fifth of it if that is less."""
LEAST_REPORT_TIME: Final = timedelta(seconds=1)
"""What the writer gets even when the deadline has passed."""
_NESTED_MARGIN: Final = timedelta(seconds=5)
"""How much earlier than the parent's report a nested session has to end; a fifth of the time left if that is less."""
STOP_TIMEOUT: Final = timedelta(seconds=5)
"""How long a subtask that is asked to stop may take to return what it has."""
HANDLER_TIMEOUT: Final = timedelta(seconds=1)
"""How long a session that failed waits for its message handlers before it closes."""
QUEUE_MARGIN: Final = timedelta(minutes=10)
"""How long before the server would end it a session gives up waiting to begin."""
ASK_AGAIN: Final = timedelta(minutes=5)
"""After how long a session that waits asks its tenant's ledger again, which an operator may have terminated."""
MOST_ASK_AGAIN: Final = timedelta(hours=1)
"""The same when it has asked several times: it waits twice as long each time."""
NEXT_TASK: Final = timedelta(milliseconds=1)
"""A timer that ends in the next workflow task."""


def execution_timeout() -> timedelta | None:
    """Return after how long the server ends this workflow; None if it never does, for which Temporal's CLI sends 0."""
    return workflow.info().execution_timeout or None


class ActivityLimits(TypedDict, total=False):
    """The options of an activity that limit its time and its attempts."""

    start_to_close_timeout: timedelta
    schedule_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: workflow.ActivityCancellationType


def priority_of(request: SessionRequest, weight: float = 1.0) -> Priority:
    """Translate tenant and priority of a request for the server. Activities of a child inherit the child's."""
    return Priority(
        priority_key=request.priority,
        fairness_key=request.tenant,
        fairness_weight=None if weight == 1 else weight,  # the server's default, which histories need not repeat
    )


def _limits(patience: timedelta, retries: RetryPolicy) -> ActivityLimits:
    """Limit an activity that heartbeats to a time in which it has to end with all its attempts."""
    return ActivityLimits(
        start_to_close_timeout=patience,
        schedule_to_close_timeout=patience,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=retries,
    )


def open_session(deadline: timedelta, *, has_documents: bool) -> ActivityLimits:
    """Build the limits of the activity that opens a session; documents are fetched and indexed by it."""
    limits = _limits(max(deadline, _OPEN_SESSION_TIMEOUT), _OPEN_SESSION_RETRIES)
    return limits if has_documents else {**limits, "start_to_close_timeout": _OPEN_SESSION_TIMEOUT}


def turn(left: timedelta | None) -> ActivityLimits:
    """Build the limits of a model turn; `left` is the time until it has to end with all its attempts.

    A provider that sends nothing is given up much sooner, by the adapter.
    """
    return _limits(_within(left, _LONGEST_TURN), TURN_RETRIES)


def tool(left: timedelta) -> ActivityLimits:
    """Build the limits of a tool call; `left` is the time until it has to end with all its attempts.

    A tool that makes no progress is given up much sooner, by the activity.
    """
    return _limits(_within(left, timedelta(minutes=10)), _TOOL_RETRIES)


OPEN_AT_ONCE_TIMEOUT: Final = timedelta(seconds=2)
"""Of a session without documents that is opened within a workflow task: well below the ten seconds after which the
server gives the task to another worker."""
VERIFICATION: Final = _limits(timedelta(minutes=10), _TOOL_RETRIES)
"""Verifies a report; it reads all documents of a session."""
CHECK: Final = ActivityLimits(schedule_to_close_timeout=timedelta(seconds=20), retry_policy=_OPEN_SESSION_RETRIES)
"""Checks or records what a person has written; the person waits for it."""
FIRST: Final = Priority(priority_key=1)
"""Of an activity that goes before those of all sessions."""
RUNNING_DUPLICATE: Final = ActivityLimits(
    # The longest that a session may run; its own deadline ends the wait sooner.
    start_to_close_timeout=timedelta(days=7),
    heartbeat_timeout=HEARTBEAT_TIMEOUT,
    retry_policy=_OPEN_SESSION_RETRIES,
    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
)
"""Waits for a child of an earlier run."""
BACKLOG: Final = ActivityLimits(
    schedule_to_close_timeout=timedelta(seconds=10),
    start_to_close_timeout=timedelta(seconds=10),
    retry_policy=_OPEN_SESSION_RETRIES,
)
"""Reads a backlog: without an answer, nothing is slow."""
FIND_ENDED: Final = _limits(timedelta(minutes=2), _OPEN_SESSION_RETRIES)
"""Looks for ended sessions, and is called again anyway."""
COUNT_SPENT: Final = ActivityLimits(
    start_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=HEARTBEAT_TIMEOUT,
    retry_policy=_OPEN_SESSION_RETRIES,
)
"""Counts what a tenant's sessions have spent: without that, none of them is admitted."""
COUNT_AGAIN: Final = timedelta(minutes=1)
"""The least time between two counts."""
ADD_AGENTS: Final = ActivityLimits(
    start_to_close_timeout=_OPEN_SESSION_TIMEOUT,
    schedule_to_close_timeout=6 * _OPEN_SESSION_TIMEOUT,
    heartbeat_timeout=HEARTBEAT_TIMEOUT,
    retry_policy=_OPEN_SESSION_RETRIES,
)
"""Gives a session's crew more agents; it only writes to a store."""


def report_time(session_time: timedelta) -> timedelta:
    return min(max(session_time, timedelta(0)) / 5, REPORT_TIME)


def nested_margin(left: timedelta) -> timedelta:
    """Choose how much earlier than its parent's report a nested session has to end."""
    return min(_NESTED_MARGIN, left / 5)


def _within(left: timedelta | None, most: timedelta) -> timedelta:
    return most if left is None else min(most, max(left, _LEAST_PATIENCE))
