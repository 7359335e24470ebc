"""What words are looked up in: the goals and ids of sessions, which never change once a session is listed with them.

It is a shortcut past the server's list, which knows no words. What is found here is read from the server anew, so a
session shows as it is now, and one that is gone does not; a console that has just started knows none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from chargehand import SessionSummary

MOST_SEARCHED: Final = 5_000
_UNSETTLED: Final = timedelta(minutes=1)
"""How long a session may take to be listed, and to write its goal."""


class KnownSessions:
    """The newest sessions, by their ids."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[datetime, str]] = {}
        """When each began, and what words are looked up in; the newest first."""
        self._lock = asyncio.Lock()

    async def find(self, listed: Callable[..., AsyncIterator[SessionSummary]], words: Sequence[str]) -> list[str]:
        """Return the ids of sessions with all of these words, the newest first; `listed` lists those since a time."""
        async with self._lock:
            newest = next((at for at, _ in self._texts.values()), None)
            async for each in listed(MOST_SEARCHED, since=newest and newest - _UNSETTLED):
                self._texts[each.id] = (each.started_at, f"{each.goal} {each.id}".casefold())
            latest = sorted(self._texts.items(), key=lambda item: item[1][0], reverse=True)
            self._texts = dict(latest[:MOST_SEARCHED])
            return [name for name, (_, text) in self._texts.items() if all(word in text for word in words)]
