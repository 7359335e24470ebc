"""What an attempt at a paid call may do: whether it may pay at all, and what its provider's failure leads to."""

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
"""How often a provider may answer a turn with an error before it is given up, whoever asks again."""


class Freshness:
    """Tells an attempt that the server may have given up meanwhile, as after its process was stopped.

    Compares the server's clock with this host's. Where the two differ, an attempt at most asks without need: it is the
    server's answer that decides.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._least_age = timedelta()

    def is_doubtful(self, started: datetime, patience: timedelta) -> bool:
        """Tell whether an attempt that the server handed out at `started` is to ask before it pays.

        Args:
            started: by the server's clock.
            patience: how long the server waits for a sign of life.
        """
        age = self._now() - started
        # Below zero only if this clock is behind the server's, by at least so much.
        self._least_age = min(self._least_age, age)
        half = patience / 2
        return self._least_age < -half or age - self._least_age > half


async def refuse_if_stale(freshness: Freshness, record: Journal) -> None:
    """Refuse to pay in an attempt that the server no longer counts on: another pays already.

    Raises:
        ApplicationError: `AttemptLost`. The server does not take it, as it would take no result.
    """
    info = activity.info()
    if info.heartbeat_timeout is None or not freshness.is_doubtful(info.started_time, info.heartbeat_timeout):
        return
    try:
        await record.confirm()
    except (AsyncActivityCancelledError, RPCError) as error:
        raise _attempt_lost("This attempt was given up while its worker stood still; it paid nothing.", 0) from error


def refuse_if_an_attempt_was_lost(entry: Entry, earlier_failures: int) -> None:
    """Hand the decision to pay again back to the workflow, whose ledger must first book the attempt that was lost.

    Not so if the provider works by itself and can be asked after its work: then nothing is paid again.
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
"""How long to wait after a number of failures that name no time themselves."""


async def answer_failure(
    error: ApplicationError, record: Journal, earlier_failures: int, pause: Pause
) -> ApplicationError:
    """Decide what becomes of a provider's failure: the error to leave this attempt with.

    What cannot have been charged is tried again by the activity's own retries, until `PROVIDER_ATTEMPTS`. What may have
    been charged goes back to the workflow, so that its ledger books it before anything else is paid.
    """
    failures = earlier_failures + record.entry.provider_failures + 1
    if _may_have_been_charged(error):
        wait = error.next_retry_delay or pause(failures)
        return ApplicationError(
            error.message,
            # A provider that says not to ask again has used up its attempts.
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
    """Say how long to wait after a provider's error that names no time: 1 s, 2 s, 4 s, each a tenth more or less.

    Not quite the same for everyone, so that many sessions do not come back at once.
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
    """End a turn at once if this worker cannot even ask: trying again would meet the same fault, and pay for nothing.

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
    """Build the error for a fault of our own around a call that may have been charged: it is not made again."""
    _logger.error("a model's adapter failed", exc_info=error)
    return ApplicationError(
        f"This worker failed around a model call ({type(error).__name__}); its log says why.",
        PROVIDER_ATTEMPTS,
        0.0,
        type=ErrorType.OUTCOME_UNKNOWN,
        non_retryable=True,
    )
