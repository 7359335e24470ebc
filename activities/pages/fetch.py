"""Fetch one web page within limits. Runs in the activity; imported when the first page is read."""

import asyncio
import re
import ssl
import zlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final, TypeAlias

import httpcore2
from httpx2 import URL, InvalidURL, create_ssl_context

from activities.pages.addresses import AddressRefusedError
from activities.pages.network import GuardedBackend
from activities.pages.page import Fetched, FetchLimits, PageUnreadableError

URL_CHARACTERS: Final = 2_000
_TEXT_TYPES: Final = re.compile(r"text/[\w.+-]+|application/(json|xml|[\w.-]+\+(json|xml)|x-ndjson|yaml|x-yaml|toml)")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REQUEST_HEADERS: Final = (
    ("User-Agent", "Chargehand/0.1 (reads pages for a research session)"),
    ("Accept", "text/html,application/xhtml+xml,text/plain,text/markdown,application/json;q=0.9,*/*;q=0.1"),
    ("Accept-Encoding", "gzip"),
    ("Connection", "close"),
)

_Headers: TypeAlias = dict[str, str]


class Fetcher:
    """Fetches pages. Nothing is kept between two pages: no cookies, no connections, no settings of the environment."""

    def __init__(self, backend: GuardedBackend, limits: FetchLimits) -> None:
        self._backend = backend
        self._limits = limits
        self._tls: ssl.SSLContext | None = None

    async def fetch(self, url: str) -> Fetched:
        """Follow redirects to a page of text and take its body; raises `PageUnreadableError`."""
        seconds = self._limits.total.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(_checked(url))
        except TimeoutError:
            raise PageUnreadableError(f"{url} took longer than {seconds:g} seconds") from None
        except AddressRefusedError as refused:
            raise PageUnreadableError(f"{url} may not be read: {refused}") from refused
        except httpcore2.TimeoutException as error:
            raise PageUnreadableError(f"{url} did not answer in time") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            raise PageUnreadableError(f"{url} could not be reached: {error or type(error).__name__}") from error

    async def _follow(self, url: URL) -> Fetched:
        if self._tls is None:
            self._tls = await asyncio.to_thread(create_ssl_context, trust_env=False)
        async with httpcore2.AsyncConnectionPool(ssl_context=self._tls, network_backend=self._backend) as pool:
            for _ in range(self._limits.redirects + 1):
                answer = await self._ask(pool, url)
                if isinstance(answer, Fetched):
                    return answer
                url = answer
        raise PageUnreadableError(f"{url} was reached by more than {self._limits.redirects} redirects; it was not read")

    async def _ask(self, pool: httpcore2.AsyncConnectionPool, url: URL) -> Fetched | URL:
        connect = self._limits.connect.total_seconds()
        total = self._limits.total.total_seconds()
        async with pool.stream(
            "GET",
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=[("Host", url.netloc.decode("ascii")), *_REQUEST_HEADERS],
            extensions={"timeout": {"connect": connect, "read": total, "write": total, "pool": total}},
        ) as response:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if response.status in _REDIRECTS:
                return _next(url, headers)
            if response.status != HTTPStatus.OK:
                raise PageUnreadableError(f"{url} answered {_status(response.status)}")
            media_type, charset = _content_type(headers)
            if not _TEXT_TYPES.fullmatch(media_type):
                raise PageUnreadableError(
                    f"{url} is {media_type or 'of no stated type'}; only pages of text can be read"
                )
            body = await self._body(url, headers, response.aiter_stream())
        return Fetched(url=str(url.copy_with(fragment=None)), media_type=media_type, charset=charset, body=body)

    async def _body(self, url: URL, headers: _Headers, chunks: AsyncIterator[bytes]) -> bytes:
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {"identity", "", "gzip", "x-gzip", "deflate"}:
            raise PageUnreadableError(f"{url} is compressed as {encoding[:40]}, which cannot be read")
        inflater = None if encoding in {"identity", ""} else zlib.decompressobj(zlib.MAX_WBITS | 32)
        limit = self._limits.decoded_bytes
        wire = 0
        body = bytearray()
        async for chunk in chunks:
            wire += len(chunk)
            if inflater is None:
                body += chunk
            else:
                try:
                    # Never inflates more than is kept, whatever a small chunk claims to be.
                    body += inflater.decompress(chunk, limit + 1 - len(body))
                except zlib.error as error:
                    raise PageUnreadableError(f"{url} is compressed in a way that cannot be read") from error
            if wire > self._limits.wire_bytes or len(body) > limit:
                raise PageUnreadableError(f"{url} is larger than {limit / 1_000_000:g} MB; it was not read")
        return bytes(body)


def _checked(url: str) -> URL:
    if len(url) > URL_CHARACTERS:
        raise PageUnreadableError(f"the URL is longer than {URL_CHARACTERS} characters")
    try:
        parsed = URL(url)
    except InvalidURL as error:
        raise PageUnreadableError(f"{url} is not a URL: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise PageUnreadableError(f"{url} is not a web address; it must start with https:// or http://")
    if parsed.userinfo:
        raise PageUnreadableError("the URL contains a user name or password; leave them out")
    return parsed


def _next(url: URL, headers: _Headers) -> URL:
    location = headers.get("location")
    if not location:
        raise PageUnreadableError(f"{url} redirects without saying where to")
    try:
        return _checked(str(url.join(location)))
    except InvalidURL as error:
        raise PageUnreadableError(f"{url} redirects to something that is not a URL") from error


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _content_type(headers: _Headers) -> tuple[str, str]:
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    return media_type.strip().lower(), charset.group(1).lower() if charset else ""
