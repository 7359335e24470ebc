"""Keep the embedded server and a worker running, with what plug-ins serve beside them: `up`."""

import asyncio
from contextlib import AsyncExitStack
from itertools import chain

import typer

from chargehand.plugins import Hook, installed
from chargehand_cli.connection import Connection
from chargehand_cli.resumed_sessions import resumed_lines
from chargehand_cli.terminal import say
from chargehand_cli.verb import LOCAL, verb

app = typer.Typer()


@verb(app, location=LOCAL)
async def up(connection: Connection) -> None:
    """Run the embedded server and a worker until Ctrl-C."""
    await stay_up(connection)


async def stay_up(connection: Connection) -> None:
    """Keep the embedded server, its worker and the companions of plug-ins running until Ctrl-C."""
    await connection.open()
    async with AsyncExitStack() as stack:
        companions = installed().functions(Hook.BESIDE_UP)
        announced = [await stack.enter_async_context(companion(connection)) for companion in companions]
        say(connection.describe())
        for line in await resumed_lines(connection):
            say(line)
        say(f"Worker log: {connection.location.worker_log}")
        say(f"Sessions in the Web UI: {connection.sessions_url()}")
        for line in chain.from_iterable(announced):
            say(line)
        say("Ctrl-C shuts all of it down, unless another command uses it; running sessions resume the next time.")
        try:
            await keep_running(connection)
        except asyncio.CancelledError:
            say("Waiting for in-flight calls, then shutting down …")


async def keep_running(connection: Connection) -> None:
    """Start the embedded server again whenever it ends, until the task is cancelled.

    Raises:
        NotReachable: the embedded worker exits repeatedly, or its settings are invalid.
    """
    while True:
        await asyncio.sleep(1)
        await connection.mend()
        connection.check_worker()
