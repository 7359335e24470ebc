"""A session's report, trace and status, from the server or from stored files, which outlive its retention."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from chargehand import ChargehandError, InvalidInput, NotReachable, Report, SessionEnded, SessionNotFound, Status, Trace
from chargehand.history.projection import Projection
from chargehand.history.steps import Draft
from chargehand.history.tree import TreeReader
from chargehand.payloads.settings import encryption_of
from chargehand.shared_files import read_artifact
from chargehand.temporal_errors import translated
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.state import StateDirectory, write_private
from chargehand_cli.location import Location
from chargehand_cli.rendering.attachments import Attachments, attach
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.rendering.terminal_report import put_on_screen, short_text
from chargehand_cli.rendering.text import report_markdown
from chargehand_cli.terminal import Exit, console, put, put_json, put_markdown, say
from chargehand_cli.verb import ReportOptions

_Kept = TypeVar("_Kept", Report, Trace)
_MAX_NAME_LENGTH: Final = 120
"""Characters of a folder's name; file systems allow 255 bytes."""


class SessionFiles:
    """The folder of one session's files."""

    def __init__(self, state: Path, session_id: str) -> None:
        name = quote(session_id, safe=" ").replace(".", "%2E")
        if len(name) > _MAX_NAME_LENGTH:
            name = f"{name[:_MAX_NAME_LENGTH]}-{hashlib.sha256(session_id.encode()).hexdigest()[:16]}"
        self.folder = folder = state / "sessions" / name
        self.page = folder / "report.html"
        self.report = folder / "report.json"
        self.markdown = folder / "report.md"
        self.trace = folder / "trace.json"


def keep(state: Path, report: Report, trace: Trace | None, attachments: Attachments | None = None) -> SessionFiles:
    """Write a session's files, replacing earlier ones."""
    from chargehand_cli.rendering.page import report_page

    files = SessionFiles(state, report.session)
    for folder in (files.folder.parent, files.folder):  # `parents` are created without the mode
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(files.report, report.model_dump_json(indent=2) + "\n")
    write_private(files.markdown, report_markdown(report))
    write_private(files.page, report_page(report, trace, attachments or Attachments()))
    if trace:
        write_private(files.trace, trace.model_dump_json(indent=2) + "\n")
    return files


def kept_report(state: Path, session_id: str) -> Report | None:
    return _read(Report, SessionFiles(state, session_id).report)


def _read(kind: type[_Kept], file: Path) -> _Kept | None:
    try:
        return kind.model_validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None


async def ended_report(connection: Connection, session_id: str) -> Report | None:
    """Read the report of a session that has ended, from its files or the server; None if it has not."""
    kept = kept_report(connection.location.state, session_id)
    if kept and _is_at_rest(connection.location):
        return kept
    await connection.open(worker=False)
    try:
        return None if await connection.is_unfinished(session_id) else await connection.session(session_id).result()
    except SessionNotFound:
        if kept:
            return kept
        raise


def _is_at_rest(location: Location) -> bool:
    """Whether no server runs here in which a reset, or a restored database, may have continued a session."""
    return location.is_embedded and not StateDirectory(location.state).read_note()


async def open_report(connection: Connection, session_id: str) -> Report:
    """Read the report of a finished session, or wait for it; say if no worker can finish it.

    Raises:
        NotReachable: the session is unfinished and has no worker.
    """
    if ended := await ended_report(connection, session_id):
        return ended
    if not connection.has_worker:
        await check_finished(connection, session_id)
    session = connection.session(session_id)
    try:
        await session.status()
    except NotReachable as error:
        say(f"Waiting for the report. {one_safe_line(str(error), 400)}")
    return await session.result()


async def open_trace(connection: Connection, session_id: str) -> Trace:
    """Read the stored trace of a finished session, or connect and read the trace from the server."""
    stored_trace = _read(Trace, SessionFiles(connection.location.state, session_id).trace)
    if stored_trace and _is_at_rest(connection.location):
        return stored_trace
    await connection.open(worker=False)
    try:
        return await connection.session(session_id).trace()
    except SessionNotFound:
        if stored_trace:
            return stored_trace
        raise


async def read_status(connection: Connection, session_id: str) -> tuple[Status, bool]:
    """Read a session's status, from the report if it has ended, and whether a worker is running it."""
    with suppress(SessionEnded, InvalidInput):  # of a conversation
        if ended := await ended_report(connection, session_id):
            return status_of(ended), True
    session = connection.session(session_id)
    if connection.has_worker:
        return await session.status(), True
    return await session.recorded_status(), not await connection.is_unfinished(session_id)


async def read_work(connection: Connection, session_id: str) -> Projection:
    """Read the running steps of a session from its histories."""
    with translated(session_id):
        return await TreeReader(connection.chargehand.client, session_id).read(Draft.of(session_id), None)


async def open_to_query(connection: Connection, session_id: str) -> None:
    """Connect for a query that only a worker can answer.

    Raises:
        NotReachable: there is no worker, and starting one would resume unfinished sessions.
    """
    if not await connection.open_to_query():
        await check_finished(connection, session_id)
        raise NotReachable(
            f"Only a worker can answer for session '{session_id}', and none was started: it would resume other "
            "sessions. To start it: `chargehand up`"
        )


def status_of(report: Report) -> Status:
    granted = {each.limit: each.allowed for each in report.limits}
    return Status(
        session=report.session,
        goal=report.goal,
        state="finished",
        stop_reason=report.stop_reason,
        verification=report.verification,
        subtasks=report.subtasks,
        routes=report.routes,
        turns=report.usage.turns,
        max_turns=int(granted.get("max_turns", 0)),
        spent_usd=report.usage.cost_usd,
        budget_usd=Decimal(str(granted.get("budget_usd", 0))),
        started_at=report.timing.started_at,
        ended_at=report.timing.ended_at,
    )


async def check_finished(connection: Connection, session_id: str) -> None:
    """Raise `NotReachable` if a session is unfinished, as there is no worker."""
    if await connection.is_unfinished(session_id):
        raise NotReachable(
            f"Session '{session_id}' is unfinished and has no worker. To resume it: `chargehand watch {session_id}`"
        )


async def find_attachments(connection: Connection, report: Report) -> Attachments:
    """Read the pictures and passages of a report's page, if this machine can read the workers' files."""
    root = connection.location.artifacts
    quotes_lines = any("#L" in source.ref for source in report.sources)
    if root is None or not (report.artifacts or quotes_lines):
        return Attachments()
    documents: tuple[str, ...] = ()
    if quotes_lines and connection.is_open:
        with suppress(ChargehandError):
            documents = await connection.session(report.session).documents()
    read = partial(read_artifact, artifact_root=root, encryption=encryption_of(os.environ))
    return await asyncio.to_thread(attach, report, documents, read)


async def put_report(connection: Connection, report: Report, shown: ReportOptions, *, as_output: bool = False) -> Exit:
    """Write a report to standard output, and store it and its trace as files.

    With `as_output`, write only the requested output to standard output, if it is valid.
    """
    if as_output and not shown.as_json:
        if not report.output_problems:
            put_json(json.dumps(report.output, indent=2, ensure_ascii=False))
        for problem in report.output_problems:
            say(f"No valid output: {problem}")
    elif shown.as_json:
        put_json(report.model_dump_json(indent=2))
    elif shown.verbose:
        put_markdown(report_markdown(report))
    elif sys.stdout.isatty():
        put_on_screen(report, console(sys.stdout))
    else:
        put(short_text(report))
    remark: Callable[[str], object] = (lambda _: None) if shown.quiet else say
    await keep_report(connection, report, remark)
    if shown.verbose:
        _list_files(connection, report, remark)
    remark(f"Go on: {program()} open {report.session} · verify {report.session} · ask {report.session} GOAL")
    if count := len(report.artifacts):
        files_made = "1 file was" if count == 1 else f"{count} files were"
        remark(f"{files_made} made; to download: `chargehand artifacts {report.session} --to DIR`")
    return exit_of(report)


def exit_of(report: Report) -> Exit:
    return Exit.DONE if report.stop_reason == "completed" else Exit.PARTIAL


async def keep_report(connection: Connection, report: Report, remark: Callable[[str], object]) -> None:
    """Store a report from the server and its trace as files."""
    if not connection.is_open:
        return
    state, trace = connection.location.state, None
    try:
        trace = await connection.session(report.session).trace()
    except ChargehandError as error:
        remark(f"The trace could not be read: {error}")
    try:
        attachments = await find_attachments(connection, report)
        await asyncio.to_thread(keep, state, report, trace, attachments)
    except OSError as error:
        remark(f"The report could not be saved in {state}: {error.strerror}.")


def _list_files(connection: Connection, report: Report, remark: Callable[[str], object]) -> None:
    files = SessionFiles(connection.location.state, report.session)
    shown = {"Report page": files.page, "Report": files.markdown, "Trace": files.trace}
    for name, path in shown.items():
        if path.exists():
            remark(f"{name + ':':<12} {_short(path)}")


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def program() -> str:
    """Return this program's name, or its path if it is not on the PATH."""
    called = Path(sys.argv[0])
    if called.name != "chargehand" or shutil.which("chargehand"):
        return "chargehand"
    return _short(called)
