"""Translate the errors of Temporal's SDK into those of `chargehand.errors`."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from temporalio.client import (
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.exceptions import TimeoutError as WorkflowTimedOut
from temporalio.service import RPCError, RPCStatusCode

from chargehand.errors import (
    ChargehandError,
    NotReachable,
    SessionCancelled,
    SessionFailed,
    SessionNotFound,
    SessionTerminated,
)
from chargehand.wire import ErrorType

_UNANSWERED: Final = {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED}


@contextmanager
def translated(session_id: str) -> Generator[None]:
    """Translate Temporal's errors."""
    try:
        yield
    except WorkflowFailureError as error:
        raise ending(session_id, error.cause) from error
    except WorkflowUpdateFailedError as error:
        raise _failure(error.cause) from error
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
        raise ChargehandError(f"Session '{session_id}' cannot answer: {error}") from error
    except ApplicationError as error:  # from the converter: the payload is invalid or too large
        raise _failure(error) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "already completed" in error.message:
            raise ChargehandError(f"Session '{session_id}' has ended and cannot be changed.") from error
        if error.status is RPCStatusCode.NOT_FOUND:
            raise SessionNotFound(session_id) from error
        if error.status in _UNANSWERED:
            raise NotReachable(
                "No answer: the Temporal server is unreachable, or no worker polls the session's task queue. "
                "To find the cause: `chargehand doctor`."
            ) from error
        raise ChargehandError(f"The Temporal server refused: {error.message}") from error


_CONNECTION_PROBLEMS: Final = {
    "dns error": "Its host name is unknown.",
    "international domain name": "That is not HOST:PORT.",
    "empty host": "That is not HOST:PORT.",
    "invalid port": "That is not HOST:PORT.",
    "certificate": "A TLS certificate was refused: see TEMPORAL_TLS_SERVER_CA_CERT_PATH and TEMPORAL_TLS_CLIENT_*.",
    "InvalidMessage": "It does not speak TLS: see TEMPORAL_TLS.",
    "Unauthenticated": "It refused the credentials: see TEMPORAL_API_KEY.",
    "PermissionDenied": "It refused the credentials: see TEMPORAL_API_KEY.",
}
"""What the SDK's core says when it cannot connect, and what that means to people."""


def unreachable(target: str, error: Exception) -> NotReachable:
    """Translate the error of a connection that was not made; the SDK's own text is that of its Rust core."""
    said = str(error)
    meaning = next((words for sign, words in _CONNECTION_PROBLEMS.items() if sign in said), "Is it running?")
    return NotReachable(f"No Temporal server answers at {target}. {meaning}")


def ending(session_id: str, cause: BaseException) -> ChargehandError:
    """Translate the error that a session ended by."""
    match cause:
        case CancelledError():
            return SessionCancelled(f"Session '{session_id}' was cancelled.")
        case TerminatedError():
            return SessionTerminated(f"Session '{session_id}' was terminated. {cause.message}".strip())
        case WorkflowTimedOut():
            return SessionTerminated(
                f"Session '{session_id}' was ended by the server a day after its deadline: no worker ended it. "
                "Start a worker (`chargehand doctor` lists them) and start the session again."
            )
        case _:
            return _failure(cause)


def _failure(cause: BaseException) -> SessionFailed:
    if isinstance(cause, ApplicationError):
        known = cause.type if cause.type in set(ErrorType) else None
        return SessionFailed(cause.message, ErrorType(known) if known else None)
    return SessionFailed(str(cause), None)
