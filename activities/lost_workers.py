"""Quarantine: an activity that was running when two workers were lost is not given to a third.

A turn is counted by its workflow, which books each lost call; other activities count in their heartbeats.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.heartbeat import pulse
from chargehand.wire import ErrorType

MOST_LOST_WORKERS: Final = 2
"""How many workers may be lost while they run one activity."""
_logger: Final = logging.getLogger("chargehand.quarantine")


def quarantined(what: str) -> str:
    return f"{MOST_LOST_WORKERS} workers were lost while they ran {what}, so no other gets it."


@asynccontextmanager
async def quarantine(what: str) -> AsyncGenerator[None]:
    """Run the body of an activity, unless too many workers were lost in it; attempts that end by an error do not count.

    Raises:
        ApplicationError: `Quarantined`.
    """
    info = activity.info()
    known = info.heartbeat_details[0] if info.heartbeat_details else 0
    ended = known if isinstance(known, int) else 0
    if info.attempt - 1 - ended >= MOST_LOST_WORKERS:
        _logger.error("an activity is quarantined", extra={"activity": info.activity_type, "session": info.workflow_id})
        raise ApplicationError(quarantined(what), type=ErrorType.QUARANTINED, non_retryable=True)
    try:
        yield
    except (Exception, asyncio.CancelledError):
        with suppress(LookupError, RPCError, RuntimeError):
            await pulse().record(ended + 1)
        raise
