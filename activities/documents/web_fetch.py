"""Bring one document from the web into a file, within limits. Runs in the activity; imported with the first of them."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import unquote

from httpx2 import URL

from activities.pages.network import GuardedBackend
from activities.pages.web import Endurance, UnreachableError, Web
from chargehand.contracts import Contract

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
    """Reads documents over HTTPS, and over HTTP from hosts that the operator opens to agents."""

    def __init__(self, backend: GuardedBackend, allowed_hosts: frozenset[str], limits: DownloadLimits) -> None:
        self._allowed_hosts = allowed_hosts
        self._limits = limits
        self._web = Web(
            backend,
            Endurance(limits.connect, limits.total, limits.redirects),
            user_agent="Chargehand/0.1 (reads documents for a session)",
            accept="*/*",
            accept_encoding="identity",
        )

    async def download(self, url: str, target: Path) -> Arrived:
        """Follow redirects and write the body to a new file. Raises `DownloadError`."""
        try:
            with target.open("xb") as file:
                return await self._web.get(url, self._check, partial(self._take, file))
        except UnreachableError as error:
            raise DownloadError(str(error)) from error

    async def _take(
        self, file: BinaryIO, url: URL, headers: Mapping[str, str], chunks: AsyncIterator[bytes]
    ) -> Arrived:
        if headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}:
            raise DownloadError(f"{url} came compressed, though that was not asked for")
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self._limits.bytes:
                raise DownloadError(f"{url} is larger than {self._limits.bytes >> 20} MB")
            await asyncio.to_thread(file.write, chunk)
        return Arrived(_name(url, headers.get("content-type", "")), size)

    def _check(self, url: URL) -> None:
        is_open = f"{url.host}:{url.port or 80}" in self._allowed_hosts
        if not url.host or not (url.scheme == "https" or (url.scheme == "http" and is_open)):
            raise DownloadError(f"{url} is not an https:// address")


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
