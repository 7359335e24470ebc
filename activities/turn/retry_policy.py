"""The retry policy of paid calls: whether an attempt may call the provider, and what follows a failure.

Temporal retries a failure that was certainly not billed until the activity's time is up, with no limit on attempts. A
failure that may have been billed returns to the workflow, which charges it before repeating the call; the third one
ends the turn. `activities.models.failures` decides which is which.
"""

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.models.failures import ProviderError
from activities.turn.journal import Entry, Journal
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType

_logger = logging.getLogger("chargehand.turns")

BILLED_FAILURES: Final = 3
"""Number of possibly billed failures after which a turn is given up."""
_WAITING: Final = "waiting"
_LONGEST_PAUSE: Final = timedelta(seconds=4)
"""Maximum pause, hence the longest delay after a provider recovers; breakers protect one that is down."""


class Freshness:
    """Detects attempts that may have timed out on the server, for instance while their process was suspended.

    Compares the server's clock with this host's. Clock skew causes at most a needless check: the server's answer
    decides.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._least_age = timedelta()

    def is_doubtful(self, started: datetime, heartbeat_timeout: timedelta) -> bool:
        """Whether an attempt with this start, by the server's clock, must check with the server before it pays."""
        age = self._now() - started
        # Negative only if this clock is behind the server's by at least that much.
        self._least_age = min(self._least_age, age)
        half = heartbeat_timeout / 2
        return self._least_age < -half or age - self._least_age > half


async def refuse_if_stale(freshness: Freshness, record: Journal) -> None:
    """Refuse to pay in an attempt that has timed out on the server, since another attempt pays.

    Raises:
        ApplicationError: `AttemptLost`, which the server ignores, as it would ignore a result.
    """
    info = activity.info()
    if info.heartbeat_timeout is None or not freshness.is_doubtful(info.started_time, info.heartbeat_timeout):
        return
    try:
        await record.record(record.entry)
    except (AsyncActivityCancelledError, RPCError) as error:
        raise non_retryable_error(
            ErrorType.ATTEMPT_LOST, "This attempt timed out while its worker was suspended; it paid nothing."
        ) from error


def refuse_after_lost_attempt(entry: Entry) -> None:
    """Fail if an earlier attempt was lost, so that the workflow charges it before the call is repeated.

    A provider's background job is resumed instead, free of charge.
    """
    if entry.provider_job:
        return
    if activity.info().attempt - 1 > entry.unbilled_failures:
        raise non_retryable_error(
            ErrorType.ATTEMPT_LOST,
            "Nothing was heard of a worker that made this call; whether the provider charged for it is not known.",
            *([_WAITING] if entry.is_waiting else []),
        )


Pause = Callable[[int], timedelta]
"""Delay after the nth failure, unless the provider specifies one."""


async def decide_retry(failure: ProviderError, record: Journal, billed_before: int, pause: Pause) -> ApplicationError:
    """Convert a provider's failure into the error that ends this attempt and determines whether it is retried.

    The journal counts unbilled failures; the workflow counts possibly billed ones and passes `billed_before`.
    """
    if failure.fault.possibly_billed:
        # A final failure counts as all the failures allowed.
        count = BILLED_FAILURES if failure.is_final else billed_before + 1
        seconds = (failure.retry_after or pause(count)).total_seconds()
        return non_retryable_error(ErrorType.OUTCOME_UNKNOWN, failure.message, count, seconds, failure.fault)
    if failure.is_final:
        return non_retryable_error(failure.kind, failure.message, failure.fault)
    count = record.entry.unbilled_failures + 1
    await record.record(Entry(unbilled_failures=count))
    wait = failure.retry_after or pause(count)
    return ApplicationError(failure.message, failure.fault, type=failure.kind, next_retry_delay=wait)


def pause_after(failures: int) -> timedelta:
    """Back off exponentially after a provider's error: 1 s, 2 s, and then 4 s.

    A jitter of 10 % keeps many sessions from retrying at once.
    """
    whole = min(timedelta(seconds=2 ** min(failures - 1, 10)), _LONGEST_PAUSE)
    return whole * random.uniform(0.9, 1.1)  # noqa: S311  # no secret


def fault_before_paying(error: Exception) -> ApplicationError:
    """Build the error for our own bug before a call was sent, which a retry would hit again."""
    _logger.error("a model call could not be prepared", exc_info=error)
    message = f"This worker could not prepare a model call ({type(error).__name__}); its log says why."
    return non_retryable_error(ErrorType.INTERNAL, message)


def fault_while_paying(error: Exception) -> ApplicationError:
    """Build the error for our own bug around a possibly charged call, which is not repeated."""
    _logger.error("a model's adapter failed", exc_info=error)
    message = f"This worker failed around a model call ({type(error).__name__}); its log says why."
    return non_retryable_error(ErrorType.OUTCOME_UNKNOWN, message, BILLED_FAILURES, 0.0)
