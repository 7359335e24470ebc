"""An installed Chromium driven by Playwright, which is optional and therefore imported only here, when needed."""

import importlib
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    "--no-sandbox",  # it runs as root in continuous integration
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_PATIENCE_MS: Final = 60_000


@dataclass
class Tab:
    """A page in a separate profile, with its requests and messages."""

    page: Any
    """Playwright's `Page`; untyped, since its types are installed with it."""
    requests: list[str] = field(default_factory=list[str])
    """Every requested address, whatever the result."""
    console: list[str] = field(default_factory=list[str])
    """Script output, browser warnings and uncaught exceptions."""

    def note_request(self, request: Any) -> None:
        self.requests.append(request.url)

    def note_message(self, message: Any) -> None:
        self.console.append(f"{message.type}: {message.text}")

    def note_exception(self, error: Any) -> None:
        self.console.append(f"exception: {error}")


async def accessibility_problems(page: Any) -> list[str]:
    """List what axe finds on a page that may run scripts: by WCAG 2.2 AA and best practices, one per element."""
    axe = cast("Any", importlib.import_module("axe_playwright_python.async_playwright")).Axe()
    found = (await axe.run(page)).response["violations"]
    return [f"{rule['id']}: {node['html']}" for rule in found for node in rule["nodes"]]


class Chromium:
    """A running browser."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @asynccontextmanager
    async def tab(self, *, scripts: bool = True) -> AsyncGenerator[Tab]:
        """Open a page in a new profile."""
        context = await self._browser.new_context(viewport={"width": 1500, "height": 1300}, java_script_enabled=scripts)
        context.set_default_timeout(_PATIENCE_MS)
        tab = Tab(await context.new_page())
        tab.page.on("request", tab.note_request)
        tab.page.on("console", tab.note_message)
        tab.page.on("pageerror", tab.note_exception)
        try:
            yield tab
        finally:
            await context.close()


@asynccontextmanager
async def open_chromium() -> AsyncGenerator[Chromium]:
    """Start the browser that is on the PATH.

    Raises:
        FileNotFoundError: there is none.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        raise FileNotFoundError("No Chromium is on the PATH; on Debian: apt install chromium")
    playwright = cast("Any", importlib.import_module("playwright.async_api"))
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield Chromium(browser)
        finally:
            await browser.close()
