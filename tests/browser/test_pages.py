"""A report's page in a real browser asks for nothing, runs nothing and leads nowhere but to what was read."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from chargehand_cli.session_files import keep
from tests.browser.chromium import Tab
from tests.security.hostile_reports import HOSTILE, READ, hostile_report, hostile_trace

pytestmark = pytest.mark.browser

_PAGES: Final = 20
"""Each has every twentieth text; tests/security tries them one by one, on the page as it is written."""


@dataclass
class Collector:
    """Whoever would like to be asked for something."""

    host: str = ""
    connections: int = 0


@asynccontextmanager
async def open_collector() -> AsyncGenerator[Collector]:
    """Count every connection to an address on loopback, whether anything is asked over it or not."""
    collector = Collector()

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        collector.connections += 1
        writer.close()

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    collector.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield collector


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with open_collector() as opened:
        yield opened


def _aimed_at(collector: Collector, text: str) -> str:
    return text.replace("collector.example", collector.host)


async def test_a_page_asks_for_nothing_and_runs_nothing(tab: Tab, collector: Collector, tmp_path: Path) -> None:
    """Whatever strangers wrote into report and trace, opening the page asks only for the page, and no script speaks."""
    links: set[str] = set()
    for number in range(_PAGES):
        text = _aimed_at(collector, "\n\n".join(HOSTILE[number::_PAGES]))
        page = keep(tmp_path / str(number), hostile_report(text), hostile_trace(text)).page
        await tab.page.goto(page.as_uri())
        found: list[str] = await tab.page.evaluate("[...document.querySelectorAll('[href]')].map(a => a.href)")
        links |= {link.removeprefix(page.as_uri()).partition("#:~:text=")[0] for link in found}

    asked = [address for address in tab.requests if not address.endswith("/report.html")]
    assert asked == []
    assert len(tab.requests) == _PAGES
    assert collector.connections == 0
    assert tab.console == []
    assert links == {READ, "#S1"}


async def test_the_browser_would_tell(tab: Tab, collector: Collector, tmp_path: Path) -> None:
    """The same texts on a page that does not guard itself are asked for and do run: the test above can fail."""
    bare = tmp_path / "bare.html"
    bare.write_text("\n".join(_aimed_at(collector, text) for text in HOSTILE if "meta" not in text), encoding="utf-8")

    await tab.page.goto(bare.as_uri(), wait_until="commit")
    await tab.page.wait_for_load_state()

    assert [address for address in tab.requests if collector.host in address]
    assert collector.connections > 0
    assert "log: ran" in tab.console
