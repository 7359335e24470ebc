"""Errors of the client. No error of Temporal's SDK leaves a method of `Chargehand` or `Session`.

ChargehandError
├── MissingExtra, UnusableSettings, AccessDenied, ServerRefused, SessionNotFound, OutputInvalid,
│   SearchAttributesMissing, UploadRefused, DownloadRefused, BucketError
├── InvalidInput
│   └── AnotherRequest
├── NotReachable
│   └── NoNamespace (an UnusableSettings too), NoWorker
├── UpdateRefused
│   └── AlreadyEnded
├── SessionEnded
│   └── SessionFailed, SessionCancelled, SessionTerminated
└── ProtectionError: chargehand.payloads.errors
"""

from typing import TYPE_CHECKING

from chargehand.wire import ErrorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chargehand.contracts import Report

__all__ = [
    "AccessDenied",
    "AlreadyEnded",
    "AnotherRequest",
    "BucketError",
    "ChargehandError",
    "DownloadRefused",
    "InvalidInput",
    "MissingExtra",
    "NoNamespace",
    "NoWorker",
    "NotReachable",
    "OutputInvalid",
    "SearchAttributesMissing",
    "ServerRefused",
    "SessionCancelled",
    "SessionEnded",
    "SessionFailed",
    "SessionNotFound",
    "SessionTerminated",
    "UnusableSettings",
    "UpdateRefused",
    "UploadRefused",
]


class ChargehandError(Exception):
    """Something went wrong; the message says what and what to do."""


class MissingExtra(ChargehandError):  # noqa: N818  # reads as a statement: `except MissingExtra`
    """An optional part of Chargehand is not installed."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(f"{part} is not installed: pip install 'chargehand[{extra}]'.")


class UnusableSettings(ChargehandError):  # noqa: N818  # as above
    """A connection or worker cannot be created with its settings; the message names the setting and the remedy."""


class InvalidInput(ChargehandError, ValueError):  # noqa: N818  # as above
    """An argument, a request or a decision is invalid; the message names the field. Nothing was sent."""


class AnotherRequest(InvalidInput):
    """The id belongs to a session, conversation or other workflow that was started with another request."""

    def __init__(self, workflow_id: str, fields: "Sequence[str]", *, goes_on: bool = False) -> None:
        same = "leave that out to go on with it" if goes_on else "repeat the request as it was"
        other = "use another id (over HTTP, another Idempotency-Key)"
        super().__init__(f"'{workflow_id}' exists and differs in {', '.join(fields)}: {other}, or {same}.")
        self.fields = fields
        """The differing fields, or `workflow type`."""


class AccessDenied(ChargehandError):  # noqa: N818  # as above
    """The server refuses the API key or the certificate."""


class NotReachable(ChargehandError):  # noqa: N818  # as above
    """The Temporal server or a worker does not answer."""


class NoNamespace(UnusableSettings, NotReachable):
    """The namespace does not exist: the setting is wrong, or the server has just been started."""


class NoWorker(NotReachable):
    """No worker polls the session's task queue."""

    def __init__(self, session_id: str, task_queue: str) -> None:
        super().__init__(
            f"No worker polls the task queue '{task_queue}', so session '{session_id}' cannot answer. Start a worker; "
            "`chargehand doctor` shows those that run. A change that was sent takes effect then."
        )


class ServerRefused(ChargehandError):  # noqa: N818  # as above
    """The server refuses a call; the message contains its reason."""


class UpdateRefused(ChargehandError):  # noqa: N818  # as above
    """The session refuses a change, and continues as before."""

    def __init__(self, message: str, error_type: ErrorType | None) -> None:
        super().__init__(message)
        self.error_type = error_type
        """The reason, from the fixed vocabulary; None for a failure that is not ours, such as a bug."""


class AlreadyEnded(UpdateRefused):
    """The session or conversation has ended and cannot be changed."""

    def __init__(self, session_id: str, how: str = "") -> None:
        ended = how or f"'{session_id}' has ended."
        super().__init__(f"{ended} It can no longer be changed: start another one.", ErrorType.UPDATE_REFUSED)


class OutputInvalid(ChargehandError):  # noqa: N818  # as above
    """The report has no valid output."""

    def __init__(self, report: "Report", problems: str) -> None:
        super().__init__(f"Session '{report.session}' has no valid output: {problems}")
        self.report = report
        """The report, with its text."""


class SessionNotFound(ChargehandError):  # noqa: N818  # as above
    """No session or conversation has this id."""

    def __init__(self, session_id: str, *, is_session: bool = False) -> None:
        nothing = f"There is no session or conversation '{session_id}' here."
        problem = f"'{session_id}' is a session, not a conversation." if is_session else nothing
        shows = "`chargehand list` shows those of this server; servers forget closed ones when their retention ends."
        super().__init__(f"{problem} {shows}")


class SearchAttributesMissing(ChargehandError):  # noqa: N818  # as above
    """The namespace lacks search attributes that a filter needs."""

    def __init__(self, missing: "Sequence[str]") -> None:
        super().__init__(
            f"Sessions cannot be filtered like this: the namespace lacks the search attributes {', '.join(missing)}. "
            "Register them with `chargehand setup`."
        )


class UploadRefused(ChargehandError):  # noqa: N818  # as above
    """Documents cannot be uploaded; the message names the file."""


class DownloadRefused(ChargehandError):  # noqa: N818  # as above
    """A file cannot be downloaded; the message says why and what to do."""


class BucketError(ChargehandError):
    """A bucket cannot be used; the message says which and why."""


class SessionEnded(ChargehandError):  # noqa: N818  # as above
    """The session ended without a report."""


class SessionFailed(SessionEnded):
    """The session failed."""

    def __init__(self, message: str, error_type: ErrorType | None) -> None:
        super().__init__(message)
        self.error_type = error_type
        """The reason, from the fixed vocabulary; None for a failure that is not ours, such as a bug."""


class SessionCancelled(SessionEnded):
    """The session was cancelled."""


class SessionTerminated(SessionEnded):
    """The session was terminated, or the server ended it."""
