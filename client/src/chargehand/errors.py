"""What can go wrong for a client.

ChargehandError
├── MissingExtra          an optional part of Chargehand is not installed
├── UnusableSettings      a worker cannot run with its settings
├── NotReachable          the Temporal server or a worker does not answer
├── SessionNotFound       no session has this id
├── UploadRefused         documents cannot be uploaded
├── DownloadRefused       files cannot be downloaded
├── BucketError           a bucket cannot be used
├── ProtectionError       encryption and stored payloads: chargehand.payloads.errors
└── SessionEnded          the session ended without a report
    ├── SessionFailed     it failed, with a typed reason
    ├── SessionCancelled  it was cancelled
    └── SessionTerminated it was terminated, or the server ended it
"""

from chargehand.wire import ErrorType


class ChargehandError(Exception):
    """Something went wrong; the message says what and what to do."""


class MissingExtra(ChargehandError):  # noqa: N818  # reads as a statement: `except MissingExtra`
    """An optional part of Chargehand is not installed."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(f"{part} is not installed: pip install 'chargehand[{extra}]'.")


class UnusableSettings(ChargehandError):  # noqa: N818  # as above
    """A worker cannot run with its settings; the message names the setting and the remedy."""


class NotReachable(ChargehandError):  # noqa: N818  # as above
    """The Temporal server or a worker does not answer."""


class SessionNotFound(ChargehandError):  # noqa: N818  # as above
    """No session has this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"There is no session '{session_id}' here. `chargehand list` shows the sessions of this server; "
            "servers forget closed ones when their retention ends."
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
