"""The public names of the package, as `from chargehand import …` gives them."""

from chargehand import contracts
from chargehand.client import Chargehand
from chargehand.contracts import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary] - one list: contracts.__all__
from chargehand.converter import data_converter
from chargehand.errors import (
    ChargehandError,
    NotReachable,
    OutputInvalid,
    SearchAttributesMissing,
    SessionCancelled,
    SessionEnded,
    SessionFailed,
    SessionNotFound,
    SessionTerminated,
)
from chargehand.listing import SessionSummary
from chargehand.session import Session
from chargehand.wire import TASK_QUEUE, ErrorType

__all__ = [
    "TASK_QUEUE",
    "Chargehand",
    "ChargehandError",
    "ErrorType",
    "NotReachable",
    "OutputInvalid",
    "SearchAttributesMissing",
    "Session",
    "SessionCancelled",
    "SessionEnded",
    "SessionFailed",
    "SessionNotFound",
    "SessionSummary",
    "SessionTerminated",
    "data_converter",
]
__all__ += contracts.__all__
