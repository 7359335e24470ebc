"""The public names of the package, as imported by `from chargehand import …`."""

from chargehand import contracts, errors
from chargehand.client import Chargehand
from chargehand.contracts import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary] - one list: contracts.__all__
from chargehand.converter import data_converter
from chargehand.errors import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary] - as above
from chargehand.listing import SessionFilters, SessionSummary
from chargehand.session import Conversation, Session
from chargehand.wire import TASK_QUEUE, ErrorType

__all__ = ["TASK_QUEUE", "Chargehand", "Conversation", "ErrorType", "Session", "data_converter"]
__all__ += ["SessionFilters", "SessionSummary"]
__all__ += contracts.__all__
__all__ += errors.__all__
