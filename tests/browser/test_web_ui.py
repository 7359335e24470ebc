"""A session in the embedded server's Web UI: opened through `chargehand`'s link, and with encryption on."""

import base64
import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest

from tests.acceptance.test_embedded_cli import process, read_until, write_documents
from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser

QUESTION: Final = "How often is the valve of a boiler tested, and when is a lamp replaced?"


@dataclass(frozen=True)
class Shown:
    """A session on an embedded server, and what `chargehand start` said of it."""

    state: Path
    said: str

    @property
    def url(self) -> str:
        """Its page in the Web UI, from the link that the user is shown."""
        found = re.search(r"Session shown: (\S+)", self.said)
        assert found, self.said
        return found[1]


@contextmanager
def open_shown(folder: Path, **settings: str) -> Generator[Shown]:
    """Keep an embedded server and its worker up, with a session that waits until its plan is approved."""
    state = folder / "state"
    documents = write_documents(folder / "notes")
    with process("up", "--state-dir", state, here=None, **settings) as up:
        read_until(up, "Embedded Temporal server at")
        begin = ("start", "--state-dir", state, "--docs", documents, "--approve-plan", "--id", "shown", QUESTION)
        with process(*begin, here=None, **settings) as start:
            _, said = start.communicate(timeout=60)
        yield Shown(state, said)


class SessionPage:
    """The page of one workflow."""

    def __init__(self, tab: Tab, url: str) -> None:
        self._url = url
        self.page = tab.page

    async def open(self, pane: str = "Timeline") -> None:
        """Go to the page, and to one of its panes."""
        await self.page.goto(self._url)
        await self.page.get_by_role("tab", name=pane).click()

    async def read(self, part: Literal["summary", "details", "current-details"], until: str = "") -> str:
        """Read the text of one of the page's frames, once it contains the given text."""
        body = self.page.frame_locator(f"iframe#user-metadata-{part}").locator("body", has_text=until)
        return " ".join((await body.inner_text()).split())

    async def becomes(self, status: str) -> None:
        """Wait until the page shows this state."""
        await self._visible("[data-testid=execution-status]", status).wait_for()

    async def warnings(self) -> list[str]:
        """Read all banners and pop-ups."""
        said: list[str] = await self.page.get_by_role("alert").all_inner_texts()
        return [words.strip() for words in said if words.strip()]

    async def set_codec(self, endpoint: str) -> None:
        """Enter the address of a codec server behind the glasses icon at the top."""
        await self._visible("[data-testid^=data-encoder-status]").click()
        await self.page.get_by_test_id("use-local-endpoint-input").locator("visible=true").check(force=True)
        await self._visible("#data-encoder-endpoint-input").fill(endpoint)
        dialogue = self.page.get_by_role("dialog")
        await dialogue.get_by_role("button", name="Apply", exact=True).click()
        await dialogue.wait_for(state="hidden")

    def _visible(self, selector: str, text: str = "") -> Any:
        return self.page.locator(selector, has_text=text).locator("visible=true").first


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with open_shown(tmp_path_factory.mktemp("shown")) as opened:
        yield opened


async def test_the_web_ui_shows_a_waiting_session_clearly(tab: Tab, shown: Shown) -> None:
    """The summary is the goal; the details list state, turns, cost and plan, without warnings or outside requests."""
    page = SessionPage(tab, shown.url)

    await page.open("User Metadata")
    summary = await page.read("summary", until=QUESTION)
    details = await page.read("current-details", until="plan")

    assert summary == QUESTION
    head = "awaiting approval, as of NOW UTC turns: 1 of 20 US dollars: 0.0000 of 2.00 spent, 0.0000 reserved plan"
    assert MOMENT.sub("NOW", details).startswith(f"{head} ")
    assert "T1 reader · waiting · " in details
    assert await page.warnings() == []
    assert tab.console == []
    assert {urlsplit(address).netloc for address in tab.requests} == {urlsplit(shown.url).netloc}


@pytest.mark.nightly
async def test_the_web_ui_shows_a_finished_session_clearly(tab: Tab, shown: Shown) -> None:
    """The timeline names who did what in each step, and the report can be read."""
    where = ("--state-dir", shown.state)
    with process("plan", *where, "shown", "--approve") as approve:
        approve.communicate(timeout=60)
    with process("result", *where, "shown") as result:
        result.communicate(timeout=60)
    page = SessionPage(tab, shown.url)

    await page.open()
    await page.becomes("Completed")
    drawn: str = await page.page.locator("main").inner_text()
    await page.open("User Metadata")
    details = await page.read("current-details", until="answered")

    for words in ("supervisor: plan", "supervisor: review", "T1 reader: Quote"):
        assert words in drawn
    assert "is tested every six months." in drawn
    assert details.startswith("answered in part, as of ")
    assert await page.warnings() == []
    assert tab.console == []


MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
ENCRYPTED: Final = {
    "CHARGEHAND_ENCRYPTION_KEYS": json.dumps({"one": base64.b64encode(bytes(range(32))).decode()}),
    "CHARGEHAND_ENCRYPTION_KEY_ID": "one",
}


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with open_shown(tmp_path_factory.mktemp("hidden"), **ENCRYPTED) as opened:
        yield opened


@pytest.fixture(scope="module")
def endpoint(hidden: Shown) -> Iterator[str]:
    """The address that the codec server tells people to enter in the Web UI."""
    settings = {"CHARGEHAND_STATE_DIR": str(hidden.state), **ENCRYPTED}
    with process("codec-server", "--port", "0", here=None, **settings) as server:
        assert server.stderr
        told = next(filter(None, (re.search(r"Web UI: .* (http\S+)$", line) for line in server.stderr)))
        yield told[1]


async def _everything(page: SessionPage) -> str:
    """Read the head of a session, its input and time line, and its summary and details."""
    await page.open()
    await page.page.get_by_text("open_session").locator("visible=true").first.wait_for()
    drawn: str = await page.page.locator("main").inner_text()
    await page.open("User Metadata")
    await page.read("current-details", until="No Current Details")
    return drawn + await page.page.locator("main").inner_text()


@pytest.mark.nightly
async def test_the_web_ui_decrypts_a_session_with_the_codec_server_token(
    tab: Tab, hidden: Shown, endpoint: str
) -> None:
    """The endpoint that `codec-server` prints shows an encrypted session in plain text."""
    page = SessionPage(tab, hidden.url)

    await page.open()
    await page.set_codec(endpoint)
    await page.open("User Metadata")
    summary = await page.read("summary", until=QUESTION)
    details = await page.read("current-details", until="plan")

    assert summary == QUESTION
    assert MOMENT.sub("NOW", details).startswith("awaiting approval, as of NOW UTC turns: 1 of 20 ")
    assert await page.warnings() == []
    assert {urlsplit(each).netloc for each in tab.requests} == {urlsplit(hidden.url).netloc, urlsplit(endpoint).netloc}


@pytest.mark.nightly
async def test_the_web_ui_decrypts_nothing_with_a_wrong_token(tab: Tab, hidden: Shown, endpoint: str) -> None:
    """Neither goal nor plan is visible; the command that started the session names `chargehand codec-server`."""
    page = SessionPage(tab, hidden.url)

    await page.open()
    await page.set_codec(f"{endpoint[:-4]}guess")
    seen = await _everything(page)

    assert re.findall("goal|valve|boiler|lamp|replaced|approval", seen, re.IGNORECASE) == []
    assert "RUNNING" in seen
    assert "No summary available" in seen
    assert "`chargehand codec-server`" in hidden.said
    assert await page.page.get_by_test_id("data-encoder-status-error").count() > 0
