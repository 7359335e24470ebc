"""Prompt prefixes shared by calls of this worker: later calls wait for the first token of the first one.

A provider can read a prefix from its cache once it has started to answer the call that wrote it. Simultaneous calls
would all write it, which costs more than plain input.
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
from activities.single_flight import Newest

_LIFE_SECONDS: Final = 300.0
"""Minimum time for which providers keep cached prefixes after their last use."""
_LONGEST_WAIT: Final = 10.0
"""Maximum wait from the start of the first call; an unstreamed reply may take longer."""
_SHARE_OF_TIME: Final = 4
"""A call waits at most its time divided by this."""
BYTES_PER_TOKEN: Final = 4
_REMEMBERED: Final = 1_000


@dataclass(eq=False)
class _Prefix:
    used_at: float = -math.inf
    """When a call with this prefix last got its first token."""
    ahead: asyncio.Event | None = None
    """Set at the first token or the end of the first call; None if there is none."""
    wait_ends_at: float = -math.inf


class SharedPrefixes:
    def __init__(self) -> None:
        self._prefixes = Newest[bytes, _Prefix](_REMEMBERED)

    @asynccontextmanager
    async def take_turn(self, call: ModelCall, least_tokens: int) -> AsyncGenerator[ModelCall]:
        """Wait for the first call, if any, and yield the call with a callback that reports its own first token.

        Args:
            call: a call about to be made.
            least_tokens: minimum tokens of a cached prefix.
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
        """Wait for the first call; return the event to set if this is the first one."""
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
