"""The tool `read_page`: one public web page as text."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from activities.pages.page import FetchError, FetchLimits, Page
from activities.pages.text import PageTexts
from activities.tools import (
    OUTPUT_CAP_CHARACTERS,
    READS_THE_WEB,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    failed,
    object_schema,
)
from chargehand.contracts import Source

if TYPE_CHECKING:
    from activities.pages.fetch import Fetcher

_FIELD_CHARACTERS: Final = 200
_DEFAULT_LIMITS: Final = FetchLimits()


class ReadPage:
    """Reads public pages; `allowed_hosts` are internal servers that the operator opens to agents.

    Each is `name:port`, or `name` alone for ports 80 and 443. Close it after use.
    """

    capabilities = READS_THE_WEB
    spec = ToolSpec(
        name="read_page",
        description=(
            "Read one public web page of text and get its main text as Markdown, with title, author and date as far "
            "as the page states them. Only http and https; no PDF, no sign-in, no scripts. Long pages are cut."
        ),
        parameters=object_schema(
            url={"type": "string", "description": "Full address, such as https://example.org/page"}
        ),
    )

    def __init__(self, allowed_hosts: frozenset[str] = frozenset(), limits: FetchLimits = _DEFAULT_LIMITS) -> None:
        self._allowed_hosts = allowed_hosts
        self._limits = limits
        self._fetcher: Fetcher | None = None
        self._texts = PageTexts()

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:  # noqa: ARG002  # pages do not depend on the session
        url = arguments.get("url")
        if not isinstance(url, str) or not url.strip():
            return failed("read_page needs `url`: the full address of one page, as text.")
        try:
            if self._fetcher is None:
                self._fetcher = await asyncio.to_thread(_make_fetcher, self._allowed_hosts, self._limits)
            fetched = await self._fetcher.fetch(url.strip())
            page = await self._texts.read(fetched)
        except FetchError as unreadable:
            return failed(f"{unreadable}. Try another page.")
        return _answer(fetched.url, page)

    async def close(self) -> None:
        """End the processes that parse pages."""
        await self._texts.close()


def _answer(url: str, page: Page) -> ToolAnswer:
    stated = {"title": page.title, "author": page.author, "date": page.date}
    output: dict[str, JsonValue] = {
        "url": url,
        **{name: value[:_FIELD_CHARACTERS] for name, value in stated.items() if value},
        "characters": page.characters,
    }
    # The URL is handed over three times: in the output, and as the source's name and address.
    room = OUTPUT_CAP_CHARACTERS - 3 * len(url) - 4 * _FIELD_CHARACTERS - 100
    text = page.text[: max(room, 0)]
    if len(text) < page.characters:
        output["cut"] = f"Only the first {len(text)} characters are given."
    source = Source(ref=url, title=page.title[:_FIELD_CHARACTERS], url=url, quote=text)
    return ToolAnswer(output=output, sources=(source,))


def _make_fetcher(allowed_hosts: frozenset[str], limits: FetchLimits) -> "Fetcher":
    from activities.pages.fetch import Fetcher  # the HTTP client takes 0.2 s to import
    from activities.pages.guarded_get import GuardedBackend

    return Fetcher(GuardedBackend(allowed_hosts), limits)
