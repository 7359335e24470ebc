"""Pages that were read lately, so that reading on and searching do not download a page again."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from activities.pages.page import Page

_MOST_CHARACTERS: Final = 16_000_000
_FIXED_CHARACTERS: Final = 1_000
"""What an entry takes beside its text."""


class KeptPage(NamedTuple):
    """A page and where it was in the end."""

    url: str
    page: Page


class PageCache:
    """The pages of each session that fit into a bound, the ones used last; sessions share none.

    A page that another worker has read is read again.
    """

    def __init__(self, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most = most_characters
        self._used = 0
        self._entries: OrderedDict[tuple[str, str], KeptPage] = OrderedDict()
        self._reading: dict[tuple[str, str], asyncio.Lock] = {}

    async def get(self, session: str, url: str, read: Callable[[str], Awaitable[KeptPage]]) -> KeptPage:
        """Return a page, and read it unless it is kept; calls at the same time read it once."""
        key = (session, url)
        lock = self._reading.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                kept = self._entries.get(key)
                if kept is None:
                    kept = await read(url)
                    for known in {key, (session, kept.url)}:
                        self._keep(known, kept)
                else:
                    self._entries.move_to_end(key)
                return kept
        finally:
            if not lock.locked() and self._reading.get(key) is lock:
                del self._reading[key]

    def _keep(self, key: tuple[str, str], entry: KeptPage) -> None:
        if (replaced := self._entries.pop(key, None)) is not None:
            self._used -= _size(replaced)
        self._entries[key] = entry
        self._used += _size(entry)
        while self._used > self._most:
            _, oldest = self._entries.popitem(last=False)
            self._used -= _size(oldest)


def _size(entry: KeptPage) -> int:
    return len(entry.page.text) + _FIXED_CHARACTERS
