"""Keep a worker running, and the embedded server together with what plug-ins serve: `up` and `worker`."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from chargehand.plugins import SETTING, Hook, installed, require_each
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.state import WorkerCommand
from chargehand_cli.embedded.user import EmbeddedServer
from chargehand_cli.location import Location
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import say
from chargehand_cli.verb import FILES, LOCAL, verb

app = typer.Typer()


@verb(app, location=LOCAL)
async def up(connection: Connection) -> None:
    """Run the embedded server and a worker until Ctrl-C."""
    await stay_up(connection)


@verb(app, location=FILES)
async def worker(
    connection: Connection,
    *,
    crews: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of crew files (CHARGEHAND_CREWS).", file_okay=False)
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Module with your tools; may be repeated (CHARGEHAND_PLUGINS)."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=64, help="Worker processes, one for each core (CHARGEHAND_PROCESSES)."),
    ] = None,
) -> None:
    """Run a worker with your crews and tools until Ctrl-C, by default with the embedded server."""
    location = connection.location
    program = location.require_worker("run")
    settings = {SETTING: ",".join(plugin)} if plugin else {}
    if processes:
        settings["CHARGEHAND_PROCESSES"] = str(processes)
    if crews:
        if not crews.is_dir():
            raise BadRequest(f"--crews: there is no folder {crews}.")
        settings["CHARGEHAND_CREWS"] = str(crews.absolute())
    program = replace(program, environment=program.environment | settings)
    if not location.is_embedded:
        _become(program, location)
    running = EmbeddedServer(location.state, None).note() if location.state.is_dir() else None
    if running and running.has_worker:
        raise BadRequest(
            f"Another command runs a worker in {location.state}, which may have other crews and tools. End it first, "
            "or name another --state-dir."
        )
    connection.location = replace(location, worker=program)
    await stay_up(connection)


async def stay_up(connection: Connection) -> None:
    """Keep the embedded server, its worker and the companions of plug-ins running until Ctrl-C."""
    await connection.open_with_worker()
    async with AsyncExitStack() as stack:
        announced: list[list[str]] = []
        for each in installed().hooks.get(Hook.BESIDE_UP, ()):
            with each.calling("companion of `up`"):
                beside = stack.enter_async_context(each.load_function()(connection))
                announced.append(require_each(str, await beside))
        say(connection.describe())
        await connection.say_resumed()
        say(f"Worker log: {connection.location.worker_log}")
        say(f"Sessions in the Web UI: {connection.sessions_url()}")
        for line in chain.from_iterable(announced):
            say(line)
        say("Ctrl-C shuts all of it down, unless another command uses it; running sessions resume the next time.")
        try:
            await connection.keep_running()
        except asyncio.CancelledError:
            say("Waiting for in-flight calls, then shutting down …")


def _become(program: WorkerCommand, location: Location) -> NoReturn:
    """Replace this process with the worker program, which receives its signals."""
    address = {"TEMPORAL_ADDRESS": location.address} if location.address else {}
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(program.command[0], program.command, os.environ | program.environment | address)  # noqa: S606  # no shell
    except OSError as error:
        raise BadRequest(f"The worker program {program.command[0]} cannot be started: {error.strerror}.") from error
