"""Write a session's report to a file: `report`."""

import asyncio
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from chargehand import ChargehandError, SessionEnded
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


_PAGES: Final = (Format.HTML, Format.PDF)
_ENDED: Final = ("failed", "cancelled")


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
    from chargehand_cli.session_status import read_status

    form = form or _format_of(to)
    status, has_worker = await read_status(connection, session)
    if status.state == "finished":
        content, code = await _write_report(connection, session, form)
    else:
        content, code = await _write_status(connection, status, form, has_worker=has_worker)
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


async def _write_report(connection: Connection, session_id: str, form: Format) -> tuple[bytes, Exit]:
    from chargehand_cli.rendering.text import report_markdown
    from chargehand_cli.session_files import find_enclosures, open_report

    found = await open_report(connection, session_id)
    match form:
        case Format.JSON:
            content = (found.model_dump_json(indent=2) + "\n").encode()
        case Format.MD:
            content = report_markdown(found).encode()
        case Format.DOCX:
            from chargehand_cli.rendering.docx import docx

            content = await asyncio.to_thread(docx, found, await find_enclosures(connection, found))
        case _:
            content = await _print(await _page_of(connection, found), form)
    return content, Exit.DONE if found.stop_reason == "completed" else Exit.PARTIAL


async def _page_of(connection: Connection, found: "Report") -> str:
    from chargehand_cli.rendering.page import report_page
    from chargehand_cli.session_files import find_enclosures, open_trace, session_files

    if not connection.is_open:  # the report was kept, and its page with it
        with suppress(OSError):
            page = session_files(connection.location.state, found.session).page
            return await asyncio.to_thread(page.read_text, encoding="utf-8")
    trace = None
    try:
        trace = await open_trace(connection, found.session)
    except ChargehandError as error:
        say(f"The trace could not be read: {error}")
    return report_page(found, trace, await find_enclosures(connection, found))


async def _write_status(
    connection: Connection, status: "Status", form: Format, *, has_worker: bool
) -> tuple[bytes, Exit]:
    """Write how far a session without a report has come.

    Raises:
        BadRequest: the format is for reports only.
    """
    problem = await _failure(connection, status)
    resume = f"To resume it: `chargehand watch {status.session}`"
    if form not in _PAGES:
        reason = problem or f"{status.state.replace('_', ' ')}{'' if has_worker else ', but without a worker'}."
        raise BadRequest(
            f"Session '{status.session}' has no report: {reason} `--format html` shows how far it has come."
        )
    from chargehand_cli.live_session import user_action
    from chargehand_cli.rendering.unfinished import unfinished_page

    trace = await connection.session(status.session).trace()
    if not has_worker:
        problem, action = "it has no worker.", resume
    else:
        action = user_action(status)
    say(f"Session '{status.session}' has no report; its page shows how far it has come.")
    page = unfinished_page(status, trace, problem=problem, action=action)
    return await _print(page, form), Exit.FAILED if status.state in _ENDED else Exit.PARTIAL


async def _failure(connection: Connection, status: "Status") -> str:
    if status.state in _ENDED:
        try:
            await connection.session(status.session).result()
        except SessionEnded as error:
            return str(error)
    return ""


async def _print(page: str, form: Format) -> bytes:
    if form is Format.HTML:
        return page.encode()
    from chargehand_cli.rendering.pdf import pdf

    return await asyncio.to_thread(pdf, page)
