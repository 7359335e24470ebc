"""The command line as processes of its own, on a server of the tests."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    said: str


class Commands:
    """Runs commands with a server's address and further options, and with settings in their environment."""

    def __init__(self, client: Client, *options: str | Path, **settings: str) -> None:
        address = client.service_client.config.target_host
        self._options = ("--address", address, *map(str, options))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CHARGEHAND_", "TEMPORAL_"))}
        own = {"XDG_CONFIG_HOME": "/nonexistent"}
        self._environment = kept | own | {"TERM": "xterm", "COLUMNS": "200"} | settings

    async def __call__(self, command: str, *arguments: str | Path) -> Ran:
        running = await self.begin(command, *arguments)
        out, said = await asyncio.wait_for(running.communicate(), 60)
        return Ran(running.returncode or 0, out.decode(), said.decode())

    async def begin(
        self, command: str, *arguments: str | Path, terminal: int | None = None
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "chargehand_cli.main", command, *map(str, arguments), *self._options),
            stdin=asyncio.subprocess.DEVNULL if terminal is None else terminal,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if terminal is None else terminal,
            env=self._environment,
        )
