"""CLI commands, run in this process or as processes, optionally at a terminal that a test types into."""

import asyncio
import io
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from unittest.mock import patch

from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand_cli import terminal
from chargehand_cli.main import execute
from chargehand_cli.terminal import Exit

_NOT_KEPT = ("CHARGEHAND_", "TEMPORAL_", "ANTHROPIC_", "OPENAI_", "TAVILY_", "E2B_")


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    said: str


def command_environment(**settings: str) -> dict[str, str]:
    """Return this environment without the settings, keys and profiles of the user, plus these settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_KEPT)}
    return kept | {"XDG_CONFIG_HOME": "/nonexistent", "TERM": "xterm", "COLUMNS": "200"} | settings


def run_command(arguments: Sequence[str | Path], environment: Mapping[str, str], given: str = "") -> Ran:
    """Run a command in this process, which saves the imports; only where no event loop runs."""
    out, said = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment, clear=True),
        patch.object(sys, "stdin", io.StringIO(given)),
        redirect_stdout(out),
        redirect_stderr(said),
    ):
        code = execute([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), said.getvalue())


class Commands:
    """Runs commands with a server's address and further options, and with settings."""

    _ONE_AT_A_TIME = Lock()

    def __init__(self, client: Client, *options: str | Path, **settings: str) -> None:
        self._options = ("--address", client.service_client.config.target_host, *options)
        self._environment = command_environment(**settings)

    @classmethod
    def of(cls, chargehand: Chargehand, state: Path) -> "Commands":
        """Run commands on a server and a task queue, with a state directory."""
        return cls(chargehand.client, "--task-queue", chargehand.task_queue, "--state-dir", state)

    async def __call__(self, command: str, *arguments: str | Path, given: str = "") -> Ran:
        """Run a command in this process alongside the event loop of the tests; signals do not reach it."""

        def run() -> Ran:
            with self._ONE_AT_A_TIME, patch.object(terminal, "_cancel_on_signal", _go_on):
                return run_command([command, *arguments, *self._options], self._environment, given)

        return await asyncio.to_thread(run)

    async def begin(
        self, command: str, *arguments: str | Path, tty: int | None = None, screen: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        """Start a command as a process, at a terminal or without one."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "chargehand_cli.main", command, *map(str, arguments), *map(str, self._options)),
            stdin=asyncio.subprocess.DEVNULL if tty is None else tty,
            stdout=screen,
            stderr=asyncio.subprocess.PIPE if tty is None else tty,
            env=self._environment,
        )


async def _go_on(work: Awaitable[Exit]) -> Exit:
    return await work


@dataclass(frozen=True)
class Terminal:
    """A terminal with one side for the test and one for the command."""

    ours: int
    theirs: int

    async def read_until(self, words: str) -> str:
        """Read until the terminal shows these words."""
        seen = ""
        async with asyncio.timeout(120):
            while words not in seen:
                seen += (await asyncio.to_thread(os.read, self.ours, 4_096)).decode(errors="replace")
        return seen

    def type(self, line: str) -> None:
        os.write(self.ours, f"{line}\n".encode())

    async def end_of(self, running: asyncio.subprocess.Process) -> bytes:
        """Wait for a command to end, discarding what it still shows; return its standard output."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.ours, lambda: os.read(self.ours, 4_096))
        try:
            out, _ = await running.communicate()
        finally:
            loop.remove_reader(self.ours)
        return out
