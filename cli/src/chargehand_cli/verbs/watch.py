"""Follow a session to its report: `watch`."""

import asyncio
import sys
from contextlib import suppress
from typing import Annotated, Final

import typer

from chargehand import ChargehandError, SessionEnded, UpdateRefused
from chargehand_cli.connection import Connection
from chargehand_cli.ctrl_c import GO_ON, choose, leave_running
from chargehand_cli.terminal import Exit, put_json, resume_after_interrupt, say
from chargehand_cli.verb import ReportOptions, SessionId, verb

app = typer.Typer()

_LINGER_SECONDS: Final = 600
_ANSWER_SECONDS: Final = 3


@verb(app)
async def watch(
    connection: Connection,
    session: SessionId,
    shown: ReportOptions,
    *,
    events: Annotated[
        bool, typer.Option("--events", help="Write each event as a line of JSON instead, from the beginning.")
    ] = False,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="With --events: only those after the event with this cursor.")
    ] = None,
) -> Exit:
    """Show a session's progress until it ends, and print its report. Ctrl-C asks what to do with it."""
    from chargehand_cli.session_files import ended_report, put_report

    if after is not None and not events:
        raise typer.BadParameter("--after needs --events.")
    if connection.location.is_embedded and not events and (ended := await ended_report(connection, session)):
        return await put_report(connection, ended, shown)
    await connection.open(worker=False)
    if await connection.is_unfinished(session):
        await connection.open()
    if events:
        return await _put_events(connection, session, after)
    if not shown.quiet:
        say(connection.describe())
        await connection.say_resumed(session)
    return await follow_to_report(connection, session, shown)


async def _put_events(connection: Connection, session_id: str, after: str | None) -> Exit:
    """Write events until the session has ended; the exit code depends on its report."""
    from chargehand_cli.session_files import exit_of

    session = connection.session(session_id)
    async for event in session.follow(after):
        put_json(event.model_dump_json())
    return exit_of(await session.result())


async def follow_to_report(
    connection: Connection, session_id: str, shown: ReportOptions, *, as_output: bool = False
) -> Exit:
    """Show a session until it ends, and print its report; Ctrl-C may leave, finish or stop it."""
    from chargehand_cli.live_session import cancel, follow
    from chargehand_cli.session_files import put_report

    while True:
        try:
            report = await follow(connection, session_id, quiet=shown.quiet)
            break
        except asyncio.CancelledError:
            choice = await choose()
        if await _has_ended(connection, session_id):  # it ended in the meantime, so there is nothing to choose
            if choice not in GO_ON:
                resume_after_interrupt()
            continue
        if choice == "leave":
            leave_running(connection, session_id)
            return Exit.INTERRUPTED
        if choice == "stop":
            stopped = await cancel(connection, session_id)
            say("The session was stopped." if stopped else f"It is still stopping: `chargehand status {session_id}`")
            return Exit.INTERRUPTED
        if choice == "finish":
            try:
                await connection.session(session_id).finish_now()
            except (SessionEnded, UpdateRefused) as error:  # there is a report, or it is being written
                say(str(error))
    code = await put_report(connection, report, shown, as_output=as_output)
    if not shown.quiet:
        put_web_ui(connection, session_id, is_told=shown.verbose)
    return code


def put_web_ui(connection: Connection, session_id: str, *, is_told: bool = True) -> None:
    """Keep the embedded Web UI up for a while, and print the session's address in it."""
    url = connection.session_url(session_id)
    if not url:
        return
    if connection.location.is_embedded and sys.stderr.isatty():
        connection.linger_seconds = _LINGER_SECONDS
    if not is_told:
        return
    if connection.linger_seconds:
        say(f"{'Web UI:':<12} {url} (for {_LINGER_SECONDS // 60} minutes)")
    elif connection.location.is_embedded:
        say(f"{'Web UI:':<12} `chargehand open {session_id} --web`")


async def _has_ended(connection: Connection, session_id: str) -> bool:
    """Return whether a session has ended; False if the server does not answer in time."""
    with suppress(ChargehandError, TimeoutError):
        async with asyncio.timeout(_ANSWER_SECONDS):
            return not await connection.is_unfinished(session_id)
    return False
