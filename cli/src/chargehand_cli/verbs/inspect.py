"""Inspect sessions: `status`, `result`, `artifacts`, `verify` and `open`."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chargehand.payloads.settings import encryption_of
from chargehand.state_words import ENDED, STOP_REMEDIES
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import Exit, console, put, put_check, put_json, say
from chargehand_cli.verb import FILES, AsJson, ReportOptions, SessionId, verb
from chargehand_cli.verbs.watch import put_web_ui

if TYPE_CHECKING:
    from chargehand import Artifact

app = typer.Typer()


@verb(app)
async def status(connection: Connection, session: SessionId, *, as_json: AsJson = False) -> None:
    """Show a session's state, plan, turns and cost."""
    from chargehand.visibility import unserved_queues
    from chargehand_cli.live_session import user_action
    from chargehand_cli.live_tree import now, session_tree
    from chargehand_cli.session_files import read_status, read_work

    current, has_worker = await read_status(connection, session)
    if as_json:
        put_json(json.dumps(current.model_dump(mode="json") | {"has_worker": has_worker}, indent=2))
        return
    at = now()
    remark = "" if has_worker else "no worker"
    work = await read_work(connection, session) if has_worker and current.state not in ENDED else None
    console(sys.stdout).print(session_tree(current.session, current, remark, at, current.started_at or at, work=work))
    if current.failure:
        say(f"Failed: {one_safe_line(current.failure.cause)} {one_safe_line(current.failure.remedy)}")
    elif remedy := STOP_REMEDIES.get(current.stop_reason):
        say(remedy)
    elif current.state not in ENDED and connection.is_open:
        for queue in await unserved_queues(connection.chargehand.client, session):
            name = one_safe_line(queue, 100)
            say(f"No worker polls task queue '{name}', on which it waits: `chargehand doctor` names the settings.")
    action = user_action(current) if has_worker else f"To resume it: `chargehand watch {session}`"
    if action:
        say(action)


@verb(app)
async def result(connection: Connection, session: SessionId, shown: ReportOptions) -> Exit:
    """Wait for a session's report and print it."""
    from chargehand_cli.session_files import open_report, put_report

    return await put_report(connection, await open_report(connection, session), shown)


@verb(app, location=FILES)
async def artifacts(
    connection: Connection,
    session: SessionId,
    *,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Download the files to this folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> Exit:
    """List or download the files made by a session's agents. Waits for its report."""
    from chargehand_cli.session_files import open_report

    if force and to is None:
        raise typer.BadParameter("--force needs a folder: --to DIR.")
    files = (await open_report(connection, session)).artifacts
    if to is not None and files:
        return await _download(connection, files, to, replace=force, as_json=as_json)
    if as_json:
        put_json(json.dumps([each.model_dump(mode="json") for each in files], indent=1))
    elif not files:
        say(f"Session {session} made no files.")
    else:
        for each in files:
            put(_describe_artifact(each, each.name))
        say(f"To download them: `chargehand artifacts {session} --to DIR`")
    return Exit.DONE


@verb(app)
async def verify(connection: Connection, session: SessionId, *, as_json: AsJson = False) -> Exit:
    """Check that a report's quotations occur in its session's documents, and list what each claim rests on.

    A worker reads the documents again. Exits with 1 if a quotation does not occur.
    """
    from chargehand_cli.session_files import open_report

    report = await open_report(connection, session)
    await connection.open_with_worker()
    await connection.say_resumed(session)
    check = await connection.session(session).verify()
    if as_json:
        put_json(check.model_dump_json(indent=2))
    else:
        labels = {each.ref: f"S{number}" for number, each in enumerate(report.sources, start=1)}
        for quote in check.quotations:
            put_check(f"{labels.get(quote.ref, ''):<4} {one_safe_line(quote.ref, 300)}", quote.problem)
        for claim in check.claims:
            put_check(f"{claim.verification}: {one_safe_line(claim.claim, 120)}", claim.problem)
    if others := len(report.sources) - len(check.quotations):
        say(f"Not checked, since they are not documents (web pages, queries, computations): {others} of the sources.")
    if check.quotations:
        say(f"Verified quotations: {sum(1 for each in check.quotations if each.stands)} of {len(check.quotations)}.")
    else:
        say("The report quotes no documents.")
    resting = sum(1 for each in check.claims if each.was_found)
    say(f"Claims that rest on a verified quotation: {resting} of {len(check.claims)}.")
    return Exit.DONE if check.stands else Exit.FAILED


@verb(app, "open", location=FILES)
async def open_session(
    connection: Connection,
    session: SessionId,
    *,
    web: Annotated[bool, typer.Option("--web", help="Open the session in Temporal's Web UI instead.")] = False,
) -> Exit:
    """Open a session's report page in the browser, or print its path if there is none."""
    if web:
        return await _open_web_ui(connection, session)
    from chargehand_cli.session_files import SessionFiles, keep_report, open_report

    report = await open_report(connection, session)
    await keep_report(connection, report, say)
    page = SessionFiles(connection.location.state, report.session).page
    put(str(page))
    if page.exists():
        _browse(page.as_uri())
    return Exit.DONE


async def _download(
    connection: Connection, made: "tuple[Artifact, ...]", folder: Path, *, replace: bool, as_json: bool
) -> Exit:
    from chargehand.shared_files import download_artifacts

    server = f"the server set by {connection.location.configured_by}"
    place = connection.location.require_artifacts(f"Files cannot be downloaded from the workers of {server}")
    downloads = download_artifacts(made, place, folder, replace=replace, encryption=encryption_of(os.environ))
    downloaded = await asyncio.to_thread(list, downloads)
    if as_json:
        facts = [
            each.artifact.model_dump(mode="json") | {"path": str(each.path), "problem": each.problem}
            for each in downloaded
        ]
        put_json(json.dumps(facts, indent=1))
    for each in downloaded:
        if each.problem:
            say(f"✘ {each.path}: {one_safe_line(each.problem, 400)}")
        elif not as_json:
            put(_describe_artifact(each.artifact, str(each.path)))
    if missing := sum(1 for each in downloaded if each.problem):
        say(f"{missing} of {len(downloaded)} files could not be downloaded to {folder}.")
        return Exit.FAILED
    return Exit.DONE


def _describe_artifact(artifact: "Artifact", name: str) -> str:
    from chargehand_cli.rendering.text import size

    facts = [one_safe_line(name, 300), one_safe_line(artifact.media_type, 60), size(artifact.bytes)]
    return "  ".join([*facts, one_safe_line(artifact.title)]).rstrip()


async def _open_web_ui(connection: Connection, session: str) -> Exit:
    await connection.open(worker=False)
    await connection.is_unfinished(session)  # or there is none
    url = connection.session_url(session)
    if url is None:
        say("The address of the Web UI is not known: set CHARGEHAND_UI_URL.")
        return Exit.BAD_INPUT
    if connection.location.is_embedded and sys.stderr.isatty():
        put_web_ui(connection, session)
    else:
        put(url)
        if connection.location.is_embedded:
            say("The embedded server stays up until Ctrl-C.")
            await asyncio.Event().wait()
    _browse(url)
    return Exit.DONE


def _browse(url: str) -> None:
    """Open a browser if there is one and this is a terminal with a display."""
    if not sys.stdout.isatty():
        return
    import webbrowser

    try:
        webbrowser.get()
    except webbrowser.Error:
        return
    webbrowser.open(url)
