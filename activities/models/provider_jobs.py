"""Work that a provider does by itself and gives out by an id: begun once, asked after until it is done.

The id is in the journal before anything is waited for, so that the next attempt goes on with the same job.
"""

import asyncio
import time
from collections.abc import Awaitable
from typing import Final, Protocol

from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from activities.models.failures import UnreadableReply, passes
from activities.models.protocol import ProviderJob
from chargehand.wire import ErrorType

_ABANDON_SECONDS: Final = 5.0
_CALLING_OFF_SECONDS: Final = 15.0
"""How long a job that was called off may take to end: some of what was begun is finished all the same."""
_CALLING_OFF_POLL_SECONDS: Final = 0.5
_LONGEST_OUTAGE_SECONDS: Final = 900.0
"""A provider that cannot be asked after a job for so long has lost it, as far as we can tell."""
REQUEST_SECONDS: Final = 60.0
"""How long the provider may take to begin a job, or to say how it stands."""


class JobStore(Protocol):
    """How one provider takes and gives out one call as a job."""

    async def begin(self) -> str:
        """Hand the call in; give the job's id."""
        ...

    async def look(self, identity: str) -> JsonValue:
        """Give the finished job's reply; None while it is not finished."""
        ...

    async def abandon(self, identity: str) -> None:
        """Ask the provider not to go on with it."""
        ...

    async def delete(self, identity: str) -> None:
        """Have the provider forget a job that has ended, with what was asked and answered."""
        ...


async def carry_out(
    job: ProviderJob, harness: JobStore, *, poll_seconds: float, whole_seconds: float | None
) -> JsonValue:
    """Get a call done as a job: a new one, or the one that an earlier attempt began.

    Once the caller has what came of it in safety, the provider is asked to forget it.

    Args:
        job: what is known of the job, and where its id is kept.
        harness: the provider.
        poll_seconds: between two looks.
        whole_seconds: how long this attempt waits, unless the caller is less patient; None for as long as it lives.

    Raises:
        TimeoutError: it took longer and was called off; whether it is charged is not known.
        ApplicationError: it failed, or was called off before it cost anything.
    """
    identity = job.id
    if not identity:
        identity = await harness.begin()
        try:
            await job.remember(identity)
        except BaseException:
            # Nobody would ever ask after it.
            await _give_up(harness, identity)
            raise
    seconds = min((each for each in (whole_seconds, job.patience_seconds) if each is not None), default=None)
    try:
        reply = await _ended(harness, identity, poll_seconds, seconds)
    except ApplicationError:
        job.afterwards.append(lambda: _quietly(harness.delete(identity)))
        raise
    except asyncio.CancelledError:
        if await job.is_unwanted():
            await _give_up(harness, identity)
        raise
    job.afterwards.append(lambda: _quietly(harness.delete(identity)))
    return reply


async def _ended(harness: JobStore, identity: str, poll_seconds: float, seconds: float | None) -> JsonValue:
    try:
        async with asyncio.timeout(seconds):
            return await _result(harness, identity, poll_seconds)
    except TimeoutError:
        await _quietly(harness.abandon(identity))
    try:
        async with asyncio.timeout(_CALLING_OFF_SECONDS):
            # It may have ended just before.
            return await _result(harness, identity, min(poll_seconds, _CALLING_OFF_POLL_SECONDS))
    except TimeoutError:
        raise TimeoutError(f"it was not done after {seconds or 0:g} seconds.") from None
    except ApplicationError as error:
        raise ApplicationError(
            f"It was called off after {seconds or 0:g} seconds, before it was done.",
            *error.details,
            type=ErrorType.PROVIDER_UNAVAILABLE,
            non_retryable=True,
        ) from None


async def _result(harness: JobStore, identity: str, poll_seconds: float) -> JsonValue:
    heard_at = time.monotonic()
    while True:
        try:
            reply = await harness.look(identity)
            heard_at = time.monotonic()
        except Exception as error:
            if getattr(error, "status_code", None) == 404:
                raise UnreadableReply("the provider does not know the job any more") from error
            if not passes(error) or time.monotonic() - heard_at > _LONGEST_OUTAGE_SECONDS:
                raise
            reply = None
        if reply is not None:
            return reply
        await asyncio.sleep(poll_seconds)


async def _give_up(harness: JobStore, identity: str) -> None:
    await _quietly(harness.abandon(identity))
    await _quietly(harness.delete(identity))


async def _quietly(asking: Awaitable[None]) -> None:
    """Ask the provider for something; what led here counts more than whether it obeys."""
    try:
        async with asyncio.timeout(_ABANDON_SECONDS):
            await asking
    except Exception:  # noqa: BLE001, S110  # as above
        pass
