"""The tool `read_page`: one public web page or document as text, to be continued and searched."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import JsonValue

from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.tool import (
    READING_CHARACTERS,
    READS_THE_WEB,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    object_schema,
)
from activities.http.page import FetchError, FetchLimits, Page
from activities.single_flight import SingleFlight
from activities.tools.pages.text import PageTexts
from activities.tools.pages.window import Matches, find, window_end
from chargehand.contracts import Source
from chargehand.tools import failed

if TYPE_CHECKING:
    from activities.tools.pages.fetch import Fetcher

_FIELD_CHARACTERS: Final = 200
_LONGEST_FIND: Final = 200
_DEFAULT_LIMITS: Final = FetchLimits()
_MOST_CHARACTERS: Final = 16_000_000
_FIXED_CHARACTERS: Final = 1_000
"""Size of an entry apart from its text."""


class KeptPage(NamedTuple):
    """A page and its final address."""

    url: str
    page: Page
    is_internal: bool
    """Whether the page came from an internal server, or its address did."""


class ReadPage:
    """Reads public pages; `allowed_hosts` are internal servers to which the operator gives agents access.

    Each is `name:port`, or just `name` for ports 80 and 443. Close it after use.
    """

    capabilities = READS_THE_WEB
    spec = ToolSpec(
        name="read_page",
        description=(
            "Read one public web page, PDF, DOCX, XLSX or ODS file as text: up to "
            f"{READING_CHARACTERS:,} characters from the offset `from`; `next_from` is where to continue. With `find`, "
            "the passages around its matches from there on, at the offsets `found_at`. `date_from` says where the "
            "page's date was found."
        ),
        parameters=object_schema(
            **{
                "url": {"type": "string", "description": "Full address, or a ref such as p1."},
                "from": {"type": "integer", "description": "0 for the beginning."},
                "find": {"type": "string", "description": "Words to find on the page, or empty; never sent anywhere."},
            }
        ),
        stays_here=("from", "find"),
    )

    def __init__(self, allowed_hosts: frozenset[str] = frozenset(), limits: FetchLimits = _DEFAULT_LIMITS) -> None:
        self._allowed_hosts = allowed_hosts
        self._limits = limits
        self._fetcher: Fetcher | None = None
        self._texts = PageTexts()
        self._pages = PageCache()

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        if problem := _problem(arguments):
            return failed(problem)
        url, words = str(arguments["url"]).strip(), str(arguments.get("find") or "").strip()
        first = int(str(arguments.get("from") or 0))
        try:
            stored_page = await self._pages.get(context.session, url.partition("#")[0], self._read)
        except FetchError as unreadable:
            answer = failed(f"{unreadable}. Try another page.")
            return answer.model_copy(update={"is_private": unreadable.is_internal})
        if first >= len(stored_page.page.text):
            return failed(f"The page ends at {len(stored_page.page.text):,} characters: `from` must be less.")
        answer = await asyncio.to_thread(_search, stored_page, words, first) if words else _window(stored_page, first)
        return answer.replace(is_private=stored_page.is_internal)

    async def close(self) -> None:
        """End the processes that parse pages."""
        await self._texts.close()

    async def _read(self, url: str) -> KeptPage:
        if self._fetcher is None:
            self._fetcher = await asyncio.to_thread(_make_fetcher, self._allowed_hosts, self._limits)
        urls: list[str] = []
        try:
            fetched = await self._fetcher.fetch(url, urls)
            page = await self._texts.read(fetched)
        except FetchError as unreadable:
            unreadable.is_internal = any(map(self._fetcher.is_internal, urls))
            raise
        return KeptPage(fetched.url, page, any(map(self._fetcher.is_internal, urls)))


def _problem(arguments: Mapping[str, JsonValue]) -> str:
    url, first, words = (arguments.get(name) for name in ("url", "from", "find"))
    if not isinstance(url, str) or not url.strip():
        return "`url` must be the full address of one page, such as https://example.org/page."
    if first is not None and (isinstance(first, bool) or not isinstance(first, int) or not 0 <= first < 1 << 40):
        return "`from` must be an offset in characters: `next_from` of an earlier answer, or 0."
    if words is not None and (not isinstance(words, str) or len(words) > _LONGEST_FIND):
        return f"`find` must be at most {_LONGEST_FIND} characters of text, or empty to read the page."
    return ""


def _window(kept: KeptPage, first: int) -> ToolAnswer:
    page = kept.page
    end = window_end(page.text, first, READING_CHARACTERS)
    output = _describe(page)
    if first or end < len(page.text):
        output |= {"from": first, "to": end}
    if end < len(page.text):
        output["next_from"] = end
        output["note"] = "The page goes on: `find` searches the rest of it for words."
    elif len(page.text) < page.characters:
        output["note"] = f"Only the first {len(page.text):,} characters of a page can be read."
    return ToolAnswer(output=output, sources=(_source(kept, page.text[first:end].strip()),))


def _search(kept: KeptPage, words: str, first: int) -> ToolAnswer:
    page = kept.page
    matches = find(page.text, words, first)
    output: dict[str, JsonValue] = {**_describe(page), "matches": matches.total}
    if not matches.passages:
        output["note"] = "Not found. Find other or fewer words, or read the page."
        return ToolAnswer(output=output)
    output["found_at"] = [start for start, _ in matches.passages]
    if note := _advice(matches):
        output["note"] = note
    if matches.next is not None:
        output["next_from"] = matches.next
    return ToolAnswer(
        output=output,
        sources=(_source(kept, PASSAGE_GAP.join(page.text[start:end].strip() for start, end in matches.passages)),),
    )


def _advice(found: Matches) -> str:
    if not found.is_phrase:
        missing = f" Not on the page: {', '.join(found.missing)}." if found.missing else ""
        return f"The words do not occur together; these passages contain the most of them.{missing}"
    return "There are more matches: find the same words from `next_from` on." if found.next is not None else ""


def _describe(page: Page) -> dict[str, JsonValue]:
    stated = {"author": page.author, "date": page.date, "date_from": page.date_origin}
    return {
        **{name: value[:_FIELD_CHARACTERS] for name, value in stated.items() if value},
        "characters": page.characters,
    }


def _source(kept: KeptPage, text: str) -> Source:
    return Source(ref=kept.url, title=kept.page.title[:_FIELD_CHARACTERS], url=kept.url, quote=text)


def _make_fetcher(allowed_hosts: frozenset[str], limits: FetchLimits) -> "Fetcher":
    from activities.http.guarded_get import GuardedBackend
    from activities.tools.pages.fetch import Fetcher  # the HTTP client takes 0.2 s to import

    return Fetcher(GuardedBackend(allowed_hosts), limits)


class PageCache:
    """The most recently used pages of each session, bounded in total size; sessions do not share pages.

    A page that another worker has read is read again.
    """

    def __init__(self, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most = most_characters
        self._entries: OrderedDict[tuple[str, str], KeptPage] = OrderedDict()
        self._reads = SingleFlight[KeptPage]()

    async def get(self, session: str, url: str, read: Callable[[str], Awaitable[KeptPage]]) -> KeptPage:
        """Return a cached page, or read it; concurrent calls read it once."""
        entry = self._entries.get((session, url)) or await self._reads.run((session, url), lambda: read(url))
        for key in dict.fromkeys(((session, entry.url), (session, url))):
            self._entries[key] = entry
            self._entries.move_to_end(key)
        while sum(len(each.page.text) + _FIXED_CHARACTERS for each in self._entries.values()) > self._most:
            self._entries.popitem(last=False)
        return entry
