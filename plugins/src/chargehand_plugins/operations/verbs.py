"""The verbs `setup`, `doctor`, `replay`, `clean` and `reconcile`, whose implementations are imported on use."""

from pathlib import Path
from typing import Annotated

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.terminal import Exit
from chargehand_cli.verb import FILES, AsJson, verb

app = typer.Typer()


@verb(app)
async def setup(connection: Connection) -> Exit:
    """Register the search attributes by which sessions are found; needed once per namespace."""
    from chargehand_plugins.operations.setup import prepare

    await connection.open(worker=False)
    return await prepare(connection)


@verb(app, location=FILES, warns=False)
async def doctor(connection: Connection) -> Exit:
    """Check the settings, server, workers and sessions, and explain every problem."""
    from chargehand_plugins.operations.doctor import Findings, examine

    return await examine(connection, Findings())


@verb(app)
async def replay(
    connection: Connection,
    sessions: Annotated[list[str] | None, typer.Argument(metavar="SESSION", help="Session IDs.")] = None,
    *,
    last: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Replay the newest N sessions.", show_default="20")
    ] = None,
    running: Annotated[
        bool, typer.Option("--running", help="Replay running sessions only; all of them unless --last is given.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Replay histories from --save or from Temporal's tools.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the histories to replay them later.")] = None,
    as_json: AsJson = False,
) -> Exit:
    """Check that sessions replay on this machine's workflows. Exits with 1 if not."""
    if sum((bool(sessions), last is not None or running, file is not None)) > 1 or (file and save):
        raise typer.BadParameter(
            "SESSION, --last or --running, and --file are mutually exclusive; --save cannot be combined with --file."
        )
    connection.location.require_worker("replay with")
    from chargehand_plugins.operations.replay import replay_file, replay_sessions

    if file:
        return await replay_file(connection.location, file.absolute(), namespace=None, as_json=as_json)
    await connection.open(worker=False)
    return await replay_sessions(connection, sessions or (), last, save, only_running=running, as_json=as_json)


@verb(app)
async def clean(
    connection: Connection,
    *,
    older_than: Annotated[str, typer.Option(help="Minimum age: 12h, 30d or 4w, or a date.")] = "30d",
    delete: Annotated[bool, typer.Option("--delete", help="Delete; otherwise print what would be deleted.")] = False,
) -> None:
    """Delete stored payloads, documents and files made by agents that no session on the server needs."""
    from chargehand_cli.verbs.sessions import read_moment
    from chargehand_plugins.operations.clean import clean_up

    before = read_moment(older_than, "--older-than")
    await connection.open(worker=False)
    await clean_up(connection, before, delete=delete)


@verb(app, location=FILES)
async def reconcile(
    connection: Connection,
    *,
    since: Annotated[
        str, typer.Option(help="When the restored backup was made: 2h, or a time such as 2026-11-22T17:30.")
    ],
    repair: Annotated[
        bool, typer.Option("--repair", help="Add missing charges to the books of running sessions.")
    ] = False,
    as_json: AsJson = False,
) -> Exit:
    """List what sessions did and paid since a restored backup. Exits with 1 if some of it is missing."""
    from chargehand_cli.verbs.sessions import read_moment
    from chargehand_plugins.operations.reconcile import report

    backup_time = read_moment(since)
    await connection.open(worker=repair)
    return await report(connection, backup_time, repair=repair, as_json=as_json)
