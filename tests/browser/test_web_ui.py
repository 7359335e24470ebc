"""A session in the Web UI of the embedded server, as `chargehand` leads people to it."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.acceptance.test_embedded_cli import process
from tests.browser.chromium import Tab
from tests.browser.web_ui import QUESTION, SessionPage, Shown, open_shown

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with open_shown(tmp_path_factory.mktemp("shown")) as opened:
        yield opened


async def test_a_session_that_waits_reads_well(tab: Tab, shown: Shown) -> None:
    """The goal as summary, state, turns, money and the plan as details; no banner, no error, no request elsewhere."""
    page = SessionPage(tab, shown.url)

    await page.open("User Metadata")
    summary = await page.read("summary", until=QUESTION)
    details = await page.read("current-details", until="plan")

    assert summary == QUESTION
    head = "awaiting approval turns: 1 of 20 US dollars: 0.0000 of 2.00 spent, 0.0000 reserved plan"
    assert details.startswith(f"{head} ")
    assert "T1 reader · waiting · " in details
    assert await page.warnings() == []
    assert tab.console == []
    assert {urlsplit(address).netloc for address in tab.requests} == {urlsplit(shown.url).netloc}


@pytest.mark.nightly
async def test_a_session_that_has_ended_reads_well(tab: Tab, shown: Shown) -> None:
    """Each step of it says in the time line who did what, and the report is there to be read."""
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
    details = await page.read("current-details", until="finished")

    for words in ("supervisor: plan", "supervisor: review", "T1 reader: Quote"):
        assert words in drawn
    assert "is tested every six months." in drawn
    assert details.startswith("finished ")
    assert await page.warnings() == []
    assert tab.console == []
