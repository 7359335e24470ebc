"""Documents from the web, for tests: asked for by https, brought from a loopback server that has no certificate."""

from collections.abc import Iterable
from pathlib import Path

from activities.documents.artifacts import ArtifactStore
from activities.documents.web_documents import Download, Downloads
from activities.documents.web_fetch import Downloader, DownloadLimits
from activities.pages.network import GuardedBackend

LIMITS = DownloadLimits(bytes=100_000)


class LoopbackDownloads(Downloads):
    """What is asked for at `https://w.example` is brought from the loopback server `host`."""

    def __init__(self, store: ArtifactStore, directory: Path, host: str) -> None:
        allowed = frozenset({host})
        super().__init__(store, directory, lambda: Downloader(GuardedBackend(allowed), allowed, LIMITS))
        self._host = host

    async def bring(self, urls: Iterable[str]) -> dict[str, Download | str]:
        there = {url: url.replace("https://w.example", f"http://{self._host}") for url in urls}
        brought = await super().bring(there.values())
        return {url: brought[place] for url, place in there.items()}
