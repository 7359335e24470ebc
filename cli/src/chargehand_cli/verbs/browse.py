"""Open a session's report page, or the session in the Web UI: `open`."""

import asyncio
import sys
from typing import Annotated

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.terminal import Exit, put, say
from chargehand_cli.verb import FILES, SessionId, verb
from chargehand_cli.verbs.watch import put_web_ui

app = typer.Typer()


@verb(app, "open", location=FILES)
async def open_session(
    connection: Connection,
    session: SessionId,
    *,
    web: Annotated[bool, typer.Option("--web", help="Open the session in Temporal's Web UI instead.")] = False,
) -> Exit:
    """Open a session's report page in the browser, or print its path where there is none."""
    if web:
        return await _open_web_ui(connection, session)
    from chargehand_cli.session_files import keep_report, open_report, session_files

    report = await open_report(connection, session)
    await keep_report(connection, report, say)
    page = session_files(connection.location.state, report.session).page
    put(str(page))
    if page.exists():
        _browse(page.as_uri())
    return Exit.DONE


async def _open_web_ui(connection: Connection, session: str) -> Exit:
    await connection.open(worker=False)
    await connection.is_unfinished(session)  # or there is none
    url = connection.session_url(session)
    if url is None:
        say("The address of the Web UI is not known: set CHARGEHAND_UI_URL.")
        return Exit.BAD_INPUT
    if not connection.location.is_embedded:
        put(url)
        _browse(url)
        return Exit.DONE
    if sys.stderr.isatty():
        put_web_ui(connection, session)
        _browse(url)
        return Exit.DONE
    put(url)
    say("The embedded server stays up until Ctrl-C.")
    await asyncio.Event().wait()
    return Exit.DONE


def _browse(url: str) -> None:
    """Open a browser if this is a terminal with a display, and there is one."""
    if not sys.stdout.isatty():
        return
    import webbrowser

    try:
        webbrowser.get()
    except webbrowser.Error:
        return
    webbrowser.open(url)
