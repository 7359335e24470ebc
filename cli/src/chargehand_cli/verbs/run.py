"""Run sessions: `run`, `ask` and `start`."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import typer

from chargehand import ChargehandError, NotReachable, SessionNotFound
from chargehand.errors import UploadRefused
from chargehand.payloads.settings import encryption_of
from chargehand.upload import store_documents
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.state import reported_problems
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest, RequestOptions, build_request
from chargehand_cli.terminal import Exit, passing_line, put, say
from chargehand_cli.verb import FILES, ReportOptions, SessionId, verb
from chargehand_cli.verbs.watch import follow_to_report
from chargehand_cli.worker_settings import WrongSettings

if TYPE_CHECKING:
    from chargehand import Session, SessionRequest

app = typer.Typer()

_CANCEL_SECONDS: Final = 3
_MAX_SKIPPED_SHOWN: Final = 5


@verb(app, location=FILES)
async def run(connection: Connection, options: RequestOptions, shown: ReportOptions) -> Exit:
    """Run a session, show its progress, and print its report. Ctrl-C asks what to do with it."""
    return await run_session(connection, options, shown)


@verb(app, location=FILES)
async def ask(connection: Connection, session: SessionId, options: RequestOptions, shown: ReportOptions) -> Exit:
    """Run a session that follows another one and knows its report, findings, sources and documents."""
    return await run_session(connection, options, shown, follows=session)


async def run_session(
    connection: Connection,
    options: RequestOptions,
    shown: ReportOptions,
    *,
    base: Mapping[str, Any] | None = None,
    before_start: Callable[["SessionRequest"], None] = lambda _: None,
    follows: str = "",
) -> Exit:
    """Start a session, show its progress, and print its report, for verbs such as `run`.

    The options override the fields of `base`, which may supply the goal. `before_start` is called with the whole
    request once it is valid.
    """
    session = await _start(connection, options, base, before_start, follows=follows, quiet=shown.quiet)
    async with _cancelling_without_worker(connection, session, options):
        code = await follow_to_report(connection, session.id, shown, as_output=options.output_schema is not None)
    if connection.location.is_embedded:
        for problem in reported_problems(connection.location.worker_log):
            say(f"The worker reports: {one_safe_line(problem, 600)}")
    return code


@verb(app, location=FILES)
async def start(connection: Connection, options: RequestOptions) -> None:
    """Start a session and print its ID, without waiting for its report."""
    from chargehand.visibility import pollers

    session = await _start(connection, options)
    async with _cancelling_without_worker(connection, session, options):
        await connection.until_worker_polls()
        await session.opened()
    put(session.id)
    queue = connection.location.task_queue
    if not await pollers(connection.chargehand.client, queue):
        say(f"No worker polls task queue '{one_safe_line(queue, 100)}': the session waits until one does.")
        say(f"Start one with CHARGEHAND_TASK_QUEUE={one_safe_line(queue, 100)}; `chargehand doctor` checks the rest.")
    connection.farewell = (
        "The embedded server shut down with this command. The session resumes the next time it runs:\n"
        f"  chargehand up    or    chargehand watch {session.id}"
    )


@asynccontextmanager
async def _cancelling_without_worker(
    connection: Connection, session: "Session", options: RequestOptions
) -> AsyncGenerator[None]:
    """Cancel a session that no worker can run, so that it does not start unexpectedly days later.

    A session whose ID the user chose may have been started by an earlier command, and is kept.
    """
    try:
        yield
    except (NotReachable, WrongSettings):
        if connection.location.is_embedded and not options.id:
            with suppress(ChargehandError, TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await session.cancel()
        raise


async def _start(
    connection: Connection,
    options: RequestOptions,
    base: Mapping[str, Any] | None = None,
    before_start: Callable[["SessionRequest"], None] = lambda _: None,
    *,
    follows: str = "",
    quiet: bool = False,
) -> "Session":
    """Validate the options, then upload the documents and start the session."""
    inputs = (options.goal, options.input)
    if inputs.count(None) != 1 and (base is None or options.input):
        raise typer.BadParameter("Give either GOAL or --input FILE with a request as JSON.")
    documents = tuple(options.docs or ())
    for document in documents:
        if not document.expanduser().exists():
            raise UploadRefused(f"No such file or folder: {document}")
    with nullcontext() if quiet else passing_line("Starting …"):
        request = await _prepare(connection, options, documents, base)
        if follows:
            request = await _follow_up(connection, follows, request)
    _check_worker_variant(connection)
    before_start(request)
    resumed = await connection.resumed_lines(options.id)
    session = await connection.chargehand.start(request, session_id=options.id)
    if not quiet:
        _announce(connection, session.id, resumed)
    return session


def _check_worker_variant(connection: Connection) -> None:
    """Compare the running embedded worker with the one that this command needs."""
    worker, running = connection.location.worker, connection.running_variant
    needed = worker.variant if worker else ""
    if running == needed:
        return
    if not needed:
        raise BadRequest(
            f"The embedded worker serves another command with {running}. Run this again when it has ended."
        )
    raise BadRequest(
        f"The embedded worker was started without {needed} and serves another command, such as `chargehand up`. "
        "End that first, or name another --state-dir."
    )


def _announce(connection: Connection, session_id: str, resumed: list[str]) -> None:
    say(connection.describe())
    for line in resumed:
        say(line)
    url = connection.session_url(session_id)
    say(f"Session {session_id}{f': {url}' if url else ''}")
    if url and encryption_of(os.environ):
        say("Its payloads are encrypted; run `chargehand codec-server` to read them in the Web UI.")


async def _prepare(
    connection: Connection, options: RequestOptions, documents: tuple[Path, ...], base: Mapping[str, Any] | None
) -> "SessionRequest":
    await connection.check_settings()
    connection.join()
    opening = asyncio.create_task(connection.open())
    try:
        request = build_request(options, await asyncio.to_thread(_upload, connection, documents), base)
        await opening
    finally:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    return request


async def _follow_up(connection: Connection, follows: str, request: "SessionRequest") -> "SessionRequest":
    """Turn a request into a follow-up of a session that the server still retains."""
    from chargehand_cli.session_files import SessionFiles, kept_report

    try:
        return await connection.session(follows).follow_up(request)
    except SessionNotFound as error:
        state = connection.location.state
        if kept_report(state, follows) is None:
            raise
        path = SessionFiles(state, follows).markdown
        raise BadRequest(
            f"The server no longer has session '{follows}', but its report was kept: start a new session that reads "
            f"it, `chargehand run GOAL --docs {quote(str(path))}`."
        ) from error


def _upload(connection: Connection, documents: tuple[Path, ...]) -> tuple[str, ...]:
    if not documents:
        return ()
    server = f"the server set by {connection.location.configured_by}"
    place = connection.location.require_artifacts(f"Documents cannot be uploaded for the workers of {server}")
    skipped: list[str] = []
    uris = store_documents(
        documents,
        place,
        on_skip=lambda name, reason: skipped.append(f"{name}: {reason}"),
        encryption=encryption_of(os.environ),
    )
    for line in skipped[:_MAX_SKIPPED_SHOWN]:
        say(f"Skipped {line}")
    if len(skipped) > _MAX_SKIPPED_SHOWN:
        say(f"Skipped {len(skipped) - _MAX_SKIPPED_SHOWN} more files")
    return uris
