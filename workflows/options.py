"""All timeouts and retry policies of the workflows: how activities and children are called, how long steps wait."""

from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Final, TypedDict, TypeVar

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

from activities.heartbeat import HEARTBEAT_TIMEOUT
from chargehand.contracts import SessionRequest, WaitKind

_Result = TypeVar("_Result")

_LEAST_PATIENCE: Final = timedelta(seconds=1)
"""Minimum time for an activity, even past its deadline."""

_OPEN_SESSION_TIMEOUT: Final = timedelta(seconds=10)
# Free of charge, so it is retried until it succeeds, refuses the request, or the session's deadline passes.
_OPEN_SESSION_RETRIES: Final = RetryPolicy(initial_interval=timedelta(milliseconds=100))

_LONGEST_TURN: Final = timedelta(days=7)
"""Time limit of a turn whose workflow has no deadline."""
MOST_CALLS_OF_A_TURN: Final = 10
"""Upper limit, regardless of the reasons for repeating the call."""
# Unbilled failures are retried until the turn's time is up; the activity ends the retries in all other cases.
TURN_RETRIES: Final = RetryPolicy(
    # After a lost worker. After a provider error, `activities.turn.retry_policy` sets the delay.
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
"""Time reserved for writing the report, thinking included: this, or a fifth of the session's time if less."""
LEAST_REPORT_TIME: Final = timedelta(seconds=1)
"""Minimum time for the writer, even past the deadline."""
_NESTED_MARGIN: Final = timedelta(seconds=5)
"""A nested session ends this long before its parent's report, or a fifth of the time left if less."""
STOP_TIMEOUT: Final = timedelta(seconds=5)
"""Time for a stopping subtask to return its results."""
HANDLER_TIMEOUT: Final = timedelta(seconds=1)
"""Time that a failed session waits for its message handlers before it closes."""
QUEUE_MARGIN: Final = timedelta(minutes=10)
"""A queued session gives up this long before the server would end it."""
ASK_AGAIN: Final = timedelta(minutes=5)
"""Interval after which a queued session asks its tenant's ledger again, in case that was terminated."""
MOST_ASK_AGAIN: Final = timedelta(hours=1)
"""Maximum of that interval, which doubles each time."""
_QUESTION_TIME: Final = timedelta(minutes=15)
_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5
NEXT_TASK: Final = timedelta(milliseconds=1)
"""A timer that fires in the next workflow task."""


def execution_timeout() -> timedelta | None:
    """Return this workflow's execution timeout; None if it has none, which Temporal's CLI sends as 0."""
    return workflow.info().execution_timeout or None


async def unless_failed(activity: Awaitable[_Result]) -> _Result | None:
    """Wait for an activity; None if its retries have failed. A cancellation is raised."""
    try:
        return await activity
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        return None


class ActivityLimits(TypedDict, total=False):
    """Timeout and retry options of an activity."""

    start_to_close_timeout: timedelta
    schedule_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: workflow.ActivityCancellationType


def priority_of(request: SessionRequest, weight: float = 1.0) -> Priority:
    """Translate a request's tenant and priority for the server; a child's activities inherit them."""
    return Priority(
        priority_key=request.priority,
        fairness_key=request.tenant,
        fairness_weight=None if weight == 1 else weight,  # the server's default, which histories do not need to repeat
    )


def _limits(patience: timedelta, retries: RetryPolicy) -> ActivityLimits:
    return ActivityLimits(
        start_to_close_timeout=patience,
        schedule_to_close_timeout=patience,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=retries,
    )


def open_session(deadline: timedelta, *, has_documents: bool) -> ActivityLimits:
    """Build the limits of the activity that opens a session, which fetches and indexes documents."""
    limits = _limits(max(deadline, _OPEN_SESSION_TIMEOUT), _OPEN_SESSION_RETRIES)
    return limits if has_documents else {**limits, "start_to_close_timeout": _OPEN_SESSION_TIMEOUT}


def turn(left: timedelta | None) -> ActivityLimits:
    """Build the limits of a model turn; `left` is the time for all its attempts.

    The adapter gives up on a silent provider much sooner.
    """
    return _limits(_within(left, _LONGEST_TURN), TURN_RETRIES)


def tool(left: timedelta) -> ActivityLimits:
    """Build the limits of a tool call; `left` is the time for all its attempts.

    The activity gives up on a tool without progress much sooner.
    """
    return _limits(_within(left, timedelta(minutes=10)), _TOOL_RETRIES)


OPEN_AT_ONCE_TIMEOUT: Final = timedelta(seconds=2)
"""For a session without documents, opened within a workflow task: well below the task's timeout of ten seconds."""
VERIFICATION: Final = _limits(timedelta(minutes=10), _TOOL_RETRIES)
"""Verifies a report, reading all documents of a session."""
CHECK: Final = ActivityLimits(schedule_to_close_timeout=timedelta(seconds=20), retry_policy=_OPEN_SESSION_RETRIES)
"""Checks or records a person's input while the person waits."""
FIRST: Final = Priority(priority_key=1)
"""For an activity that precedes those of all sessions."""
RUNNING_DUPLICATE: Final = ActivityLimits(
    # The longest that a session may run; its deadline ends the wait sooner.
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
"""Reads a queue's backlog; without an answer, no agent counts as slow."""
FIND_ENDED: Final = _limits(timedelta(minutes=2), _OPEN_SESSION_RETRIES)
"""Looks for ended sessions; repeated regularly, so failures need no retries."""
COUNT_SPENT: Final = ActivityLimits(
    start_to_close_timeout=timedelta(minutes=10),
    heartbeat_timeout=HEARTBEAT_TIMEOUT,
    retry_policy=_OPEN_SESSION_RETRIES,
)
"""Counts the spend of a tenant's sessions, which admission requires."""
COUNT_AGAIN: Final = timedelta(minutes=1)
"""Minimum interval between two counts."""
ADD_AGENTS: Final = ActivityLimits(
    start_to_close_timeout=_OPEN_SESSION_TIMEOUT,
    schedule_to_close_timeout=6 * _OPEN_SESSION_TIMEOUT,
    heartbeat_timeout=HEARTBEAT_TIMEOUT,
    retry_policy=_OPEN_SESSION_RETRIES,
)
"""Adds agents to a session's crew; it only writes to a store."""


def report_time(session_time: timedelta) -> timedelta:
    return min(max(session_time, timedelta(0)) / 5, REPORT_TIME)


def nested_margin(left: timedelta) -> timedelta:
    """Choose how long before its parent's report a nested session ends."""
    return min(_NESTED_MARGIN, left / 5)


def _within(left: timedelta | None, most: timedelta) -> timedelta:
    return most if left is None else min(most, max(left, _LEAST_PATIENCE))


def decision_time(kind: WaitKind, now: datetime) -> timedelta:
    """Compute the default time for a decision: 15 minutes for an answer, a working day for anything else.

    A working day ends at the same hour of the next day from Monday to Friday, in UTC.
    """
    if kind == "question":
        return _QUESTION_TIME
    then = now + _DAY
    while then.weekday() >= _SATURDAY:
        then += _DAY
    return then - now
