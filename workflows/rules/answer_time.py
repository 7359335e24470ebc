"""How long a session waits for a person, if its request does not say."""

from datetime import datetime, timedelta
from typing import Final

QUESTION_TIME: Final = timedelta(minutes=15)
"""For an answer."""
_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5


def a_working_day(now: datetime) -> timedelta:
    """Compute the time until the same hour of the next day from Monday to Friday, in UTC."""
    then = now + _DAY
    while then.weekday() >= _SATURDAY:
        then += _DAY
    return then - now
