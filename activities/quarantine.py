"""Quarantine: an activity that was running when two workers were lost is not given to a third."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from temporalio import activity
from temporalio.service import RPCError

from activities.heartbeat import pulse
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType

MOST_LOST_WORKERS: Final = 2
"""Number of workers lost while running an activity after which no other worker gets it.

The workflow counts them for its turns, since it books each lost call; other activities count in their heartbeats. A
turn that only waited for its call ends at the third loss.
"""
_logger = logging.getLogger("chargehand.quarantine")


def quarantined(what: str, lost: int = MOST_LOST_WORKERS) -> str:
    return f"{lost} workers were lost while they ran {what}, so no other gets it."


@asynccontextmanager
async def quarantine(what: str, lost_before: int = 0) -> AsyncGenerator[None]:
    """Run the body of an activity, unless too many workers were lost running it; failed attempts do not count.

    `lost_before` counts workers lost while it ran as part of another activity.

    Raises:
        ApplicationError: `Quarantined`.
    """
    info = activity.info()
    known = info.heartbeat_details[0] if info.heartbeat_details else 0
    ended = known if isinstance(known, int) else 0
    if lost_before + info.attempt - 1 - ended >= MOST_LOST_WORKERS:
        fields = {"activity": info.activity_type, "session": info.workflow_id}
        _logger.error("an activity is quarantined", extra=fields)
        raise non_retryable_error(ErrorType.QUARANTINED, quarantined(what))
    try:
        yield
    except (Exception, asyncio.CancelledError):
        with suppress(LookupError, RPCError, RuntimeError):
            await pulse().record(ended + 1)
        raise
