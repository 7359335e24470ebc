"""Follow a session to its report: `watch`."""

import asyncio

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.terminal import Exit, say
from chargehand_cli.verb import AsJson, Quiet, SessionId, verb

app = typer.Typer()


@verb(app)
async def watch(connection: Connection, session: SessionId, *, as_json: AsJson = False, quiet: Quiet = False) -> Exit:
    """Show a session's progress until it ends, and print its report. Ctrl-C leaves the session running."""
    await connection.open()
    say(connection.describe())
    try:
        return await follow_to_report(connection, session, as_json=as_json, quiet=quiet)
    except asyncio.CancelledError:
        say(f"The session was left running. To stop it: `chargehand cancel {session}`")
        return Exit.INTERRUPTED


async def follow_to_report(
    connection: Connection, session_id: str, *, as_json: bool, quiet: bool, as_output: bool = False
) -> Exit:
    """Show a session until it ends, and print its report."""
    from chargehand_cli.live_session import follow
    from chargehand_cli.session_files import put_report

    report = await follow(connection, session_id, quiet=quiet)
    return await put_report(connection, report, as_json=as_json, as_output=as_output)
