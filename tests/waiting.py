"""Awaiting a condition with a deadline: the one place where tests pause."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

_PAUSE_SECONDS: Final = 0.05
"""Between two looks: a query of a workflow without a cache replays it whole."""


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 15) -> None:
    """Wait until a condition holds; fail when it still does not after `seconds`."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  # what is awaited happens in another process
            await asyncio.sleep(_PAUSE_SECONDS)
