"""Translates the errors of Temporal's SDK into those of `chargehand.errors`."""

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from temporalio.client import (
    RPCTimeoutOrCancelledError,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError, CancelledError, TemporalError, TerminatedError
from temporalio.exceptions import TimeoutError as WorkflowTimedOut
from temporalio.service import RPCError, RPCStatusCode

from chargehand.errors import (
    AccessDenied,
    AlreadyEnded,
    ChargehandError,
    InvalidInput,
    NoNamespace,
    NotReachable,
    ServerRefused,
    SessionCancelled,
    SessionFailed,
    SessionNotFound,
    SessionTerminated,
    UpdateRefused,
)
from chargehand.messages import CONVERSATION_MESSAGES, MESSAGES
from chargehand.payloads.errors import NO_KEYS
from chargehand.wire import ErrorType

_ENCODED: Final = "Encoded failure"
"""The SDK's words for a failure that is encrypted."""
_UNANSWERED: Final = {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED}
_CUT_OFF: Final = ("transport error", "h2 protocol error", "error reading a body from connection")
"""SDK messages for a connection that was lost during a call, such as when a server restarts."""
_OVER: Final = ("already completed", "aborted by closing workflow")
"""The server's answers to an update of a workflow that has ended, or ends before it answers."""
_UNKNOWN_UPDATE: Final = re.compile(r"\bUpdate handler for .* known updates: \[(.*)\]", re.DOTALL)
"""The SDK's words for an update that a session or conversation does not have."""
_ASKED_OF_SESSION: Final = re.compile(
    rf"\bhandler for '({'|'.join(CONVERSATION_MESSAGES.keys() - MESSAGES.keys())})' .*\b(decide_)?plan\b", re.DOTALL
)
_NO_POLLER: Final = "no poller seen for task queue"
"""The server's immediate answer to a query if no worker has polled for minutes."""
_DENIED: Final = {RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED}
_NO_ANSWER: Final = (
    "No answer: the Temporal server is unreachable, or no worker polls the session's task queue. "
    "To find the cause: `chargehand doctor`."
)
_TASK_FAILS: Final = (
    "No worker can continue '{id}': its workflow task fails, or no worker knows its type. To find the cause: "
    "`chargehand doctor`."
)
_EXPLAINED: Final = {
    "closed before WorkflowTaskStarted": (
        "Session '{id}' ended before a worker opened it: it has neither status nor plan."
    ),
    "Workflow Task in failed state": _TASK_FAILS,
    "unexpected workflow task failure": _TASK_FAILS,
}
"""Explanations of refusals that the server words for developers."""


class TaskFailed(ServerRefused):
    """The workflow task that was to answer failed."""


@contextmanager
def translated(session_id: str) -> Generator[None]:
    """Translate any error of Temporal."""
    try:
        yield
    except WorkflowFailureError as error:
        raise ending(session_id, error.cause) from error
    except WorkflowUpdateFailedError as error:
        _require_conversation(session_id, str(error.cause))
        raise UpdateRefused(*_reason(error.cause)) from error
    except (WorkflowQueryFailedError, WorkflowQueryRejectedError) as error:
        _require_conversation(session_id, str(error))
        # Our queries never fail, so this is another workflow, or one that never started.
        raise ServerRefused(
            f"'{session_id}' cannot answer: it is not a session, or was refused before it began. `chargehand list` "
            "shows the sessions, and how they ended."
        ) from error
    except ApplicationError as error:  # from the converter: an invalid or oversized payload
        raise InvalidInput(error.message) from error
    except RPCTimeoutOrCancelledError as error:
        if isinstance(error.__cause__, asyncio.CancelledError):
            raise asyncio.CancelledError from error  # the caller was cancelled, not the session
        raise NotReachable(_NO_ANSWER) from error
    except RPCError as error:
        raise of_call(session_id, error) from error
    except TemporalError as error:
        raise ServerRefused(str(error)) from error


def _require_conversation(session_id: str, refusal: str) -> None:
    if _ASKED_OF_SESSION.search(refusal):
        raise SessionNotFound(session_id, is_session=True)


def of_call(session_id: str, error: RPCError) -> ChargehandError:
    """Translate the error of a server call."""
    if error.status is RPCStatusCode.NOT_FOUND:
        if error.message.startswith("Namespace "):
            return NoNamespace(f"{error.message.rstrip('.')} on this server: set TEMPORAL_NAMESPACE or a profile.")
        return AlreadyEnded(session_id) if any(map(error.message.count, _OVER)) else SessionNotFound(session_id)
    if error.status in _UNANSWERED or error.message.startswith(_CUT_OFF) or _NO_POLLER in error.message:
        return NotReachable(_NO_ANSWER)
    if error.status in _DENIED:
        return AccessDenied(
            f"The Temporal server denies access: {error.message} Check TEMPORAL_API_KEY, TEMPORAL_NAMESPACE and the "
            "client certificate."
        )
    known = next((words for phrase, words in _EXPLAINED.items() if phrase in error.message), "")
    kind = TaskFailed if known == _TASK_FAILS else ServerRefused
    return kind(known.format(id=session_id) or f"The Temporal server refused: {error.message}")


def ending(session_id: str, cause: BaseException) -> ChargehandError:
    """Translate the error with which a session ended."""
    match cause:
        case CancelledError():
            return SessionCancelled(f"Session '{session_id}' was cancelled.")
        case TerminatedError():
            reason = f": {cause.message}" if cause.message else "."
            return SessionTerminated(f"Session '{session_id}' was terminated{reason}")
        case WorkflowTimedOut():
            return SessionTerminated(
                f"Session '{session_id}' was ended by the server at its execution time-out: no worker had ended it by "
                "then. Start a worker (`chargehand doctor` lists them) and start the session again."
            )
        case _:
            return SessionFailed(*_reason(cause))


def _reason(cause: BaseException) -> tuple[str, ErrorType | None]:
    if known := _UNKNOWN_UPDATE.search(str(cause)):
        return f"It takes no such message, only: {', '.join(known[1].split())}.", None
    if isinstance(cause, ApplicationError) and cause.message == _ENCODED:
        return f"Why it failed {NO_KEYS}.", None
    if isinstance(cause, ApplicationError):
        return cause.message, ErrorType(cause.type) if cause.type in set(ErrorType) else None
    return str(cause), None
