"""Beginnings of prompts that calls of this worker share: the first call goes ahead of the others by one first token.

A provider can read a beginning from its cache once it answers the call that wrote it. Calls that start at once would
each write it, for more than plain input costs.
"""

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from activities.models.protocol import ModelCall
from activities.newest import Newest

_LIFE_SECONDS: Final = 300.0
"""After its last use, the shortest that providers keep a beginning."""
_LONGEST_WAIT: Final = 10.0
"""Seconds from the start of the call that is ahead; a reply that is not streamed may take longer."""
_SHARE_OF_TIME: Final = 4
"""A call waits for at most one part in so many of the time that it has."""
BYTES_PER_TOKEN: Final = 4
_REMEMBERED: Final = 1_000


@dataclass(eq=False)
class _Prefix:
    used_at: float = -math.inf
    """When a call that begins so last got its first token."""
    ahead: asyncio.Event | None = None
    """Set at the first token of the call that is ahead, or at its end; None if none is ahead."""
    wait_ends_at: float = -math.inf


class SharedPrefixes:
    def __init__(self) -> None:
        self._prefixes = Newest[bytes, _Prefix](_REMEMBERED)

    @asynccontextmanager
    async def take_turn(self, call: ModelCall, least_tokens: int) -> AsyncGenerator[ModelCall]:
        """Wait for the call that is ahead, if any, and yield the call, which then tells of its own first token.

        Args:
            call: a call that is about to be made.
            least_tokens: the shortest beginning that the provider caches.
        """
        beginning = call.shared_prefix
        if len(beginning) < least_tokens * BYTES_PER_TOKEN:
            yield call
            return
        key = hashlib.sha256(beginning).digest()
        prefix = self._prefixes[key] = self._prefixes.get(key) or _Prefix()
        own = await self._wait(prefix, call.timeout_seconds / _SHARE_OF_TIME)

        def on_first_token() -> None:
            prefix.used_at = time.monotonic()
            if prefix.ahead is not None:
                prefix.ahead.set()

        try:
            yield call.model_copy(update={"on_first_token": on_first_token})
            on_first_token()
        finally:
            if own is not None:
                own.set()
                prefix.ahead = None

    async def _wait(self, prefix: _Prefix, longest: float) -> asyncio.Event | None:
        """Wait for the call that is ahead; return what is to be set if that is this one."""
        now = time.monotonic()
        if now < prefix.used_at + _LIFE_SECONDS:
            return None
        if prefix.ahead is None:
            prefix.ahead, prefix.wait_ends_at = asyncio.Event(), now + _LONGEST_WAIT
            return prefix.ahead
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(longest, prefix.wait_ends_at - now))):
                await prefix.ahead.wait()
        return None
