"""`run`, `start` and `watch`: from a request, or a session's id, to a report in front of the user."""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chargehand.errors import ChargehandError, NotReachable, UploadRefused
from chargehand.payloads.settings import encryption_of
from chargehand.upload import store_documents
from chargehand_cli.connection import Connection
from chargehand_cli.exit_codes import Exit
from chargehand_cli.location import NAME_WHAT_IS_SHARED
from chargehand_cli.request_options import Typed
from chargehand_cli.terminal import put, put_markdown, say

if TYPE_CHECKING:
    from chargehand.client import Session
    from chargehand.contracts import Report

_CANCEL_SECONDS: Final = 3
_MOST_OTHERS: Final = 5
_MOST_SKIPPED_SHOWN: Final = 5


@dataclass(frozen=True)
class Output:
    """How a report is shown."""

    as_json: bool = False
    quiet: bool = False
    """No progress."""


def require_documents(documents: tuple[Path, ...]) -> None:
    """Look for the documents before anything is started.

    Raises:
        UploadRefused: one is missing.
    """
    for document in documents:
        if not document.expanduser().exists():
            raise UploadRefused(f"There is no file or folder {document}.")


def upload(connection: Connection, documents: tuple[Path, ...]) -> tuple[str, ...]:
    """Put documents where the worker reads them.

    Raises:
        UploadRefused: they cannot be used, or no worker is known to share a directory with us.
        ProtectionSettingsError: what they are to be encrypted with cannot be used.
    """
    if not documents:
        return ()
    root = connection.place.artifacts
    if root is None:
        raise UploadRefused(
            f"Documents cannot be given to the workers of the server that {connection.place.configured_by} names: "
            f"{NAME_WHAT_IS_SHARED}"
        )
    skipped: list[str] = []
    uris = store_documents(
        documents,
        root,
        on_skip=lambda name, reason: skipped.append(f"{name}: {reason}"),
        encryption=encryption_of(os.environ),
    )
    for line in skipped[:_MOST_SKIPPED_SHOWN]:
        say(f"Left out {line}")
    if len(skipped) > _MOST_SKIPPED_SHOWN:
        say(f"Left out {len(skipped) - _MOST_SKIPPED_SHOWN} more files")
    return uris


async def run(connection: Connection, typed: Typed, uris: tuple[str, ...], output: Output) -> Exit:
    """Start a session, show it, and put its report out; interrupted, cancel it."""
    session = await _start(connection, typed, uris)
    try:
        return await _see_through(connection, session.id, output)
    except asyncio.CancelledError:
        return await _cancel(connection, session.id)
    except NotReachable:
        # Nobody is there to take the request: it shall not come as a surprise some days later.
        if connection.place.is_embedded:
            with contextlib.suppress(ChargehandError, TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await session.cancel()
        raise


async def start(connection: Connection, typed: Typed, uris: tuple[str, ...]) -> Exit:
    """Start a session and leave it to the worker."""
    session = await _start(connection, typed, uris)
    put(session.id)
    return Exit.DONE


async def watch(connection: Connection, session_id: str, output: Output) -> Exit:
    """Show a session that runs, and put its report out; interrupted, leave it alone."""
    await connection.open()
    say(connection.describe())
    try:
        return await _see_through(connection, session_id, output)
    except asyncio.CancelledError:
        say(f"The session was left alone; `chargehand cancel {session_id}` stops it.")
        return Exit.INTERRUPTED


async def stay_up(connection: Connection) -> Exit:
    """Keep the embedded server and its worker running until interrupted."""
    await connection.open()
    say(connection.describe())
    say(f"The worker's log: {connection.place.worker_log}.")
    say("Ctrl-C ends both, unless other commands use them; sessions go on the next time.")
    try:
        while True:
            await asyncio.sleep(1)
            await connection.mend()
            connection.check_worker()
    except asyncio.CancelledError:
        say("Ending …")
    return Exit.DONE


async def _start(connection: Connection, typed: Typed, uris: tuple[str, ...]) -> "Session":
    from chargehand_cli.typed_input import build_request  # noqa: PLC0415  # slow to load, and the server starts meanwhile

    opening = asyncio.create_task(connection.open())
    try:
        await asyncio.sleep(0)
        request = build_request(typed, uris)
        await opening
    finally:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    say(connection.describe())
    await _mention_others(connection, typed.id)
    session = await connection.chargehand.start(request, session_id=typed.id)
    url = connection.session_url(session.id)
    say(f"Session {session.id}{f', seen at {url}' if url else ''}")
    if url and encryption_of(os.environ):
        say("It is encrypted there; `chargehand codec-server`, kept running, says how to read it.")
    return session


async def _mention_others(connection: Connection, session_id: str | None) -> None:
    """Name the sessions of earlier runs that go on now that there is a server again."""
    if not connection.place.is_embedded:
        return
    others = [each.id async for each in connection.chargehand.list(50) if each.state == "running"]
    others = [each for each in others if each != session_id]
    for each in others[:_MOST_OTHERS]:
        say(f"Unfinished from before, and going on: {each} (chargehand watch {each})")
    if len(others) > _MOST_OTHERS:
        say(f"… and {len(others) - _MOST_OTHERS} more (chargehand list)")


async def _see_through(connection: Connection, session_id: str, output: Output) -> Exit:
    from chargehand_cli.follow import follow  # noqa: PLC0415  # as above
    from chargehand_cli.live_tree import choose_progress  # noqa: PLC0415  # as above
    from chargehand_cli.question_prompt import Answering, somebody_can_answer  # noqa: PLC0415  # slow to load

    progress = choose_progress(session_id, quiet=output.quiet)
    answering = None
    if somebody_can_answer() and not output.quiet:
        answering = Answering(connection.session(session_id), progress)
    report = await follow(connection, session_id, progress, answering)
    return await put_report(connection, report, output)


async def put_report(connection: Connection, report: "Report", output: Output) -> Exit:
    """Write a report to standard output, keep it with its trace in files, and say where they are."""
    from chargehand_cli.rendering.text import report_markdown  # noqa: PLC0415  # as above
    from chargehand_cli.session_files import keep, shown  # noqa: PLC0415  # slow to load

    trace = None
    try:
        trace = await connection.session(report.session).trace()
    except ChargehandError as error:
        say(f"The trace could not be read: {error}")
    if output.as_json:
        put(report.model_dump_json(indent=2))
    else:
        put_markdown(report_markdown(report))
    try:
        kept = await asyncio.to_thread(keep, connection.place.state, report, trace)
    except OSError as error:
        say(f"The report could not be kept in {connection.place.state}: {error.strerror}.")
    else:
        say(f"Report as a page: {shown(kept.page)}")
        if trace:
            say(f"Trace as JSON:    {shown(kept.trace)}")
    if count := len(report.artifacts):
        made = f"{count} file{'s' if count > 1 else ''} made"
        say(f"{made}: `chargehand artifacts {report.session} --to DIR` brings {'them' if count > 1 else 'it'} here.")
    return Exit.DONE if report.stop_reason == "completed" else Exit.PARTIAL


async def _cancel(connection: Connection, session_id: str) -> Exit:
    from chargehand_cli.follow import cancel  # noqa: PLC0415  # slow to load

    say("Interrupted: cancelling the session (once more to leave at once) …")
    if await cancel(connection, session_id):
        say("The session was cancelled.")
    else:
        say(f"The session has been asked to stop and has not ended yet; see `chargehand status {session_id}`.")
    return Exit.INTERRUPTED
