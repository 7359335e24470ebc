"""The public names of the package, as `from chargehand import …` gives them."""

from chargehand import contracts
from chargehand.client import Chargehand
from chargehand.contracts import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary] - one list: contracts.__all__
from chargehand.converter import data_converter
from chargehand.errors import (
    AccessDenied,
    AlreadyEnded,
    BucketError,
    ChargehandError,
    DownloadRefused,
    InvalidInput,
    MissingExtra,
    NotReachable,
    NoWorker,
    OutputInvalid,
    SearchAttributesMissing,
    ServerRefused,
    SessionCancelled,
    SessionEnded,
    SessionFailed,
    SessionNotFound,
    SessionTerminated,
    UnusableSettings,
    UpdateRefused,
    UploadRefused,
)
from chargehand.listing import SessionSummary
from chargehand.session import Session
from chargehand.wire import TASK_QUEUE, ErrorType

__all__ = [
    "TASK_QUEUE",
    "AccessDenied",
    "AlreadyEnded",
    "BucketError",
    "Chargehand",
    "ChargehandError",
    "DownloadRefused",
    "ErrorType",
    "InvalidInput",
    "MissingExtra",
    "NoWorker",
    "NotReachable",
    "OutputInvalid",
    "SearchAttributesMissing",
    "ServerRefused",
    "Session",
    "SessionCancelled",
    "SessionEnded",
    "SessionFailed",
    "SessionNotFound",
    "SessionSummary",
    "SessionTerminated",
    "UnusableSettings",
    "UpdateRefused",
    "UploadRefused",
    "data_converter",
]
__all__ += contracts.__all__
