"""Whatever Temporal says, callers get it in the client's own words."""

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

from activities.documents.artifacts import ArtifactError
from chargehand import errors
from chargehand.contracts import FailureCause
from chargehand.errors import (
    AccessDenied,
    AlreadyEnded,
    BucketError,
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
from chargehand.payloads.errors import ProtectionError
from chargehand.temporal_errors import TaskFailed, translated
from chargehand.wire import ErrorType


def _told(error: Exception) -> ChargehandError:
    with pytest.raises(ChargehandError) as caught, translated("session-1"):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def test_every_error_class_derives_from_chargehand_error() -> None:
    defined = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}

    ends = {SessionEnded, SessionFailed, SessionCancelled, SessionTerminated}
    assert {error for error in defined if issubclass(error, ChargehandError)} == defined
    assert {error for error in defined if issubclass(error, SessionEnded)} == ends


_OTHER_KIND = ServerError("Update handler for 'tell' expected but not found. known updates: [close say]")
_ACTIVITY_ERROR = ActivityError(
    "Activity task failed",
    scheduled_event_id=1,
    started_event_id=1,
    identity="",
    activity_type="",
    activity_id="",
    retry_state=RetryState.TIMEOUT,
)
_CLASSES: dict[RPCStatusCode, type] = {
    **dict.fromkeys(RPCStatusCode, ServerRefused),
    **dict.fromkeys(
        (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED), NotReachable
    ),
    **dict.fromkeys((RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED), AccessDenied),
    RPCStatusCode.NOT_FOUND: SessionNotFound,
}
_WORDS: dict[type, str] = {ServerRefused: "The Temporal server refused: reason", AccessDenied: "denies access: reason "}


def _refusal(words: str, status: RPCStatusCode) -> RPCError:
    return RPCError(words, status, b"")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        *((_refusal("reason", status), kind, _WORDS.get(kind, "")) for status, kind in _CLASSES.items()),
        (_refusal("Workflow Task in failed state.", RPCStatusCode.ABORTED), TaskFailed, "`chargehand doctor`"),
        (
            _refusal("unexpected workflow task failure", RPCStatusCode.INVALID_ARGUMENT),
            TaskFailed,
            "`chargehand doctor`",
        ),
        # The SDK's messages for a server restarted in the middle of a call, which can be retried.
        (_refusal("transport error", RPCStatusCode.UNKNOWN), NotReachable, ""),
        (_refusal("h2 protocol error: reset", RPCStatusCode.UNKNOWN), NotReachable, ""),
        (_refusal("error reading a body from connection", RPCStatusCode.UNKNOWN), NotReachable, ""),
        (_refusal("no poller seen for task queue recently", RPCStatusCode.FAILED_PRECONDITION), NotReachable, ""),
        (_refusal("Namespace no is not found.", RPCStatusCode.NOT_FOUND), NoNamespace, "set TEMPORAL_NAMESPACE"),
        (_refusal("workflow execution already completed", RPCStatusCode.NOT_FOUND), AlreadyEnded, "has ended"),
        (_refusal("update was aborted by closing workflow", RPCStatusCode.NOT_FOUND), AlreadyEnded, "has ended"),
        (WorkflowUpdateFailedError(_OTHER_KIND), UpdateRefused, "It takes no such message, only: close, say."),
        (WorkflowQueryFailedError("no query"), ServerRefused, "'session-1' cannot answer: it is not a session, or was"),
        (WorkflowFailureError(cause=CancelledError("x")), SessionCancelled, "Session 'session-1' was cancelled."),
        (WorkflowFailureError(cause=TerminatedError("by hand")), SessionTerminated, "was terminated: by hand"),
        (
            WorkflowFailureError(
                cause=WorkflowTimedOut("x", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[])
            ),
            SessionTerminated,
            "Session 'session-1' was ended by the server at its execution time-out: no worker had ended it by then",
        ),
        (WorkflowFailureError(cause=ServerError("broken")), SessionFailed, "broken"),
        (WorkflowFailureError(cause=_ACTIVITY_ERROR), SessionFailed, "Activity task failed"),
    ],
)
def test_every_sdk_error_is_translated_into_one_of_ours(error: Exception, kind: type, words: str) -> None:
    told = _told(error)

    assert (type(told), words in str(told)) == (kind, True), str(told)


def test_a_failure_keeps_its_error_type() -> None:
    for name, error_type in (*((each, each) for each in ErrorType), ("KeyError", None)):
        cause = ApplicationError("why", type=name)
        failed, refused = _told(WorkflowFailureError(cause=cause)), _told(WorkflowUpdateFailedError(cause=cause))
        assert isinstance(failed, SessionFailed)
        assert isinstance(refused, UpdateRefused)
        assert (str(failed), failed.error_type) == (str(refused), refused.error_type) == ("why", error_type)


def test_a_cancelled_caller_stays_cancelled() -> None:
    """For an update whose caller has stopped waiting, the SDK raises its own error; callers see a cancellation."""
    error = WorkflowUpdateRPCTimeoutOrCancelledError()
    error.__cause__ = asyncio.CancelledError()

    with pytest.raises(asyncio.CancelledError), translated("session-1"):
        raise error


def test_exceptions_that_are_not_from_temporal_are_not_translated() -> None:
    with pytest.raises(KeyError), translated("session-1"):
        raise KeyError("own")


def test_every_error_type_has_a_cause_and_a_remedy() -> None:
    """In words of its own; what is no model's never blames a provider; a provider's status says more than the type."""
    unknown = failure_cause("Unheard")
    kinds = (ArtifactError, BucketError, ProtectionError, *ProtectionError.__subclasses__(), OSError)
    others = [*(each.__name__ for each in kinds), ErrorType.RECEIVER_UNAVAILABLE, ErrorType.TOOL_UNAVAILABLE]
    told: dict[str, FailureCause] = {each: failure_cause(each) for each in (*ErrorType, *others)}

    assert not [each for each in others if "provider" in f"{told[each].cause} {told[each].remedy}"]
    assert not [each for each, words in told.items() if words.cause == unknown.cause or not words.remedy]
    assert failure_cause(ErrorType.PROVIDER_REFUSED, status=404).remedy != told[ErrorType.PROVIDER_REFUSED].remedy
    assert "answered" in failure_cause(ErrorType.PROVIDER_UNAVAILABLE, status=503).cause
