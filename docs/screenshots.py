"""Take the pictures in images/, by `make docs-images`: a taped session and the example question, in Chromium."""

import asyncio
import io
import re
import tempfile
from pathlib import Path
from typing import Final, Literal

from PIL import Image

from tests.acceptance.test_embedded_cli import process
from tests.browser.chromium import Tab, open_chromium

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs" / "images"
QUESTION: Final = (ROOT / "examples" / "question.txt").read_text(encoding="utf-8").strip()
DOCUMENTS: Final = ROOT / "examples" / "harbour-ferries"
TAPE: Final = ROOT / "examples" / "tapes" / "engine-faults.jsonl"

_MOST_BYTES: Final = 200_000
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
