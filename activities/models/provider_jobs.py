"""A call as an asynchronous job of the provider: started once, then polled until it is done.

The job's id is journalled before the first poll, so that the next attempt continues the same job.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, Final

from pydantic import JsonValue

from activities.models.clients import make_timeout
from activities.models.failures import ReportedError, UnreadableReply, is_retryable
from activities.models.protocol import ProviderJob
from activities.models.replies import parse, within
from chargehand.wire import ErrorType

_CLEAN_UP_SECONDS: Final = 5.0
_CANCELLING_SECONDS: Final = 15.0
"""Time for a cancelled job to end; providers finish parts already started."""
_CANCELLING_POLL_SECONDS: Final = 0.5
_LONGEST_OUTAGE_SECONDS: Final = 900.0
"""A job whose provider is unreachable for this long counts as lost."""
_LONGEST_JOB_ID: Final = 1_000
REQUEST_SECONDS: Final = 60.0
"""Time for the provider to start a job or report its state."""


class JobStore(ABC):
    """One call as a provider's job."""

    def __init__(self, jobs: Any, **request: Any) -> None:
        """Prepare a call with the SDK's job methods and the request that starts a job."""
        self._jobs = jobs
        self._request = request

    async def begin(self) -> str:
        """Submit the call; return the job's id."""
        identity = within(await _read(self._jobs.with_raw_response.create(**self._request, timeout=_timeout())), "id")
        if not isinstance(identity, str) or not 0 < len(identity) <= _LONGEST_JOB_ID:
            raise UnreadableReply("unexpected form of: id")
        return identity

    @abstractmethod
    async def result(self, identity: str) -> JsonValue:
        """Return the finished job's reply; None while it is unfinished."""

    async def state(self, identity: str, **options: Any) -> JsonValue:
        return await _read(self._jobs.with_raw_response.retrieve(identity, **options, timeout=_timeout()))

    async def cancel(self, identity: str) -> None:
        """Ask the provider to stop the job; parts not started are not charged."""
        await self._jobs.cancel(identity, timeout=_timeout())

    async def delete(self, identity: str) -> None:
        """Ask the provider to delete an ended job, which it otherwise keeps for a month."""
        await self._jobs.delete(identity, timeout=_timeout())


async def _read(request: Awaitable[Any]) -> JsonValue:
    return await parse((await request).http_response.content)


def _timeout() -> object:
    return make_timeout(REQUEST_SECONDS)


async def run_job(job: ProviderJob, store: JobStore, *, poll_seconds: float, whole_seconds: float | None) -> JsonValue:
    """Run a call as a job: a new one, or the one started by an earlier attempt.

    Once its result is journalled, the provider is asked to delete it.

    Args:
        job: the id of the job, and the place to journal it.
        store: the call at its provider.
        poll_seconds: the time between two polls.
        whole_seconds: how long this attempt waits, unless the job has less patience; None without limit.

    Raises:
        TimeoutError: it took longer and was cancelled; whether it was billed is unknown.
        ReportedError: it failed, or was cancelled before it cost anything.
    """
    identity = job.id
    if not identity:
        async with asyncio.timeout(REQUEST_SECONDS):
            identity = await store.begin()
        try:
            await job.remember(identity)
        except BaseException:
            # No later attempt could find it.
            await _give_up(store, identity)
            raise
    seconds = min((each for each in (whole_seconds, job.patience_seconds) if each is not None), default=None)
    try:
        reply = await _await_end(store, identity, poll_seconds, seconds)
    except ReportedError:
        job.afterwards.append(lambda: _quietly(store.delete(identity)))
        raise
    except asyncio.CancelledError:
        if await job.is_unwanted():
            await _give_up(store, identity)
        raise
    job.afterwards.append(lambda: _quietly(store.delete(identity)))
    return reply


async def _await_end(store: JobStore, identity: str, poll_seconds: float, seconds: float | None) -> JsonValue:
    try:
        async with asyncio.timeout(seconds):
            return await _result(store, identity, poll_seconds)
    except TimeoutError:
        await _quietly(store.cancel(identity))
    try:
        async with asyncio.timeout(_CANCELLING_SECONDS):
            # It may have ended just before the cancellation.
            return await _result(store, identity, min(poll_seconds, _CANCELLING_POLL_SECONDS))
    except TimeoutError:
        raise TimeoutError(f"it was not done after {seconds or 0:g} seconds.") from None
    except ReportedError as error:
        # Not restarted, since no time is left.
        error.is_final, error.kind = True, ErrorType.PROVIDER_UNAVAILABLE
        error.text = f"it was cancelled after {seconds or 0:g} seconds, before it was done."
        raise


async def _result(store: JobStore, identity: str, poll_seconds: float) -> JsonValue:
    reached_at = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                reply = await store.result(identity)
            reached_at = time.monotonic()
        except Exception as error:
            if getattr(error, "status_code", None) == 404:
                raise UnreadableReply("the provider no longer knows the job") from error
            if not is_retryable(error) or time.monotonic() - reached_at > _LONGEST_OUTAGE_SECONDS:
                raise
            reply = None
        if reply is not None:
            return reply
        await asyncio.sleep(poll_seconds)


async def _give_up(store: JobStore, identity: str) -> None:
    await _quietly(store.cancel(identity))
    await _quietly(store.delete(identity))


async def _quietly(request: Awaitable[None]) -> None:
    """Send a clean-up request whose failure must not hide the original error."""
    try:
        async with asyncio.timeout(_CLEAN_UP_SECONDS):
            await request
    except Exception:  # noqa: BLE001, S110  # as above
        pass
