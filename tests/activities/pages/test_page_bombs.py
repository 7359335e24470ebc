"""Responses meant to harm their readers, read while memory and the event loop are watched."""

import asyncio
import gzip
import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from page_server import Page, answer, serve_pages

from activities.http.guarded_get import GuardedBackend
from activities.http.page import FetchError, FetchLimits
from activities.tools.pages.fetch import Fetcher
from activities.tools.pages.text import PageTexts

MOST_GROWTH: Final = 64 << 20
MOST_LAG: Final = 1.0
"""Maximum seconds for which a page may block the event loop, on a busy machine."""
SHORT, LONG = 0.3, 30.0
"""Time limits in seconds, for pages that arrive too slowly and for those that end for another reason."""
LATE: Final = "took longer than 0.3 seconds"
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def sends(head: bytes, repeated: bytes = b"", times: int = 1_000_000_000, pause: float = 0) -> Page:
    """Send some bytes, then others again and again until the client goes away."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for _ in range(times if repeated else 0):
            writer.write(repeated)
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)  # a slow server is what is tested
        await writer.drain()

    return write


def gzipped(body: bytes, content_type: str = "text/plain") -> Page:
    return answer(gzip.compress(body, 1), content_type=content_type, Content_Encoding="gzip")


BOMBS: Final[dict[str, tuple[Callable[[], Page], str]]] = {
    "/gzip": (lambda: gzipped(bytes(40_000_000)), "is larger than 5 MB"),
    "/gzip-in-gzip": (lambda: gzipped(gzip.compress(bytes(40_000_000), 1)), ""),
    "/gzip-of-html": (lambda: gzipped(b"<div>" * 8_000_000, "text/html"), "is larger than 5 MB"),
    "/gzip-members": (
        lambda: sends(OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"a" * 9) * 1_000),
        "is larger than 5 MB",
    ),
    "/endless-chunks": (lambda: sends(CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n"), "is larger than 5 MB"),
    "/endless-chunk-size": (lambda: sends(CHUNKED + b"1;", b"x" * 1024), "could not be reached"),
    "/endless-trailers": (lambda: sends(CHUNKED + b"0\r\n", b"X-A: " + b"x" * 1024 + b"\r\n"), "could not be reached"),
    "/one-byte-chunks": (lambda: sends(CHUNKED, b"1\r\nx\r\n" * 1_000), LATE),
    "/huge-chunk": (lambda: sends(CHUNKED + b"FFFFFFFFFFFFFFF\r\n", b"x" * 65_536), "is larger than 5 MB"),
    "/drip": (lambda: sends(OK + b"\r\n", b"x", pause=0.05), LATE),
    "/drip-of-headers": (lambda: sends(OK, b"X-A: b\r\n", pause=0.05), LATE),
    "/too-short": (lambda: sends(OK + b"Content-Length: 1000000000000\r\n\r\nbegun"), "could not be reached"),
    "/too-long": (lambda: sends(OK + b"Content-Length: 5\r\n\r\nbegun", b"x" * 65_536, times=500), ""),
    "/nothing": (lambda: sends(b""), "could not be reached"),
    "/no-http": (lambda: sends(b"SSH-2.0-OpenSSH_9.6\r\n"), "could not be reached"),
    "/length-below-0": (lambda: sends(OK + b"Content-Length: -5\r\n\r\nbegun"), "could not be reached"),
    "/two-lengths": (
        lambda: sends(OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nbegun"),
        "could not be reached",
    ),
    "/long-header": (lambda: sends(OK + b"X-Long: ", b"x" * 65_536, times=800), "could not be reached"),
    "/many-headers": (lambda: sends(OK, b"X-Many: y\r\n" * 6_000, times=800), "could not be reached"),
    "/endless-status": (lambda: sends(b"HTTP/1.1 200 ", b"O" * 65_536), "could not be reached"),
    "/endless-continue": (lambda: sends(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), LATE),
    "/redirect-with-body": (
        lambda: sends(
            b"HTTP/1.1 302 Found\r\nLocation: /plain\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 9_000
        ),
        "",
    ),
    "/nested": (lambda: answer(b"<div>" * 900_000, content_type="text/html"), "holds no text"),
    "/unclosed": (lambda: answer(b"<" * 1_000_000, content_type="text/html"), ""),
    "/attributes": (
        lambda: answer(b"<p " + b" ".join(b"a%d=1" % n for n in range(400_000)) + b">x</p>", content_type="text/html"),
        "takes more time or memory to parse",
    ),
    "/entities": (
        lambda: answer(
            b'<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "'
            + b"&a;" * 10_000
            + b'"><!ENTITY c "'
            + b"&b;" * 10_000
            + b'">]><html><body><p>&c;</p></body></html>',
            content_type="application/xhtml+xml",
        ),
        "",
    ),
    "/local-entity": (
        lambda: answer(
            b'<!DOCTYPE html [<!ENTITY f SYSTEM "file:///etc/passwd">]><html><body><p>Read: &f;</p></body></html>',
            content_type="application/xhtml+xml",
        ),
        "Read:",
    ),
}


def memory(figure: str) -> int:
    """Read a figure of this process's memory, in bytes."""
    found = re.search(rf"^{figure}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found.group(1)) << 10


def forget_most() -> int:
    """Reset the peak memory measurement; return the memory in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


async def watch(lag: list[float]) -> None:
    """Record how late the event loop was."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.005)
        lag.append(time.monotonic() - before - 0.005)


async def read(texts: PageTexts, host: str, path: str, total: float) -> dict[str, Any]:
    """Read a page within this many seconds; return how it ended and what it took."""
    fetcher = Fetcher(GuardedBackend(frozenset({host})), FetchLimits(total=timedelta(seconds=total)))
    lag, started = [0.0], time.monotonic()
    watching = asyncio.create_task(watch(lag))
    before = forget_most()
    try:
        said = (await texts.read(await fetcher.fetch(f"http://{host}{path}"))).text[:100]
    except FetchError as unreadable:
        said = str(unreadable)
    seconds = time.monotonic() - started
    watching.cancel()
    return {"said": said, "grown": memory("VmHWM") - before, "seconds": seconds, "lag": max(lag)}


@pytest.mark.nightly
async def test_page_bombs_do_no_harm() -> None:
    """Each ends in an error in time, within memory and event loop limits, and the next page is read."""
    harmless = {
        "/plain": answer(b"harmless " * 500_000),
        "/html": answer(b"<html><body><p>Harmless.</p></body></html>", content_type="text/html"),
        "/html?": answer(b"<html><body><p>Harmless still.</p></body></html>", content_type="text/html"),
    }

    seconds_by_path = {path: SHORT if says == LATE else LONG for path, (_, says) in BOMBS.items()}
    texts = PageTexts(parsing=timedelta(seconds=1))
    ended: dict[str, dict[str, Any]] = {}

    async with serve_pages() as server:
        server.pages = harmless | {path: bomb() for path, (bomb, _) in BOMBS.items()}
        for path, seconds in {"/plain": LONG, "/html": LONG, **seconds_by_path, "/html?": LONG}.items():
            ended[path] = await read(texts, server.host, path, seconds)
    await texts.close()

    assert ended["/html?"]["said"] == "Harmless still."
    assert {path: ended[path]["said"] for path, (_, says) in BOMBS.items() if says not in ended[path]["said"]} == {}
    assert {path: ended[path] for path in BOMBS if ended[path]["grown"] > MOST_GROWTH} == {}
    assert {path: ended[path] for path in BOMBS if ended[path]["seconds"] >= LONG} == {}
    assert {path: ended[path] for path in BOMBS if ended[path]["lag"] > MOST_LAG} == {}
    assert "root:" not in json.dumps(ended)
