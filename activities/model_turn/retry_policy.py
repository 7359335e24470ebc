"""The retry policy of paid calls: whether an attempt may call the provider, and what follows a failure."""

import logging
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.model_turn.journal import Entry, Journal
from activities.models.failures import ProviderFault
from chargehand.wire import ErrorType

_logger = logging.getLogger("chargehand.turns")

PROVIDER_ATTEMPTS: Final = 3
"""Provider errors after which a turn is given up, retries by Temporal and by the workflow together."""


class Freshness:
    """Detects attempts that may have timed out on the server, for example while their process was suspended.

    Compares the server's clock with this host's. Clock skew causes at most a needless check: the server's answer
    decides.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._least_age = timedelta()

    def is_doubtful(self, started: datetime, patience: timedelta) -> bool:
        """Tell whether an attempt that started at `started` must check with the server before it pays.

        Args:
            started: by the server's clock.
            patience: the heartbeat timeout.
        """
        age = self._now() - started
        # Below zero only if this clock is behind the server's, by at least so much.
        self._least_age = min(self._least_age, age)
        half = patience / 2
        return self._least_age < -half or age - self._least_age > half


async def refuse_if_stale(freshness: Freshness, record: Journal) -> None:
    """Refuse to pay in an attempt that has timed out on the server: another attempt pays.

    Raises:
        ApplicationError: `AttemptLost`, which the server ignores, as it would ignore a result.
    """
    info = activity.info()
    if info.heartbeat_timeout is None or not freshness.is_doubtful(info.started_time, info.heartbeat_timeout):
        return
    try:
        await record.confirm()
    except (AsyncActivityCancelledError, RPCError) as error:
        raise _attempt_lost("This attempt timed out while its worker was suspended; it paid nothing.", 0) from error


def refuse_after_lost_attempt(entry: Entry, earlier_failures: int) -> None:
    """Return to the workflow after a lost attempt: its ledger must charge that attempt before the call is repeated.

    A provider's background job is resumed instead, which costs nothing.
    """
    if entry.provider_job:
        return
    lost = activity.info().attempt - 1 - entry.provider_failures
    if lost > 0:
        raise _attempt_lost(
            "A worker was lost while it made this call; whether the provider charged for it is not known.",
            earlier_failures + entry.provider_failures,
        )


Pause = Callable[[int], timedelta]
"""How long to wait after the nth failure, if the provider did not say."""


async def decide_retry(
    error: ApplicationError, record: Journal, earlier_failures: int, pause: Pause
) -> ApplicationError:
    """Turn a provider's failure into the error that ends this attempt, and so decide about retries.

    A call that was not charged is repeated by the activity's retry policy, up to `PROVIDER_ATTEMPTS`. One that may have
    been charged goes back to the workflow, so that its ledger charges it before anything else is paid.
    """
    failures = earlier_failures + record.entry.provider_failures + 1
    if _may_have_been_charged(error):
        wait = error.next_retry_delay or pause(failures)
        return ApplicationError(
            error.message,
            # A non-retryable failure uses up all attempts.
            PROVIDER_ATTEMPTS if error.non_retryable else failures,
            wait.total_seconds(),
            type=ErrorType.OUTCOME_UNKNOWN,
            non_retryable=True,
        )
    if error.non_retryable:
        return error
    if failures >= PROVIDER_ATTEMPTS:
        return ApplicationError(
            f"The model provider failed {failures} times: {error.message}",
            type=ErrorType.PROVIDER_UNAVAILABLE,
            non_retryable=True,
        )
    await record.record(Entry(provider_failures=record.entry.provider_failures + 1))
    return error if error.next_retry_delay is not None else _with_delay(error, pause(failures))


def pause_after(failures: int) -> timedelta:
    """Back off exponentially after a provider's error: 1 s, 2 s, 4 s.

    A jitter of 10 % keeps many sessions from retrying at once.
    """
    return timedelta(seconds=2 ** (failures - 1) * random.uniform(0.9, 1.1))  # noqa: S311  # no secret


def _with_delay(error: ApplicationError, delay: timedelta) -> ApplicationError:
    return ApplicationError(error.message, *error.details, type=error.type, next_retry_delay=delay)


def _may_have_been_charged(error: ApplicationError) -> bool:
    return any(isinstance(detail, ProviderFault) and detail.possibly_billed for detail in error.details)


def _attempt_lost(message: str, failures: int) -> ApplicationError:
    return ApplicationError(message, failures, type=ErrorType.ATTEMPT_LOST, non_retryable=True)


@contextmanager
def unpaid_faults() -> Generator[None]:
    """End a turn without retries if this worker cannot prepare the call: a retry would meet the same fault.

    Raises:
        ApplicationError: as it was raised, or `Internal`.
    """
    try:
        yield
    except ApplicationError:
        raise
    except Exception as error:
        _logger.exception("a model call could not be prepared")
        raise ApplicationError(
            f"This worker could not prepare a model call ({type(error).__name__}); its log says why.",
            type=ErrorType.INTERNAL,
            non_retryable=True,
        ) from error


def fault_while_paying(error: Exception) -> ApplicationError:
    """Build the error for a bug of ours around a call that may have been charged: it is not repeated."""
    _logger.error("a model's adapter failed", exc_info=error)
    return ApplicationError(
        f"This worker failed around a model call ({type(error).__name__}); its log says why.",
        PROVIDER_ATTEMPTS,
        0.0,
        type=ErrorType.OUTCOME_UNKNOWN,
        non_retryable=True,
    )
