"""Commands that read what sessions have left: steps, files, quotations, the sessions themselves."""

from pathlib import Path
from typing import Annotated

import typer

from chargehand_cli import artifacts as fetching
from chargehand_cli import session_commands as looking
from chargehand_cli import verify as verifying
from chargehand_cli.command import connected, end_with
from chargehand_cli.connection import decide
from chargehand_cli.interrupts import run_interruptible
from chargehand_cli.options import AsJson, SessionId, Where, WhereFilesAre, spread

app = typer.Typer()


@app.command()
@spread
def trace(
    session: SessionId,
    *,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write report and trace as a page instead.")] = None,
    where: Where,
) -> None:
    """Put every step of a session out as JSON. Works without a worker, also for sessions that failed."""
    connected(where, lambda connection: looking.trace(connection, session, html))


@app.command()
@spread
def artifacts(
    session: SessionId,
    *,
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write them into this folder; without it, only list them.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files of the same name.")] = False,
    as_json: AsJson = False,
    where: WhereFilesAre,
) -> None:
    """List the files that a session's agents made, or bring them here. Waits for its report."""
    if force and to is None:
        raise typer.BadParameter("--force replaces files in a folder: say which one with --to DIR.")
    connected(where, lambda connection: fetching.artifacts(connection, session, to, replace=force, as_json=as_json))


@app.command()
@spread
def verify(
    session: Annotated[str | None, typer.Argument(metavar="SESSION", help="The session's id.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A report as JSON, from --json or report.json, instead.")
    ] = None,
    docs: Annotated[
        list[Path] | None,
        typer.Option("--docs", "-d", help="Look into these documents, named as for the session; may be repeated."),
    ] = None,
    as_json: AsJson = False,
    where: WhereFilesAre,
) -> None:
    """Check that a report's quotations stand in its documents. Exit code 1 if one does not."""
    if (session is None) == (file is None):
        raise typer.BadParameter("Say whose report to check: either SESSION, or --file FILE with a report as JSON.")
    asked = verifying.Asked(session, file, tuple(docs or ()), as_json)
    if file and docs:
        end_with(run_interruptible(verifying.verify_here(decide(where), asked)))
    else:
        connected(where, lambda connection: verifying.verify(connection, asked))


@app.command("list")
@spread
def list_(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="How many, the newest first.")] = 20,
    as_json: AsJson = False,
    where: Where,
) -> None:
    """List sessions."""
    connected(where, lambda connection: looking.list_sessions(connection, limit, as_json=as_json))
