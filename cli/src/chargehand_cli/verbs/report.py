"""Write a session's report, or every step of it, to a file: `report` and `trace`."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from chargehand import ChargehandError, NotReachable, SessionEnded
from chargehand.errors import MissingExtra
from chargehand.plugins import Extension, installed
from chargehand_cli.connection import Connection
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit, put, put_json, say
from chargehand_cli.verb import FILES, SessionId, verb

if TYPE_CHECKING:
    from chargehand import Report, Status

app = typer.Typer()


_OWN_FORMATS: Final = ("html", "md", "json")
_OWN_TRACE_FORMATS: Final = ("json", "html")
_EXTRAS: Final = {"docx": "docx", "pdf": "pdf", "otlp": "cli"}
"""Extras by the report formats that they provide."""
_PATIENCE_SECONDS: Final = 5
"""Time to wait for a worker, which may not exist."""


@verb(app, location=FILES)
async def report(
    connection: Connection,
    session: SessionId,
    *,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="html, md, json, or one of a plug-in.", show_default="as FILE"),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; - is standard output. Default: SESSION.FORMAT.")
    ] = None,
) -> Exit:
    """Write a session's report to a file, as HTML, Markdown or JSON.

    Does not wait: without a report, the page shows the session's progress.
    """
    form = form or _format_of(to)
    write = _writer(form, _OWN_FORMATS, installed().report_formats)
    result = await _find(connection, session)
    if isinstance(result, _Standing):
        content, code = await _write_standing(connection, result, form, write)
    else:
        content, code = await _write_report(connection, result, form, write)
    if to == Path("-"):
        await asyncio.to_thread(sys.stdout.buffer.write, content)
        return code
    from chargehand.shared_files import safe_name

    await _save("Report", to or Path(f"{safe_name(session)}.{form}"), content)
    return code


@verb(app)
async def trace(
    connection: Connection,
    session: SessionId,
    *,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="json, html, or otlp for OpenTelemetry collectors.")
    ] = "json",
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; - is standard output. Default: -.")
    ] = None,
) -> None:
    """Export every step of a session. Needs no worker, and includes running and failed sessions."""
    from chargehand_cli.session_files import open_trace

    write = _writer(form, _OWN_TRACE_FORMATS, installed().trace_formats)
    steps = await open_trace(connection, session)
    if write:
        text = write.build(str, "format", steps)
    elif form == "json":
        text = steps.model_dump_json(indent=2)
    else:
        from chargehand_cli.rendering.page import trace_page

        text = trace_page(steps)
    if to is None or to == Path("-"):
        put(text) if form == "html" else put_json(text)
    else:
        await _save("Trace", to, text.encode())


async def _save(what: str, path: Path, content: bytes) -> None:
    try:
        await asyncio.to_thread(path.write_bytes, content)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}. Name another file: --to FILE.") from error
    say(f"{what}: {path}")


def _format_of(to: Path | None) -> str:
    if to is None or to == Path("-"):
        return "html"
    ending = to.suffix.lower().removeprefix(".")
    return {"htm": "html", "markdown": "md"}.get(ending, ending)


def _writer(form: str, own: Sequence[str], added: Sequence[Extension]) -> Extension | None:
    """Return the writer of a format; None for those of the core.

    Raises:
        MissingExtra: the shipped plug-in for it is not installed.
        BadParameter: the format does not exist.
    """
    if form in own:
        return None
    by_name = {each.name: each for each in added}
    if form in by_name:
        by_name[form].load_function()
        return by_name[form]
    if form in _EXTRAS:
        raise MissingExtra(f"The format {form}", _EXTRAS[form])
    raise typer.BadParameter(
        f"'{form}' is not a format of this verb: add --format {'|'.join((*own, *by_name))}.", param_hint="--format"
    )


async def _write_report(
    connection: Connection, found: "Report", form: str, write: Extension | None
) -> tuple[bytes, Exit]:
    from chargehand_cli.rendering.text import report_markdown
    from chargehand_cli.session_files import exit_of, find_attachments

    if form == "json":
        content = (found.model_dump_json(indent=2) + "\n").encode()
    elif form == "md":
        content = report_markdown(found).encode()
    else:
        page = await _page_of(connection, found)
        content = page.encode()
        if write:
            files = await find_attachments(connection, found)
            content = await asyncio.to_thread(write.build, bytes, "format", page, found, files)
    return content, exit_of(found)


async def _page_of(connection: Connection, found: "Report") -> str:
    from chargehand_cli.rendering.page import report_page
    from chargehand_cli.session_files import SessionFiles, find_attachments, open_trace

    if not connection.is_open:  # the report was stored together with its page
        with suppress(OSError):
            page = SessionFiles(connection.location.state, found.session).page
            return await asyncio.to_thread(page.read_text, encoding="utf-8")
    trace = None
    try:
        trace = await open_trace(connection, found.session)
    except ChargehandError as error:
        say(f"The trace could not be read: {error}")
    return report_page(found, trace, await find_attachments(connection, found))


async def _write_standing(
    connection: Connection, standing: "_Standing", form: str, write: Extension | None
) -> tuple[bytes, Exit]:
    """Write the progress of a session without a report.

    Raises:
        BadRequest: the format is for reports only.
    """
    from chargehand_cli.live_session import user_action
    from chargehand_cli.rendering.attachments import Attachments
    from chargehand_cli.rendering.page import unfinished_page

    status, problem = standing.status, standing.problem
    content = None
    if form not in ("json", "md"):
        trace = await connection.session(status.session).trace()
        page = unfinished_page(status, trace, problem=problem, action=user_action(status))
        written = partial(write.build, object, "format", page, None, Attachments()) if write else page.encode
        content = await asyncio.to_thread(written)
    if not isinstance(content, bytes):
        reason = problem or f"{status.standing.words}."
        raise BadRequest(
            f"Session '{status.session}' has no report: {reason} `--format html` shows how far it has come."
        )
    say(f"Session '{status.session}' has no report; its page shows how far it has come.")
    return content, Exit.PARTIAL if standing.is_open else Exit.FAILED


class _Standing(NamedTuple):
    """The progress of a session without a report."""

    status: "Status"
    problem: str
    """Why it has no report, unless the status already says so."""
    is_open: bool


async def _find(connection: Connection, session_id: str) -> "Report | _Standing":
    from chargehand_cli.session_files import ended_report

    try:
        if ended := await ended_report(connection, session_id):
            return ended
    except SessionEnded as error:
        return _Standing(await connection.session(session_id).recorded_status(), str(error), is_open=False)
    session = connection.session(session_id)
    if connection.has_worker:
        with suppress(NotReachable, TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return _Standing(await session.status(), "", is_open=True)
    return _Standing(await session.recorded_status(), "no worker answers for it.", is_open=True)
