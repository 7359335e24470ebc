"""Restarts of the console, the worker and the server, while a page, a follower and a terminal are open."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.harness import open_harness
from chargehand.contracts import SessionRequest, TurnEvent
from chargehand.session import Session
from chargehand_cli import live_session
from chargehand_cli.connection import Connection
from chargehand_cli.location import LocationOptions, find_location
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.server import serving
from chargehand_plugins.console.settings import ConsoleSettings
from chargehand_plugins.console.tests.conftest import TOKEN
from chargehand_plugins.console.tests.test_equal_figures import FiguresOnTerminal
from tests.browser.chromium import Tab
from tests.scripted_provider import ScriptedReply, ScriptedRequest, canned_session
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HEALED_SECONDS = 5.0
"""Maximum time to recover after the restarted part serves again."""


@dataclass
class Gate:
    """A provider that answers a call on request."""

    waiting: list[asyncio.Event] = field(default_factory=list[asyncio.Event])
    is_open: bool = False
    """Whether it answers every call at once."""

    async def respond(self, request: ScriptedRequest) -> ScriptedReply:
        released = asyncio.Event()
        if self.is_open:
            released.set()
        self.waiting.append(released)
        try:
            await released.wait()
        finally:
            if released in self.waiting:  # the caller has hung up
                self.waiting.remove(released)
        return canned_session(subtasks=1, rounds=5)(request)

    async def answer_one(self) -> None:
        await until(lambda: bool(self.waiting), HEALED_SECONDS)
        self.waiting.pop().set()


@dataclass
class Watchers:
    """The viewers of a session: a page in a browser, a follower and a terminal."""

    page: Any
    terminal: FiguresOnTerminal
    turns: int = 0
    """Turns that the follower has seen end."""

    async def follow(self, session: Session) -> None:
        async for event in session.follow():
            self.turns += isinstance(event, TurnEvent) and event.state == "completed"

    async def late(self, turns: int, typed: str) -> list[str]:
        """List the viewers that fail to show these turns, and the typed text, in time."""

        async def page() -> bool:
            is_live = await self.page.evaluate(
                "document.getElementById('stale').hidden && document.querySelector('#live .facts').textContent"
            )
            return f"{turns} of 20 turns" in (is_live or "") and await self.page.input_value("#message") == typed

        checks: dict[str, Callable[[], bool | Awaitable[bool]]] = {
            "page": page,
            "follower": lambda: self.turns == turns,
            "terminal": lambda: self.terminal.shown[0] == turns,
        }

        async def is_late(check: Callable[[], bool | Awaitable[bool]]) -> bool:
            try:
                await until(check, HEALED_SECONDS)
            except TimeoutError:
                return True
            return False

        found = await asyncio.gather(*map(is_late, checks.values()))
        return [name for name, late in zip(checks, found, strict=True) if late]


async def test_page_follower_and_terminal_recover_from_restarts_in_5_seconds(
    tmp_path: Path, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a console, worker or server restart each shows the next turn, and typed text is kept."""
    gate, page = Gate(), tab.page
    async with (
        open_harness(tmp_path, gate.respond) as harness,
        asyncio.TaskGroup() as tasks,
        AsyncExitStack() as served,
    ):
        worker, chargehand = await harness.worker(), harness.chargehand
        backend = Backend(lambda: chargehand, str(tmp_path / "artifacts"))
        console = await served.enter_async_context(serving(backend, ConsoleSettings(TOKEN, port=0)))

        async def restart_console() -> None:
            await served.aclose()
            await served.enter_async_context(serving(backend, ConsoleSettings(TOKEN, port=console.port)))

        async def restart_worker() -> None:
            await worker.restart()
            await harness.polled(worker)

        async def restart_server() -> None:
            harness.kill_server()
            await asyncio.to_thread(harness.start_server)

        await page.goto(console.sign_in_link())
        await page.wait_for_url(f"{console.url}/")
        session = await chargehand.start(SessionRequest(goal="Look into all of the matter.", review="never"))
        await page.goto(f"{console.url}/sessions/{session.id}")
        watchers = Watchers(page, FiguresOnTerminal(write=lambda _: None))
        monkeypatch.setattr(live_session, "choose_progress", watchers.terminal.chosen)
        options = LocationOptions(address=harness.server.address, task_queue=chargehand.task_queue)
        connection = Connection(find_location(options, {}, tmp_path, here=tmp_path, project=tmp_path))
        await connection.open(worker=False)
        tasks.create_task(watchers.follow(session))
        tasks.create_task(live_session.follow(connection, session.id, quiet=False))
        await gate.answer_one()
        assert await watchers.late(1, "") == []
        await page.fill("#message", "Half a sentence")

        for turns, restart in enumerate((restart_console, restart_worker, restart_server), start=2):
            await restart()
            healing = asyncio.create_task(watchers.late(turns, "Half a sentence"))
            await gate.answer_one()
            assert (restart.__name__, await healing) == (restart.__name__, [])

        gate.is_open = True
        await gate.answer_one()
        await page.wait_for_selector("#live .answer")
