"""Documents from the web: downloaded once a day and stored like uploads, under the digest of their content."""

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import unquote

from activities.documents.artifacts import ArtifactError, Artifacts
from activities.http.page import FetchError, FetchLimits
from activities.single_flight import SingleFlight
from chargehand.contracts import Contract

if TYPE_CHECKING:
    from httpx2 import URL

    from activities.http.guarded_get import GuardedGet

DOWNLOAD_LIMITS: Final = FetchLimits(wire_bytes=100 << 20, decoded_bytes=100 << 20, total=timedelta(seconds=60))
_FRESH_SECONDS: Final = 24 * 3_600
_FAILED_FOR_SECONDS: Final = 60
_AT_ONCE: Final = 4
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


class Download(Contract):
    """The content of a URL."""

    url: str
    name: str
    digest: str
    bytes: int
    at: float
    """Seconds since 1970."""


@dataclass
class Downloads:
    """All downloads of a worker, recorded in a directory that workers can share.

    Documents are read over HTTPS, and over HTTP only from the `allowed_hosts` to which the operator gives access.
    """

    artifacts: Artifacts
    directory: Path
    allowed_hosts: frozenset[str] = frozenset()
    limits: FetchLimits = DOWNLOAD_LIMITS
    now: Callable[[], float] = time.time
    _http: "GuardedGet | None" = field(default=None, init=False)
    _under_way: SingleFlight[Download | str] = field(default_factory=SingleFlight[Download | str], init=False)
    _failed: dict[str, tuple[float, str]] = field(default_factory=dict[str, tuple[float, str]], init=False)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE), init=False)

    async def fetch_all(self, urls: Iterable[str]) -> dict[str, Download | str]:
        """Download URLs that are not stored yet; for a URL that cannot be read, the value is its problem.

        For one day, every session gets the same content for a URL.
        """
        wanted = list(dict.fromkeys(urls))
        fetching = (self._under_way.run(url, partial(self._fetch, url)) for url in wanted)
        return dict(zip(wanted, await asyncio.gather(*fetching), strict=True))

    async def _fetch(self, url: str) -> Download | str:
        record = self.directory / f"{hashlib.sha256(url.encode()).hexdigest()}.json"
        if (known := await asyncio.to_thread(self._known, record)) is not None:
            return known
        failed_at, problem = self._failed.pop(url, (0.0, ""))
        if not problem or self.now() - failed_at > _FAILED_FOR_SECONDS:
            async with self._slots:
                answer = await self._download(url, record)
            if not isinstance(answer, str):
                return answer
            failed_at, problem = self.now(), answer
        self._failed[url] = (failed_at, problem)
        return problem

    async def _download(self, url: str, record: Path) -> Download | str:
        if self._http is None:
            self._http = await asyncio.to_thread(self._make_http)
        draft = self.directory / f".draft-{secrets.token_hex(8)}"
        await asyncio.to_thread(self.directory.mkdir, parents=True, exist_ok=True)
        try:
            with draft.open("xb") as file:
                name = await self._http.get(url, self._check, partial(self._write, file))
            digest = await asyncio.to_thread(self.artifacts.put_file, draft)
            download = Download(url=url, name=name, digest=digest, bytes=draft.stat().st_size, at=self.now())
            await asyncio.to_thread(_replace, record, draft, download)
        except (FetchError, ArtifactError) as error:
            return f"It was not read: {error}."
        except OSError as error:
            return f"It was not read: the worker cannot store it ({error.strerror})."
        else:
            return download
        finally:
            draft.unlink(missing_ok=True)

    def _make_http(self) -> "GuardedGet":
        from activities.http.guarded_get import GuardedBackend, GuardedGet
        from activities.http.user_agent import user_agent

        backend = GuardedBackend(self.allowed_hosts)
        agent = f"{user_agent()} (reads documents for a session)"
        return GuardedGet(backend, self.limits, user_agent=agent, accept="*/*", accept_encoding="identity")

    async def _write(self, file: BinaryIO, url: "URL", headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> str:
        """Write the body to the file and return the name of the document."""
        if headers.get("content-encoding", "identity").strip().lower() not in {"identity", ""}:
            raise FetchError(f"{url} is compressed although an uncompressed answer was requested")
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self.limits.wire_bytes:
                raise FetchError(f"{url} is larger than {self.limits.wire_bytes >> 20} MB")
            await asyncio.to_thread(file.write, chunk)
        return _name(url, headers.get("content-type", ""))

    def _check(self, url: "URL") -> None:
        is_open = f"{url.host}:{url.port or 80}" in self.allowed_hosts
        if not url.host or not (url.scheme == "https" or (url.scheme == "http" and is_open)):
            raise FetchError(f"{url} is not an https:// address")

    def _known(self, record: Path) -> Download | None:
        try:
            download = Download.model_validate_json(record.read_bytes())
        except (OSError, ValueError):
            return None
        is_fresh = self.now() - download.at < _FRESH_SECONDS
        return download if is_fresh and self.artifacts.has(download.digest) else None


def _replace(record: Path, draft: Path, download: Download) -> None:
    draft.write_text(download.model_dump_json(), encoding="utf-8")
    draft.replace(record)


def _name(url: "URL", content_type: str) -> str:
    """Name a document by the last part of its URL, with the suffix of its content type."""
    last = unquote(PurePosixPath(url.path).name) or url.host
    name = re.sub(r"[^\w.,()+ -]", "_", last)[:120].strip(". ") or "document"
    suffix = _SUFFIXES.get(content_type.partition(";")[0].strip().lower(), "")
    name_suffix = PurePosixPath(name).suffix.lower()
    if not suffix or name_suffix == suffix or (suffix == ".html" and name_suffix in {".htm", ".xhtml"}):
        return name
    return f"{name}{suffix}"
