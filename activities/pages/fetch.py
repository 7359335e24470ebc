"""Fetch one web page within limits. Runs in the activity; imported when the first page is read."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

from httpx2 import URL

from activities.http_limits import BodyRefused, bounded_parts
from activities.pages.guarded_get import GuardedBackend, GuardedGet
from activities.pages.page import Fetched, FetchError, FetchLimits

_TEXT_TYPES: Final = re.compile(r"text/[\w.+-]+|application/(json|xml|[\w.-]+\+(json|xml)|x-ndjson|yaml|x-yaml|toml)")


class Fetcher:
    """Fetches pages of text."""

    def __init__(self, backend: GuardedBackend, limits: FetchLimits) -> None:
        self._limits = limits
        self._http = GuardedGet(
            backend,
            limits,
            user_agent="Chargehand/0.4 (reads pages for a research session)",
            accept="text/html,application/xhtml+xml,text/plain,text/markdown,application/json;q=0.9,*/*;q=0.1",
            accept_encoding="gzip",
        )

    async def fetch(self, url: str) -> Fetched:
        """Follow redirects to a page of text and return its body. Raises `FetchError`."""
        return await self._http.get(url, _check, self._take)

    async def _take(self, url: URL, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> Fetched:
        media_type, charset = _content_type(headers)
        if not _TEXT_TYPES.fullmatch(media_type):
            raise FetchError(f"{url} is {media_type or 'of no stated type'}; only pages of text can be read")
        body = await self._body(url, headers, chunks)
        return Fetched(url=str(url.copy_with(fragment=None)), media_type=media_type, charset=charset, body=body)

    async def _body(self, url: URL, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> bytes:
        encoding = headers.get("content-encoding", "").strip().lower()
        limits = self._limits
        parts = bounded_parts(chunks, encoding, wire_bytes=limits.wire_bytes, decoded_bytes=limits.decoded_bytes)
        try:
            return b"".join([part async for part in parts])
        except BodyRefused as refused:
            raise FetchError(f"{url} was not read: {refused}") from refused


def _check(url: URL) -> None:
    if url.scheme not in {"http", "https"} or not url.host:
        raise FetchError(f"{url} is not a web address; it must start with https:// or http://")


def _content_type(headers: Mapping[str, str]) -> tuple[str, str]:
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    return media_type.strip().lower(), charset.group(1).lower() if charset else ""
