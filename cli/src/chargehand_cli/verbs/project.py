"""Make crews and tools of one's own, and run a worker with them: `init` and `worker`."""

import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from chargehand.errors import MissingExtra
from chargehand.plugins import SETTING
from chargehand_cli.connection import Connection
from chargehand_cli.embedded import EmbeddedServer, WorkerCommand
from chargehand_cli.location import Location
from chargehand_cli.request import BadRequest
from chargehand_cli.terminal import put, say
from chargehand_cli.verb import FILES, verb
from chargehand_cli.verbs.up import stay_up

app = typer.Typer()

_WORKER: Final = "chargehand_worker"


@verb(app, location=())
async def init(
    connection: Connection,  # noqa: ARG001  # every verb has one
    name: Annotated[str, typer.Argument(metavar="NAME", help="Folder to make, and name of the crew: my-crew.")],
) -> None:
    """Make a project of your own: a crew, a tool, a test with a scripted model, and files to deploy it."""
    try:
        project = import_module(f"{_WORKER}.project")
    except ModuleNotFoundError as error:
        if error.name != _WORKER:
            raise
        raise MissingExtra("The worker, which has the templates,", "worker") from None
    try:
        files: list[Path] = project.create(Path(name))
    except (OSError, ValueError) as error:
        raise BadRequest(f"{name} cannot be made: {error}") from error
    for file in files:
        put(str(file))
    say(f"Next: {Path(name) / 'README.md'}")


@verb(app, location=FILES)
async def worker(
    connection: Connection,
    *,
    crews: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of crew files (CHARGEHAND_CREWS).", file_okay=False)
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Module with tools of yours; may be repeated (CHARGEHAND_PLUGINS)."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=64, help="Worker processes, one for each core (CHARGEHAND_PROCESSES)."),
    ] = None,
) -> None:
    """Run a worker with crews and tools of your own until Ctrl-C, with the embedded server if no other is set."""
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


def _become(program: WorkerCommand, location: Location) -> NoReturn:
    """Replace this process by the worker program, which gets its signals."""
    address = {"TEMPORAL_ADDRESS": location.address} if location.address else {}
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(program.command[0], program.command, os.environ | program.environment | address)  # noqa: S606  # no shell
    except OSError as error:
        raise BadRequest(f"The worker program {program.command[0]} cannot be started: {error.strerror}.") from error
