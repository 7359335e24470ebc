"""Whether the namespace has the search attributes of sessions: a workflow that sets an unknown one gets stuck."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from chargehand.search_attributes import missing_attributes

_LOOK_AGAIN_SECONDS: Final = 60.0


@dataclass
class Listing:
    """Looks for them once, and again while they are missing."""

    _are_there: bool = False
    _looked_at: float | None = None
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def is_possible(self, client: Client) -> bool:
        """Whether sessions may set their search attributes; sessions that open meanwhile wait for the same answer."""
        async with self._looking:
            now = time.monotonic()
            if not self._are_there and (self._looked_at is None or now - self._looked_at > _LOOK_AGAIN_SECONDS):
                try:
                    self._are_there = not await missing_attributes(client)
                    self._looked_at = now
                except RPCError:
                    self._looked_at = None
            return self._are_there
