"""Temporal's Web UI as people use it, and an embedded server that shows a session in it."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tests.acceptance.test_embedded_cli import process, read_until, write_documents
from tests.browser.chromium import Tab

QUESTION: Final = "How often is the valve of a boiler tested, and when is a lamp replaced?"


@dataclass(frozen=True)
class Shown:
    """A session on an embedded server, and what `chargehand start` said of it."""

    state: Path
    said: str

    @property
    def url(self) -> str:
        """Its page in the Web UI, as the user is told it."""
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
        """Read what is drawn in a frame of its own, once it says something."""
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
        """Enter the address of a codec server, under the glasses at the top."""
        await self._visible("[data-testid^=data-encoder-status]").click()
        await self.page.get_by_test_id("use-local-endpoint-input").locator("visible=true").check(force=True)
        await self._visible("#data-encoder-endpoint-input").fill(endpoint)
        dialogue = self.page.get_by_role("dialog")
        await dialogue.get_by_role("button", name="Apply", exact=True).click()
        await dialogue.wait_for(state="hidden")

    def _visible(self, selector: str, text: str = "") -> Any:
        return self.page.locator(selector, has_text=text).locator("visible=true").first
