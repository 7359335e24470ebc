"""Reads pages in a process of its own, and says how each ended and how much memory it took. Not a test."""

import asyncio
import json
import re
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from activities.http.guarded_get import GuardedBackend
from activities.http.page import FetchError, FetchLimits
from activities.tools.pages.fetch import Fetcher
from activities.tools.pages.text import PageTexts


def memory(figure: str) -> int:
    """Read a figure of this process's memory, in bytes."""
    found = re.search(rf"^{figure}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found.group(1)) << 10


def forget_most() -> int:
    """Begin to measure the most memory anew; returns what is in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


async def watch(lag: list[float]) -> None:
    """Note by how much the event loop was late."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.005)
        lag.append(time.monotonic() - before - 0.005)


async def read_all(host: str, seconds_by_path: dict[str, float]) -> dict[str, Any]:
    texts = PageTexts(parsing=timedelta(seconds=1))
    ended: dict[str, Any] = {}
    for path, total in seconds_by_path.items():
        fetcher = Fetcher(GuardedBackend(frozenset({host})), FetchLimits(total=timedelta(seconds=total)))
        lag = [0.0]
        watching = asyncio.create_task(watch(lag))
        before, started = forget_most(), time.monotonic()
        try:
            said = (await texts.read(await fetcher.fetch(f"http://{host}{path}"))).text[:100]
        except FetchError as unreadable:
            said = str(unreadable)
        seconds = time.monotonic() - started
        watching.cancel()
        ended[path] = {"said": said, "grown": memory("VmHWM") - before, "seconds": seconds, "lag": max(lag)}
    await texts.close()
    return ended


if __name__ == "__main__":
    host, seconds_by_path = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(read_all(host, json.loads(seconds_by_path)))))
