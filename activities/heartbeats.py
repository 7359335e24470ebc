"""Heartbeats of running activities: they keep an attempt alive, and their answers deliver cancellation."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from temporalio import activity

BEAT_SECONDS: Final = 0.8
"""How often an activity sends a heartbeat: a cancelled call is stopped after this long at the latest."""


@asynccontextmanager
async def heartbeats(beat: Callable[[], None] = activity.heartbeat) -> AsyncGenerator[None]:
    """Send heartbeats from the background while an activity works."""

    async def send() -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            beat()

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()
