"""Pages that were read lately, so that reading on and searching do not download a page again."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from activities.http.page import FetchError, Page

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
        self._under_way: dict[tuple[str, str], _UnderWay] = {}

    async def get(self, session: str, url: str, read: Callable[[str], Awaitable[KeptPage]]) -> KeptPage:
        """Return a page, and read it unless it is kept; calls at the same time read it once."""
        key = (session, url)
        under_way = self._under_way.setdefault(key, _UnderWay())
        try:
            async with under_way.lock:
                if under_way.problem is not None:
                    raise under_way.problem
                return await self._kept(session, url, read)
        except FetchError as error:
            under_way.problem = error
            raise
        finally:
            if not under_way.lock.locked() and self._under_way.get(key) is under_way:
                del self._under_way[key]

    async def _kept(self, session: str, url: str, read: Callable[[str], Awaitable[KeptPage]]) -> KeptPage:
        entry = self._entries.get((session, url))
        if entry is not None:
            self._entries.move_to_end((session, url))
            return entry
        entry = await read(url)
        for address in dict.fromkeys((entry.url, url)):
            self._keep((session, address), entry)
        return entry

    def _keep(self, key: tuple[str, str], entry: KeptPage) -> None:
        if (replaced := self._entries.pop(key, None)) is not None:
            self._used -= _size(replaced)
        self._entries[key] = entry
        self._used += _size(entry)
        while self._used > self._most:
            _, oldest = self._entries.popitem(last=False)
            self._used -= _size(oldest)


class _UnderWay:
    """Calls for one page at the same time: the first reads it, and all get what it got."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.problem: FetchError | None = None


def _size(entry: KeptPage) -> int:
    return len(entry.page.text) + _FIXED_CHARACTERS
