"""What a fault of a search engine means to Temporal: try again, when, or not at all."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from temporalio.exceptions import ApplicationError

from chargehand.wire import ErrorType

_LONGEST_WAIT: Final = timedelta(hours=1)


def passing_fault(message: str) -> ApplicationError:
    """A fault that may pass by itself: the activity's policy tries again."""
    return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE)


def lasting_fault(message: str) -> ApplicationError:
    """A fault that somebody has to mend first: nothing is tried again."""
    return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE, non_retryable=True)


def fault_of_status(engine: str, status: int, retry_after: str, refusals: Mapping[int, str]) -> ApplicationError:
    """Say what a status other than 200 means; `refusals` are the engine's own, in words."""
    wait = _wait(retry_after)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        message = f"{engine} limits the rate of searches"
        return ApplicationError(message, type=ErrorType.RATE_LIMITED, next_retry_delay=wait)
    if status >= 500 or status == HTTPStatus.REQUEST_TIMEOUT:
        message = f"{engine} answered {status}"
        return ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE, next_retry_delay=wait)
    return lasting_fault(refusals.get(status, f"{engine} refused the search with status {status}"))


def _wait(retry_after: str) -> timedelta | None:
    """Read a `Retry-After` header: seconds, or a date."""
    try:
        wait = timedelta(seconds=float(retry_after))
    except (ValueError, OverflowError):
        try:
            wait = parsedate_to_datetime(retry_after).astimezone(UTC) - datetime.now(UTC)
        except ValueError:
            return None
    return max(timedelta(0), min(wait, _LONGEST_WAIT))
