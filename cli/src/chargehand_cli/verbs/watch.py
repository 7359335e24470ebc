"""Follow a session to its report: `watch`."""

import asyncio
from typing import Annotated

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.terminal import Exit, put_json, say
from chargehand_cli.verb import AsJson, Quiet, SessionId, verb

app = typer.Typer()


@verb(app)
async def watch(
    connection: Connection,
    session: SessionId,
    *,
    events: Annotated[
        bool, typer.Option("--events", help="Write each event as a line of JSON instead, from the beginning.")
    ] = False,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="With --events: only those after the event with this cursor.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> Exit:
    """Show a session's progress until it ends, and print its report. Ctrl-C leaves the session running."""
    if after is not None and not events:
        raise typer.BadParameter("--after needs --events.")
    await connection.open()
    if not events:
        say(connection.describe())
    try:
        if events:
            return await _put_events(connection, session, after)
        return await follow_to_report(connection, session, as_json=as_json, quiet=quiet)
    except asyncio.CancelledError:
        say(f"The session was left running. To stop it: `chargehand cancel {session}`")
        return Exit.INTERRUPTED


async def _put_events(connection: Connection, session_id: str, after: str | None) -> Exit:
    """Write events until the session has ended; the exit code is that of its report."""
    from chargehand_cli.session_files import exit_of

    session = connection.session(session_id)
    async for event in session.follow(after):
        put_json(event.model_dump_json())
    return exit_of(await session.result())


async def follow_to_report(
    connection: Connection, session_id: str, *, as_json: bool, quiet: bool, as_output: bool = False
) -> Exit:
    """Show a session until it ends, and print its report."""
    from chargehand_cli.live_session import follow
    from chargehand_cli.session_files import put_report

    report = await follow(connection, session_id, quiet=quiet)
    return await put_report(connection, report, as_json=as_json, as_output=as_output)
