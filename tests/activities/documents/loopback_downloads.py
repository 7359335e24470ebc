"""Downloads for tests: documents requested over https, fetched from a loopback server without a certificate."""

from collections.abc import Iterable
from pathlib import Path

from activities.documents.artifacts import ArtifactStore
from activities.documents.downloads import Download, Downloads
from activities.http.page import FetchLimits

LIMITS = FetchLimits(wire_bytes=100_000)


class LoopbackDownloads(Downloads):
    """Downloads whose URLs below `https://w.example` are fetched from the loopback server `host`."""

    def __init__(self, store: ArtifactStore, directory: Path, host: str) -> None:
        super().__init__(store, directory, frozenset({host}), LIMITS)
        self._host = host

    async def fetch_all(self, urls: Iterable[str]) -> dict[str, Download | str]:
        there = {url: url.replace("https://w.example", f"http://{self._host}") for url in urls}
        fetched = await super().fetch_all(there.values())
        return {url: fetched[place] for url, place in there.items()}
