"""What words are looked up in: the goals and ids of sessions, which never change once a session is listed with them.

It is a shortcut past the server's list, which knows no words. What is found here is read from the server anew, so a
session shows as it is now, and one that is gone does not; a console that has just started knows none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from chargehand import SessionSummary

MOST_SEARCHED: Final = 5_000
_LISTED_WITHIN: Final = timedelta(seconds=10)
_MOST_WITHOUT_GOAL: Final = 200
"""Sessions that a plain client has started have no goal until a worker writes it, and are read again until then."""

List = Callable[..., AsyncIterator[SessionSummary]]


class KnownSessions:
    """The newest sessions, by their ids."""

    def __init__(self) -> None:
        self._sessions: dict[str, SessionSummary] = {}
        self._read_at = datetime.min.replace(tzinfo=UTC)
        self._lock = asyncio.Lock()

    async def find(self, listed: List, words: Sequence[str]) -> list[str]:
        """Return the ids of sessions with all of these words, the newest first; `listed` lists by filters."""
        async with self._lock:
            await self._refresh(listed)
            texts = {name: f"{each.goal} {name}".casefold() for name, each in self._sessions.items()}
        return [name for name, text in texts.items() if all(word in text for word in words)]

    async def _refresh(self, listed: List) -> None:
        since = next((each.started_at for each in self._sessions.values()), None)
        if since and since + _LISTED_WITHIN > self._read_at:
            since -= _LISTED_WITHIN
        self._read_at = datetime.now(UTC)
        without = [name for name, each in self._sessions.items() if not each.goal][:_MOST_WITHOUT_GOAL]
        fresh = [each async for each in listed(MOST_SEARCHED, since=since)]
        if without:
            fresh += [each async for each in listed(len(without), ids=without)]
        known = self._sessions | {each.id: each for each in fresh}
        latest = sorted(known.values(), key=lambda each: each.started_at, reverse=True)
        self._sessions = {each.id: each for each in latest[:MOST_SEARCHED]}
