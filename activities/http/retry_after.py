"""How long a service that is asked by HTTP may tell its callers to wait."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_RETRY_AFTER: Final = timedelta(hours=1)
"""Maximum wait that a service can impose."""


def retry_after(header: str | None) -> timedelta | None:
    """Parse a `Retry-After` header in seconds or as a date; None if missing or implausible."""
    try:
        seconds = float(header or "")
    except ValueError:
        try:
            moment = parsedate_to_datetime(header or "")
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    # Also false for NaN.
    return timedelta(seconds=min(seconds, LONGEST_RETRY_AFTER.total_seconds())) if seconds > 0 else None
