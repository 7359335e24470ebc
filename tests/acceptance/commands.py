"""Commands of the command line, in this process or as processes of their own."""

import asyncio
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from temporalio.client import Client

from chargehand_cli.main import execute

_NOT_KEPT = ("CHARGEHAND_", "TEMPORAL_", "ANTHROPIC_", "OPENAI_", "TAVILY_", "E2B_")


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    said: str


def command_environment(**settings: str) -> dict[str, str]:
    """Return this environment without the settings, keys and profiles of whoever runs the tests, and with these."""
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
    """Runs commands as processes, with a server's address and further options, and with settings."""

    def __init__(self, client: Client, *options: str | Path, **settings: str) -> None:
        self._options = ("--address", client.service_client.config.target_host, *options)
        self._environment = command_environment(**settings)

    async def __call__(self, command: str, *arguments: str | Path) -> Ran:
        running = await self.begin(command, *arguments)
        out, said = await asyncio.wait_for(running.communicate(), 60)
        return Ran(running.returncode or 0, out.decode(), said.decode())

    async def begin(
        self, command: str, *arguments: str | Path, terminal: int | None = None
    ) -> asyncio.subprocess.Process:
        """Start a command, at a terminal or without one."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "chargehand_cli.main", command, *map(str, arguments), *map(str, self._options)),
            stdin=asyncio.subprocess.DEVNULL if terminal is None else terminal,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if terminal is None else terminal,
            env=self._environment,
        )
