"""With encryption on, the Web UI shows nothing that was said, but to those who have the codec server's token."""

import base64
import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.acceptance.test_embedded_cli import process
from tests.browser.chromium import Tab
from tests.browser.web_ui import QUESTION, SessionPage, Shown, open_shown

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

ENCRYPTED: Final = {
    "CHARGEHAND_ENCRYPTION_KEYS": json.dumps({"one": base64.b64encode(bytes(range(32))).decode()}),
    "CHARGEHAND_ENCRYPTION_KEY_ID": "one",
}


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with open_shown(tmp_path_factory.mktemp("hidden"), **ENCRYPTED) as opened:
        yield opened


@contextmanager
def codec_server(state: Path) -> Generator[str]:
    """Run the one command; gives what it tells people to enter in the Web UI."""
    with process("codec-server", "--port", "0", here=None, CHARGEHAND_STATE_DIR=str(state), **ENCRYPTED) as server:
        assert server.stderr
        told = next(filter(None, (re.search(r"Web UI: .* (http\S+)$", line) for line in server.stderr)))
        yield told[1]


@pytest.fixture(scope="module")
def endpoint(hidden: Shown) -> Iterator[str]:
    with codec_server(hidden.state) as told:
        yield told


async def _everything(page: SessionPage) -> str:
    """Read the head of a session, its input and time line, and its summary and details."""
    await page.open()
    await page.page.get_by_text("open_session").locator("visible=true").first.wait_for()
    drawn: str = await page.page.locator("main").inner_text()
    await page.open("User Metadata")
    await page.read("current-details", until="No Current Details")
    return drawn + await page.page.locator("main").inner_text()


def _words_of_the_session(seen: str) -> list[str]:
    return re.findall("goal|valve|boiler|lamp|replaced|approval", seen, re.IGNORECASE)


async def test_without_the_codec_server_nothing_is_read(tab: Tab, hidden: Shown) -> None:
    """Neither goal nor plan is on the page of the session; and whoever started it was told how to see them."""
    page = SessionPage(tab, hidden.url)

    seen = await _everything(page)

    assert "RUNNING" in seen
    assert "No summary available" in seen
    assert _words_of_the_session(seen) == []
    assert "`chargehand codec-server`" in hidden.said


async def test_with_its_token_all_is_read(tab: Tab, hidden: Shown, endpoint: str) -> None:
    """What the one command says, entered where it says, shows the session as one that was never encrypted."""
    page = SessionPage(tab, hidden.url)

    await page.open()
    await page.set_codec(endpoint)
    await page.open("User Metadata")
    summary = await page.read("summary", until=QUESTION)
    details = await page.read("current-details", until="plan")

    assert summary == QUESTION
    assert details.startswith("awaiting approval turns: 1 of 20 ")
    assert await page.warnings() == []
    assert {urlsplit(each).netloc for each in tab.requests} == {urlsplit(hidden.url).netloc, urlsplit(endpoint).netloc}


async def test_with_another_token_nothing_is_read(tab: Tab, hidden: Shown, endpoint: str) -> None:
    """Who has to guess is shown what everybody is shown, and that the codec server did not answer."""
    page = SessionPage(tab, hidden.url)

    await page.open()
    await page.set_codec(f"{endpoint[:-4]}guess")
    seen = await _everything(page)

    assert _words_of_the_session(seen) == []
    assert await page.page.get_by_test_id("data-encoder-status-error").count() > 0
