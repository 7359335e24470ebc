"""How long a session waits for a person, if its request does not say."""

from datetime import datetime, timedelta
from typing import Final

from chargehand.contracts import WaitKind

_QUESTION_TIME: Final = timedelta(minutes=15)
_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5


def usual_time(kind: WaitKind, now: datetime) -> timedelta:
    """Compute the time for a decision: for an answer 15 minutes, for anything else a working day.

    That ends at the same hour of the next day from Monday to Friday, in UTC.
    """
    if kind == "question":
        return _QUESTION_TIME
    then = now + _DAY
    while then.weekday() >= _SATURDAY:
        then += _DAY
    return then - now
