"""Restarts of the console, the worker and the server, while a page, a follower and a terminal are open."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.service import RPCError

from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest, Status, TurnEvent
from chargehand.session import Session
from chargehand.visibility import pollers
from chargehand_cli import live_session
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.server import ServerProcess, end_process, start_server
from chargehand_cli.embedded.user import find_temporal
from chargehand_cli.live_tree import Lines
from chargehand_cli.location import LocationOptions, find_location
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.server import RunningConsole, serving
from chargehand_plugins.console.settings import ConsoleSettings
from chargehand_plugins.console.tests.conftest import TOKEN
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.browser.chromium import Tab
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, canned_session
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HEALED_SECONDS = 5.0
"""After what was restarted serves again."""


@dataclass
class Terminal(Lines):
    """Keeps how many turns the live tree shows."""

    turns: int = 0

    def chosen(self, *_: object, **__: object) -> "Terminal":
        return self

    def update(self, status: Status) -> None:
        self.turns = status.turns

    def remark(self, text: str) -> None: ...


@dataclass
class Gate:
    """A provider that answers a call when it is told to."""

    waiting: list[asyncio.Event] = field(default_factory=list[asyncio.Event])
    is_open: bool = False
    """Whether it answers all."""

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


class Deployment:
    """A server, a worker and a console, each of which can be restarted."""

    def __init__(self, folder: Path, lock: int, provider: ScriptedProvider) -> None:
        self._folder, self._lock, self._provider = folder, lock, provider
        self._parts = AsyncExitStack()
        self._worker = AsyncExitStack()
        self._console = AsyncExitStack()

    async def _start_server(self, prefer: int = 0) -> None:
        start = partial(start_server, lock_descriptor=self._lock, prefer=prefer)
        self.server: ServerProcess = await asyncio.to_thread(
            start, find_temporal(), self._folder / "temporal.db", self._folder / "server.log"
        )

    async def start(self) -> None:
        await self._start_server()
        self.chargehand = await Chargehand.connect(self.server.address)
        self.settings = settings("openai_compatible", self._provider.base_url, self.chargehand.client, self._folder)
        self.chargehand.task_queue = self.settings["CHARGEHAND_TASK_QUEUE"]
        self.backend = Backend(lambda: self.chargehand, str(self._folder / "artifacts"))
        await self._start_worker()
        await self._start_console()

    async def stop(self) -> None:
        await self._console.aclose()
        await self._worker.aclose()
        end_process(self.server.process, grace_seconds=5)

    async def restart_server(self) -> None:
        """Kill the server and start it again where it was."""
        os.killpg(self.server.process.pid, signal.SIGKILL)
        self.server.process.wait()
        await until(self._is_away)
        await self._start_server(self.server.port)

    async def restart_worker(self) -> None:
        """Kill the worker and start another."""
        await self._worker.aclose()
        await self._start_worker()

    async def restart_console(self) -> None:
        """Stop the console and start it on the same port."""
        await self._console.aclose()
        await self._start_console(self.console.port)

    async def _start_worker(self) -> None:
        began_at = datetime.now(UTC)
        await self._worker.enter_async_context(worker_process(self.settings))
        client, queue = self.chargehand.client, self.chargehand.task_queue

        async def polls() -> bool:
            return bool(await pollers(client, queue, since=began_at))

        await until(polls, 60)

    async def _start_console(self, port: int = 0) -> None:
        self.console: RunningConsole = await self._console.enter_async_context(
            serving(self.backend, ConsoleSettings(TOKEN, port=port))
        )

    async def _is_away(self) -> bool:
        try:
            await self.chargehand.client.workflow_service.get_system_info(GetSystemInfoRequest())
        except RPCError:
            return True
        return False


@asynccontextmanager
async def deployed(folder: Path, gate: Gate) -> AsyncGenerator[Deployment]:
    async with ScriptedProvider(gate.respond) as provider:
        with (folder / "server.lock").open("w") as lock:
            deployment = Deployment(folder, lock.fileno(), provider)
            try:
                await deployment.start()
                yield deployment
            finally:
                await deployment.stop()


@dataclass
class Watchers:
    """What shows the session: a page in a browser, a follower, a terminal."""

    page: Any
    terminal: Terminal
    turns: int = 0
    """Turns that the follower has seen end."""

    async def follow(self, session: Session) -> None:
        async for event in session.follow():
            self.turns += isinstance(event, TurnEvent) and event.state == "completed"

    async def late(self, turns: int, typed: str) -> list[str]:
        """List what does not show these turns, and what was typed, in time."""

        async def page() -> bool:
            is_live = await self.page.evaluate(
                "document.getElementById('stale').hidden && document.querySelector('#live .facts').textContent"
            )
            return f"{turns} of 20 turns" in (is_live or "") and await self.page.input_value("#message") == typed

        checks: dict[str, Callable[[], bool | Awaitable[bool]]] = {
            "page": page,
            "follower": lambda: self.turns == turns,
            "terminal": lambda: self.terminal.turns == turns,
        }

        async def is_late(check: Callable[[], bool | Awaitable[bool]]) -> bool:
            try:
                await until(check, HEALED_SECONDS)
            except TimeoutError:
                return True
            return False

        found = await asyncio.gather(*map(is_late, checks.values()))
        return [name for name, late in zip(checks, found, strict=True) if late]


async def test_restarts_heal_within_five_seconds(tmp_path: Path, tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the console, the worker or the server serves again, page, follower and terminal show the next turn; what
    was typed stands, and nobody signs in again."""
    gate, page = Gate(), tab.page
    async with deployed(tmp_path, gate) as deployment, asyncio.TaskGroup() as tasks:
        await page.goto(deployment.console.sign_in_link())
        await page.wait_for_url(f"{deployment.console.url}/")
        session = await deployment.chargehand.start(SessionRequest(goal="Look into all of the matter.", review="never"))
        await page.goto(f"{deployment.console.url}/sessions/{session.id}")
        watchers = Watchers(page, Terminal())
        monkeypatch.setattr(live_session, "choose_progress", watchers.terminal.chosen)
        options = LocationOptions(address=deployment.server.address, task_queue=deployment.chargehand.task_queue)
        connection = Connection(find_location(options, {}, tmp_path, here=tmp_path, project=tmp_path))
        await connection.open(worker=False)
        tasks.create_task(watchers.follow(session))
        tasks.create_task(live_session.follow(connection, session.id, quiet=False))
        await gate.answer_one()
        assert await watchers.late(1, "") == []
        await page.fill("#message", "Half a sentence")

        restarts = (deployment.restart_console, deployment.restart_worker, deployment.restart_server)
        for turns, restart in enumerate(restarts, start=2):
            await restart()
            healing = asyncio.create_task(watchers.late(turns, "Half a sentence"))
            await gate.answer_one()
            assert (restart.__name__, await healing) == (restart.__name__, [])

        gate.is_open = True
        await gate.answer_one()
        await page.wait_for_selector("#live .answer")
