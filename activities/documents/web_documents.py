"""Documents from the web: brought here once a day, and kept like uploaded ones, under the digest of their content."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from activities.documents.artifacts import ArtifactError, Artifacts
from chargehand.contracts import Contract

if TYPE_CHECKING:
    from activities.documents.web_fetch import Downloader

_FRESH_SECONDS: Final = 24 * 3_600
_FAILED_FOR_SECONDS: Final = 60
_AT_ONCE: Final = 4


class Download(Contract):
    """What was found at an address."""

    url: str
    name: str
    digest: str
    bytes: int
    at: float
    """Seconds since 1970."""


class Downloads:
    """Everything that was brought here, noted in a directory that workers may share."""

    def __init__(
        self,
        artifacts: Artifacts,
        directory: Path,
        make: "Callable[[], Downloader]",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._artifacts = artifacts
        self._directory = directory
        self._make = make
        self._now = now
        self._downloader: Downloader | None = None
        self._under_way: dict[str, asyncio.Lock] = {}
        self._failed: dict[str, tuple[float, str]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def bring(self, urls: Iterable[str]) -> dict[str, Download | str]:
        """Bring what is not here yet; the answer for an address that cannot be read is its problem.

        For a day, everyone who asks for an address gets the same content.
        """
        wanted = list(dict.fromkeys(urls))
        return dict(zip(wanted, await asyncio.gather(*map(self._bring, wanted)), strict=True))

    async def _bring(self, url: str) -> Download | str:
        note = self._directory / f"{hashlib.sha256(url.encode()).hexdigest()}.json"
        lock = self._under_way.setdefault(url, asyncio.Lock())
        try:
            async with lock:
                if (known := await asyncio.to_thread(self._known, note)) is not None:
                    return known
                failed_at, problem = self._failed.pop(url, (0.0, ""))
                if not problem or self._now() - failed_at > _FAILED_FOR_SECONDS:
                    async with self._slots:
                        answer = await self._take(url, note)
                    if not isinstance(answer, str):
                        return answer
                    failed_at, problem = self._now(), answer
                self._failed[url] = (failed_at, problem)
                return problem
        finally:
            if not lock.locked() and self._under_way.get(url) is lock:
                del self._under_way[url]

    async def _take(self, url: str, note: Path) -> Download | str:
        from activities.documents.web_fetch import DownloadError

        if self._downloader is None:
            self._downloader = await asyncio.to_thread(self._make)
        draft = self._directory / f".draft-{secrets.token_hex(8)}"
        await asyncio.to_thread(self._directory.mkdir, parents=True, exist_ok=True)
        try:
            arrived = await self._downloader.download(url, draft)
            digest = await asyncio.to_thread(self._artifacts.put_file, draft)
            download = Download(url=url, name=arrived.name, digest=digest, bytes=arrived.bytes, at=self._now())
            await asyncio.to_thread(_write, note, draft, download)
        except (DownloadError, ArtifactError) as error:
            return f"It was not read: {error}."
        except OSError as error:
            return f"It was not read: the worker cannot keep it ({error.strerror})."
        else:
            return download
        finally:
            draft.unlink(missing_ok=True)

    def _known(self, note: Path) -> Download | None:
        try:
            download = Download.model_validate_json(note.read_bytes())
        except (OSError, ValueError):
            return None
        is_fresh = self._now() - download.at < _FRESH_SECONDS
        return download if is_fresh and self._artifacts.has(download.digest) else None


def _write(note: Path, draft: Path, download: Download) -> None:
    draft.write_text(download.model_dump_json(), encoding="utf-8")
    draft.replace(note)
