"""Write a session's report to a file: `report`."""

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chargehand import ChargehandError, SessionEnded, SessionNotFound
from chargehand_cli.connection import Connection
from chargehand_cli.request import BadRequest
from chargehand_cli.terminal import Exit, say
from chargehand_cli.verb import FILES, SessionId, verb

if TYPE_CHECKING:
    from chargehand import Report, Status

app = typer.Typer()


class Format(StrEnum):
    """The formats of a report."""

    HTML = "html"
    MD = "md"
    JSON = "json"
    DOCX = "docx"
    PDF = "pdf"


_PAGES = (Format.HTML, Format.PDF)


@verb(app, location=FILES)
async def report(
    connection: Connection,
    session: SessionId,
    *,
    form: Annotated[
        Format | None, typer.Option("--format", help="Default: the ending of --to, or html. docx and pdf are extras.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; - is standard output. Default: SESSION.FORMAT.")
    ] = None,
) -> Exit:
    """Write a session's report to a file, as HTML, Markdown, JSON, DOCX or PDF.

    Does not wait: for a session without a report, the page of html and pdf says how far it has come.
    """
    form = form or _format_of(to)
    await connection.open(worker=False)
    content, code = await _write(connection, session, form)
    if to == Path("-"):
        await asyncio.to_thread(sys.stdout.buffer.write, content)
        return code
    from chargehand.download import safe_name

    path = to or Path(f"{safe_name(session)}.{form}")
    try:
        await asyncio.to_thread(path.write_bytes, content)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}. Name another file: --to FILE.") from error
    say(f"Report: {path}")
    return code


def _format_of(to: Path | None) -> Format:
    if to is None or to == Path("-"):
        return Format.HTML
    ending = to.suffix.lower().removeprefix(".")
    try:
        return Format({"htm": "html", "markdown": "md"}.get(ending, ending))
    except ValueError as error:
        raise typer.BadParameter(
            f"{to} does not end like one of the formats: add --format {'|'.join(Format)}."
        ) from error


async def _write(connection: Connection, session_id: str, form: Format) -> tuple[bytes, Exit]:
    found, status, problem = await _find(connection, session_id)
    if found is not None:
        content = await _write_report(connection, found, form)
        return content, Exit.DONE if found.stop_reason == "completed" else Exit.PARTIAL
    assert status, "it is one or the other"
    if form not in _PAGES:
        reason = problem or f"it is {status.state.replace('_', ' ')}"
        raise BadRequest(
            f"Session '{session_id}' has no report: {reason}. To wait for one: `chargehand watch {session_id}`; "
            "`--format html` shows how far it has come."
        )
    from chargehand_cli.live_session import user_action
    from chargehand_cli.rendering.unfinished import unfinished_page

    trace = await connection.session(session_id).trace()
    page = unfinished_page(status, trace, problem=problem, action=user_action(status))
    say(f"Session '{session_id}' has no report; the page says how far it has come.")
    return await _print(page, form), Exit.FAILED if problem else Exit.PARTIAL


async def _find(connection: Connection, session_id: str) -> "tuple[Report | None, Status | None, str]":
    """Return the report; or else the status, and why there will be none."""
    from chargehand_cli.session_files import kept_report, open_report
    from chargehand_cli.session_status import read_status

    try:
        status, _ = await read_status(connection, session_id)
        if status.state in ("finished", "failed", "cancelled"):
            return await open_report(connection, session_id), None, ""
    except SessionNotFound:
        kept = kept_report(connection.location.state, session_id)
        if kept is None:
            raise
        return kept, None, ""
    except SessionEnded as error:
        return None, (await read_status(connection, session_id))[0], str(error)
    return None, status, ""


async def _write_report(connection: Connection, found: "Report", form: Format) -> bytes:
    from chargehand_cli.rendering.page import report_page
    from chargehand_cli.rendering.text import report_markdown
    from chargehand_cli.session_files import find_enclosures

    if form is Format.JSON:
        return (found.model_dump_json(indent=2) + "\n").encode()
    if form is Format.MD:
        return report_markdown(found).encode()
    enclosures = await find_enclosures(connection, found)
    if form is Format.DOCX:
        from chargehand_cli.rendering.docx import docx

        return await asyncio.to_thread(docx, found, enclosures)
    try:
        trace = await connection.session(found.session).trace()
    except ChargehandError as error:
        say(f"The trace could not be read: {error}")
        trace = None
    return await _print(report_page(found, trace, enclosures), form)


async def _print(page: str, form: Format) -> bytes:
    if form is Format.HTML:
        return page.encode()
    from chargehand_cli.rendering.pdf import pdf

    return await asyncio.to_thread(pdf, page)
