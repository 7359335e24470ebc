"""Bring one document from the web into a file, within limits. Runs in the activity; imported with the first of them."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import unquote

import httpcore2
from httpx2 import URL, InvalidURL, create_ssl_context

from activities.pages.addresses import AddressRefusedError
from activities.pages.network import GuardedBackend
from chargehand.contracts import Contract

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REQUEST_HEADERS: Final = (
    ("User-Agent", "Chargehand/0.1 (reads documents for a session)"),
    ("Accept", "*/*"),
    ("Accept-Encoding", "identity"),
    ("Connection", "close"),
)
_SUFFIXES: Final[Mapping[str, str]] = {
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/xhtml+xml": ".html",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/tab-separated-values": ".tsv",
}


class DownloadError(Exception):
    """A document cannot be brought here; the message says why, for the user."""


class DownloadLimits(Contract):
    """How much of the network one document may take."""

    bytes: int = 100 << 20
    redirects: int = 5
    total: timedelta = timedelta(seconds=60)
    connect: timedelta = timedelta(seconds=5)


class Arrived(NamedTuple):
    """A document that is in its file."""

    name: str
    bytes: int


class Downloader:
    """Reads documents over HTTPS, and over HTTP from hosts that the operator opens to agents.

    Nothing is kept between two documents, and nothing of the environment is used: no cookies, proxies or passwords.
    """

    def __init__(self, backend: GuardedBackend, allowed_hosts: frozenset[str], limits: DownloadLimits) -> None:
        self._backend = backend
        self._allowed_hosts = allowed_hosts
        self._limits = limits
        self._tls: ssl.SSLContext | None = None

    async def download(self, url: str, target: Path) -> Arrived:
        """Follow redirects and write the body to a new file. Raises `DownloadError`."""
        seconds = self._limits.total.total_seconds()
        try:
            with target.open("xb") as file:
                async with asyncio.timeout(seconds):
                    return await self._follow(self._checked(url), file)
        except TimeoutError:
            raise DownloadError(f"{url} took longer than {seconds:g} seconds") from None
        except AddressRefusedError as refused:
            raise DownloadError(f"{url} may not be read: {refused}") from refused
        except httpcore2.TimeoutException as error:
            raise DownloadError(f"{url} did not answer in time") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            raise DownloadError(f"{url} could not be reached: {error or type(error).__name__}") from error

    async def _follow(self, url: URL, file: BinaryIO) -> Arrived:
        if self._tls is None:
            self._tls = await asyncio.to_thread(create_ssl_context, trust_env=False)
        async with httpcore2.AsyncConnectionPool(ssl_context=self._tls, network_backend=self._backend) as pool:
            for _ in range(self._limits.redirects + 1):
                answer = await self._ask(pool, url, file)
                if isinstance(answer, Arrived):
                    return answer
                url = answer
        raise DownloadError(f"{url} was reached by more than {self._limits.redirects} redirects; it was not read")

    async def _ask(self, pool: httpcore2.AsyncConnectionPool, url: URL, file: BinaryIO) -> Arrived | URL:
        connect, total = self._limits.connect.total_seconds(), self._limits.total.total_seconds()
        async with pool.stream(
            "GET",
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=[("Host", url.netloc.decode("ascii")), *_REQUEST_HEADERS],
            extensions={"timeout": {"connect": connect, "read": total, "write": total, "pool": total}},
        ) as response:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if response.status in _REDIRECTS:
                return self._next(url, headers)
            if response.status != HTTPStatus.OK:
                raise DownloadError(f"{url} answered with status {response.status}")
            if headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}:
                raise DownloadError(f"{url} came compressed, though that was not asked for")
            size = 0
            async for chunk in response.aiter_stream():
                size += len(chunk)
                if size > self._limits.bytes:
                    raise DownloadError(f"{url} is larger than {self._limits.bytes >> 20} MB")
                await asyncio.to_thread(file.write, chunk)
        return Arrived(_name(url, headers.get("content-type", "")), size)

    def _next(self, url: URL, headers: Mapping[str, str]) -> URL:
        location = headers.get("location")
        if not location:
            raise DownloadError(f"{url} redirects without saying where to")
        try:
            return self._checked(str(url.join(location)))
        except InvalidURL as error:
            raise DownloadError(f"{url} redirects to something that is not a URL") from error

    def _checked(self, url: str) -> URL:
        try:
            parsed = URL(url)
        except InvalidURL as error:
            raise DownloadError(f"{url} is not a URL: {error}") from error
        if parsed.userinfo:
            raise DownloadError("the URL contains a user name or password; leave them out")
        is_open = f"{parsed.host}:{parsed.port or 80}" in self._allowed_hosts
        if not parsed.host or not (parsed.scheme == "https" or (parsed.scheme == "http" and is_open)):
            raise DownloadError(f"{url} is not an https:// address")
        return parsed


def _name(url: URL, content_type: str) -> str:
    """Name a document as the last part of its address, with the suffix of what the server says it is."""
    last = unquote(PurePosixPath(url.path).name) or url.host
    name = re.sub(r"[^\w.,()+ -]", "_", last)[:120].strip(". ") or "document"
    suffix = _SUFFIXES.get(content_type.partition(";")[0].strip().lower(), "")
    given = PurePosixPath(name).suffix.lower()
    if not suffix or given == suffix or (suffix == ".html" and given in {".htm", ".xhtml"}):
        return name
    return f"{name}{suffix}"


def make_downloader(allowed_hosts: frozenset[str], limits: DownloadLimits) -> Downloader:
    """Make the one that is used in production."""
    return Downloader(GuardedBackend(allowed_hosts), allowed_hosts, limits)
