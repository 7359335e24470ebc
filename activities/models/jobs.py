"""Work that a provider does by itself and gives out by an id: begun once, asked after until it is done.

The id is in the journal before anything is waited for, so that the next attempt goes on with the same job.
"""

import asyncio
import time
from typing import Final, Protocol

from pydantic import JsonValue

from activities.models.failures import UnreadableReply, passes
from activities.models.protocol import ProviderJob

_ABANDON_SECONDS: Final = 5.0
_LONGEST_OUTAGE_SECONDS: Final = 900.0
"""A provider that cannot be asked after a job for so long has lost it, as far as we can tell."""
REQUEST_SECONDS: Final = 60.0
"""How long the provider may take to begin a job, or to say how it stands."""


class JobDesk(Protocol):
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


async def carry_out(job: ProviderJob, desk: JobDesk, *, poll_seconds: float, whole_seconds: float | None) -> JsonValue:
    """Get a call done as a job: a new one, or the one that an earlier attempt began.

    Args:
        job: what is known of the job, and where its id is kept.
        desk: the provider.
        poll_seconds: between two looks.
        whole_seconds: how long this attempt waits; None for as long as it lives.

    Raises:
        TimeoutError: it took longer than `whole_seconds`; the provider is asked not to go on.
    """
    identity = job.id
    if not identity:
        identity = await desk.begin()
        try:
            await job.remember(identity)
        except BaseException:
            # Nobody would ever ask after it.
            await _abandon(desk, identity)
            raise
    try:
        async with asyncio.timeout(whole_seconds):
            return await _result(desk, identity, poll_seconds)
    except TimeoutError:
        await _abandon(desk, identity)
        raise TimeoutError(f"it was not done after {whole_seconds or 0:g} seconds.") from None
    except asyncio.CancelledError:
        if await job.is_unwanted():
            await _abandon(desk, identity)
        raise


async def _result(desk: JobDesk, identity: str, poll_seconds: float) -> JsonValue:
    heard_at = time.monotonic()
    while True:
        try:
            reply = await desk.look(identity)
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


async def _abandon(desk: JobDesk, identity: str) -> None:
    """Ask the provider to stop; what led here counts more than whether it does."""
    try:
        async with asyncio.timeout(_ABANDON_SECONDS):
            await desk.abandon(identity)
    except Exception:  # noqa: BLE001, S110  # as above
        pass
