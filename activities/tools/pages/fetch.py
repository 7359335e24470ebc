"""Fetches one web page within limits. Runs in the activity; imported when the first page is read."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final

from httpx2 import URL

from activities.http.guarded_get import GuardedBackend, GuardedGet
from activities.http.page import Fetched, FetchError, FetchLimits
from activities.http.response_limits import BodyRefused, bounded_parts
from activities.http.user_agent import user_agent
from activities.tools.pages.body_type import HEAD_BYTES, is_document, refuse_head, refuse_type, suffix_of

_LONGEST_HEADER: Final = 100


class Fetcher:
    """Fetches pages of text, and documents."""

    def __init__(self, backend: GuardedBackend, limits: FetchLimits) -> None:
        self._backend, self._limits = backend, limits
        self._http = GuardedGet(
            backend,
            limits,
            user_agent=f"{user_agent()} (reads pages for a research session)",
            accept="text/html,application/xhtml+xml,text/plain,text/markdown,application/pdf,application/json;q=0.9,*/*;q=0.1",
            accept_encoding="gzip",
        )

    async def fetch(self, url: str, asked: list[str] | None = None) -> Fetched:
        """Follow redirects to a page and return its body; add requested addresses to `asked`. Raises `FetchError`."""
        return await self._http.get(url, partial(_check, [] if asked is None else asked), self._take)

    def is_internal(self, url: str) -> bool:
        """Whether a page is on an internal host, so that its content is private."""
        at = URL(url)
        return self._backend.is_internal(at.host, at.port or (443 if at.scheme == "https" else 80))

    async def _take(self, url: URL, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> Fetched:
        media_type, charset = _content_type(headers)
        try:
            refuse_type(media_type)
            body = await self._body(media_type, headers, chunks)
            suffix = await asyncio.to_thread(suffix_of, media_type, body)
        except BodyRefused as refused:
            raise FetchError(f"{url} was not read: {refused}") from refused
        except FetchError as refused:
            raise FetchError(f"{url} {refused}") from refused
        return Fetched(
            url=str(url.copy_with(fragment=None)),
            media_type=media_type,
            charset=charset,
            suffix=suffix,
            last_modified=headers.get("last-modified", "")[:_LONGEST_HEADER],
            body=body,
        )

    async def _body(self, media_type: str, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> bytes:
        encoding = headers.get("content-encoding", "").strip().lower()
        limits = self._limits
        wire, decoded = limits.wire_bytes, limits.decoded_bytes
        if is_document(media_type):
            wire = decoded = limits.document_bytes
        body = bytearray()
        is_checked = False
        async for part in bounded_parts(chunks, encoding, wire_bytes=wire, decoded_bytes=decoded):
            body += part
            if not is_checked and len(body) >= HEAD_BYTES:
                is_checked = True
                refuse_head(media_type, bytes(body[:HEAD_BYTES]))
        return bytes(body)


def _check(asked: list[str], url: URL) -> None:
    if url.scheme not in {"http", "https"} or not url.host:
        raise FetchError(f"{url} is not a web address; it must start with https:// or http://")
    asked.append(str(url))


def _content_type(headers: Mapping[str, str]) -> tuple[str, str]:
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    return media_type.strip().lower(), charset.group(1).lower() if charset else ""
