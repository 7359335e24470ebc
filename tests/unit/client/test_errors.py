"""Whatever Temporal says, callers hear it in the client's own words."""

import asyncio

import pytest
from temporalio.client import (
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    RetryState,
    ServerError,
    TerminatedError,
    TimeoutType,
)
from temporalio.exceptions import TimeoutError as WorkflowTimedOut
from temporalio.service import RPCError, RPCStatusCode

from chargehand import errors
from chargehand.errors import (
    AccessDenied,
    AlreadyEnded,
    ChargehandError,
    NoNamespace,
    NotReachable,
    ServerRefused,
    SessionCancelled,
    SessionEnded,
    SessionFailed,
    SessionNotFound,
    SessionTerminated,
    UpdateRefused,
)
from chargehand.failure_causes import failure_cause
from chargehand.temporal_errors import translated
from chargehand.wire import ErrorType


def _told(error: Exception) -> ChargehandError:
    with pytest.raises(ChargehandError) as caught, translated("session-1"):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def test_every_error_is_one_of_ours() -> None:
    """`except ChargehandError` catches all, and `except SessionEnded` every end without a report."""
    defined = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}

    ends = {SessionEnded, SessionFailed, SessionCancelled, SessionTerminated}
    assert {error for error in defined if issubclass(error, ChargehandError)} == defined
    assert {error for error in defined if issubclass(error, SessionEnded)} == ends


def test_every_status_of_the_server_has_an_error() -> None:
    """No answer is NotReachable, no such session SessionNotFound, and every other refusal says the server's reason."""
    for status in RPCStatusCode:
        told = _told(RPCError("reason", status, b""))

        unanswered = {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED}
        if status in unanswered:
            assert type(told) is NotReachable
        elif status in {RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED}:
            assert (type(told), "reason" in str(told)) == (AccessDenied, True)
        elif status is RPCStatusCode.NOT_FOUND:
            assert type(told) is SessionNotFound
        else:
            assert (type(told), str(told)) == (ServerRefused, "The Temporal server refused: reason")

    stuck = _told(
        RPCError("Unable to query workflow due to Workflow Task in failed state.", RPCStatusCode.ABORTED, b"")
    )
    assert "`chargehand doctor`" in str(stuck)


@pytest.mark.parametrize(
    "words", ["transport error", "h2 protocol error: reset", "error reading a body from connection"]
)
def test_a_connection_that_is_cut_off_is_no_refusal(words: str) -> None:
    """What the SDK says when the server is restarted in the middle of a call may be tried again."""
    assert type(_told(RPCError(words, RPCStatusCode.UNKNOWN, b""))) is NotReachable


_ACTIVITY_ERROR = ActivityError(
    "Activity task failed",
    scheduled_event_id=1,
    started_event_id=1,
    identity="",
    activity_type="",
    activity_id="",
    retry_state=RetryState.TIMEOUT,
)


def test_every_end_without_a_report_has_an_error() -> None:
    """Cancelled, terminated, timed out and failed sessions are told apart, each with its reason."""
    cases: list[tuple[Exception, type, str]] = [
        (CancelledError("x"), SessionCancelled, "Session 'session-1' was cancelled."),
        (TerminatedError("by hand"), SessionTerminated, "Session 'session-1' was terminated. by hand"),
        (
            WorkflowTimedOut("x", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[]),
            SessionTerminated,
            (
                "Session 'session-1' was ended by the server a day after its deadline: no worker ended it. "
                "Start a worker (`chargehand doctor` lists them) and start the session again."
            ),
        ),
        (ServerError("broken"), SessionFailed, "broken"),
        (_ACTIVITY_ERROR, SessionFailed, "Activity task failed"),
        (ApplicationError("no"), SessionFailed, "no"),
    ]
    for cause, kind, message in cases:
        told = _told(WorkflowFailureError(cause=cause))
        assert (type(told), str(told)) == (kind, message)


def test_a_failure_keeps_its_type() -> None:
    """A session that failed for a reason of ours says which, whether it ended or refused an update; a bug does not."""
    for name, error_type in (*((each, each) for each in ErrorType), ("KeyError", None)):
        cause = ApplicationError("why", type=name)
        failed, refused = _told(WorkflowFailureError(cause=cause)), _told(WorkflowUpdateFailedError(cause=cause))
        assert isinstance(failed, SessionFailed)
        assert isinstance(refused, UpdateRefused)
        assert (str(failed), failed.error_type) == (str(refused), refused.error_type) == ("why", error_type)


def test_a_query_that_fails_says_of_which_session() -> None:
    """What cannot answer is named, without the words of the SDK."""
    told = _told(WorkflowQueryFailedError("no such query"))

    assert str(told) == (
        "'session-1' cannot answer: it is no session, or was refused before it began. `chargehand list` shows the "
        "sessions, and how they ended."
    )


def test_other_not_founds_are_told_apart() -> None:
    """A namespace that does not exist is a setting to correct, and a session that has ended is no missing session."""
    no_namespace = _told(RPCError("Namespace nope is not found.", RPCStatusCode.NOT_FOUND, b""))
    ended = _told(RPCError("workflow execution already completed", RPCStatusCode.NOT_FOUND, b""))

    assert (type(no_namespace), type(ended)) == (NoNamespace, AlreadyEnded)
    assert "TEMPORAL_NAMESPACE" in str(no_namespace)


def test_a_cancelled_caller_stays_cancelled() -> None:
    """The SDK's own error for an update that its caller no longer waits for is a cancellation to everybody else."""
    error = WorkflowUpdateRPCTimeoutOrCancelledError()
    error.__cause__ = asyncio.CancelledError()

    with pytest.raises(asyncio.CancelledError), translated("session-1"):
        raise error


def test_what_is_not_temporals_passes() -> None:
    """A mistake in the caller's own code is not dressed up as one of the session's."""
    with pytest.raises(KeyError), translated("session-1"):
        raise KeyError("own")


def test_every_error_has_a_cause_and_a_remedy() -> None:
    """In words of its own; a status of the provider says more than the type."""
    unknown = failure_cause("Unheard")

    told = {each: failure_cause(each) for each in ErrorType}

    assert not [each for each, words in told.items() if words.cause == unknown.cause or not words.remedy]
    assert failure_cause(ErrorType.PROVIDER_REFUSED, status=404).remedy != told[ErrorType.PROVIDER_REFUSED].remedy
