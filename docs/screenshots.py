"""Take the pictures in images/, by `make docs-images`: taped, scripted and example sessions, in Chromium."""

import asyncio
import io
import re
import tempfile
from pathlib import Path
from typing import Final, Literal

from PIL import Image

from chargehand.contracts import SessionRequest
from chargehand_plugins.console.tests.conftest import open_console
from tests.acceptance.test_embedded_cli import process
from tests.browser.chromium import Tab, open_chromium
from tests.conftest import local_server
from tests.scripted_model import Held, Script, answer, request_tool, subtask

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs" / "images"
QUESTION: Final = (ROOT / "examples" / "question.txt").read_text(encoding="utf-8").strip()
DOCUMENTS: Final = ROOT / "examples" / "harbour-ferries"
TAPE: Final = ROOT / "examples" / "tapes" / "engine-faults.jsonl"

_MOST_BYTES: Final = 200_000
_NESTED: Final = "Find out how engine faults are prevented, and whether that is done."
_PHONE: Final = 390
"""Pixels of width."""


async def main() -> None:
    """Run both sessions in a state directory of their own, and take all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        _run("tape", "replay", "--state-dir", state, "--id", "engine-faults", TAPE)
        taped = state / "sessions" / "engine-faults"
        with process("up", "--state-dir", state, CHARGEHAND_CONSOLE_PORT="0") as up:
            assert up.stderr
            sign_in = next(_found(r"Console: (\S+)", line) for line in up.stderr if "Console: " in line)
            request = ("--id", "ferries", "--docs", DOCUMENTS, "--approve-plan", QUESTION)
            started = _run("start", "--state-dir", state, *request)
            web_ui = _found(r"Session ferries: (\S+)", started).replace("/ferries", f"/{taped.name}")
            async with open_chromium() as chromium, chromium.tab() as tab:
                await _take_running(tab, Path(folder))
                await _open(tab, (taped / "report.html").as_uri(), "main")
                await _take(tab, "report")
                await _open(tab, sign_in, "#goal")
                sessions = f"{tab.page.url}sessions"
                await _open(tab, f"{sessions}/ferries", "text=The plan awaits your approval")
                await _take(tab, "console")
                await _take(tab, "console-phone", width=_PHONE)
                await _open(tab, f"{sessions}/{taped.name}", "#live .answer")
                await _take(tab, "console-dark", scheme="dark")
                await _take(tab, "console-phone-dark", width=_PHONE, scheme="dark")
                await _window(tab)
                await _open(tab, web_ui, "text=supervisor: plan")
                await tab.page.get_by_text("supervisor: synthesis").first.scroll_into_view_if_needed()
                await _take(tab, "web-ui")


async def _take_running(tab: Tab, folder: Path) -> None:
    """Show a session in which two agents are held at work, one of them in a nested session."""
    held = Held(answer("Known."))
    script = (
        Script()
        .plan(
            subtask("T1", "analyst", instruction="Count the minutes lost to engine faults in 2025, by vessel."),
            subtask("T2", "supervisor", instruction=_NESTED),
            subtask("T3", "reader", instruction="List the vessels and their engines."),
            subtask("T4", "analyst", ["T1", "T3"], instruction="Compare the vessels by the age of their engines."),
        )
        .plan(
            subtask("T1", "reader", instruction="Quote what the manual says about preventing engine faults."),
            subtask("T2", "reader", ["T1"], instruction="Check it against the reports of the workshop."),
            goal=_NESTED,
        )
        .work("minutes lost", request_tool("query_data", table="outages-2025", group_by="vessel"), held)
        .work("manual", request_tool("search_documents", query="preventing engine faults"), held)
    )
    async with local_server() as client, open_console(client, folder, script) as console:
        session = await console.environment.chargehand.start(SessionRequest(goal=QUESTION))
        await _open(tab, console.running.sign_in_link(), "#goal")
        await _open(tab, f"{console.running.url}/sessions/{session.id}", "#live")
        for subtask_id in ("T1", "T2"):
            at_work = f".subtask:has(> div > strong:text-is('{subtask_id}')) .now:has-text('turn 2')"
            await tab.page.wait_for_selector(at_work)
        await session.tell(text="Leave out the days in the dock.")
        await tab.page.wait_for_selector("text=not read yet")
        await _take(tab, "console-running")
        await _take(tab, "console-running-phone-dark", width=_PHONE, scheme="dark")


async def _open(tab: Tab, url: str, selector: str) -> None:
    await tab.page.goto(url)
    await tab.page.wait_for_selector(selector)


async def _window(tab: Tab, width: int = 1280, scheme: Literal["light", "dark"] = "light") -> None:
    await tab.page.set_viewport_size({"width": width, "height": 860})
    await tab.page.emulate_media(color_scheme=scheme)


async def _take(tab: Tab, name: str, *, width: int = 1280, scheme: Literal["light", "dark"] = "light") -> None:
    """Save what the window shows, with as few colours as make it small."""
    await _window(tab, width, scheme)
    picture = Image.open(io.BytesIO(await tab.page.screenshot())).convert("RGB").quantize(128)
    path = IMAGES / f"{name}.png"
    picture.save(path, optimize=True)
    assert path.stat().st_size < _MOST_BYTES, f"{path} is too large"


def _found(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    assert found, said
    return found[1]


def _run(*arguments: str | Path) -> str:
    with process(*arguments) as running:
        _, said = running.communicate(timeout=120)
    assert running.returncode in {0, 3}, said
    return said


if __name__ == "__main__":
    asyncio.run(main())
