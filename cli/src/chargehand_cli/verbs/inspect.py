"""Inspect sessions: `status`, `result`, `advise`, `artifacts` and `verify`."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chargehand import SessionNotFound
from chargehand.payloads.settings import encryption_of
from chargehand.upload import store_documents
from chargehand_cli.connection import Connection
from chargehand_cli.location import NAME_SHARED_FILES
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.request import BadRequest, read_model
from chargehand_cli.terminal import Exit, console, put, put_json, say
from chargehand_cli.verb import FILES, AsJson, Documents, SessionId, verb

if TYPE_CHECKING:
    from chargehand import Artifact, Report
    from chargehand_cli.worker_program import Checked

app = typer.Typer()


@verb(app)
async def status(connection: Connection, session: SessionId, *, as_json: AsJson = False) -> None:
    """Show a session's state, plan, turns and cost."""
    from chargehand_cli.live_session import user_action
    from chargehand_cli.live_tree import now, session_tree
    from chargehand_cli.session_status import read_status

    found, has_worker = await read_status(connection, session)
    if as_json:
        put_json(json.dumps(found.model_dump(mode="json") | {"has_worker": has_worker}, indent=2))
        return
    at = now()
    ended = [record.ended_at for record in found.subtasks if record.ended_at]
    if found.state in ("finished", "failed", "cancelled") and ended:
        at = max(ended)
    remark = "" if has_worker else "no worker"
    console(sys.stdout).print(session_tree(found.session, found, remark, at, found.started_at or at))
    action = user_action(found) if has_worker else f"To resume it: `chargehand watch {session}`"
    if action:
        say(action)


@verb(app)
async def result(connection: Connection, session: SessionId, *, as_json: AsJson = False) -> Exit:
    """Wait for a session's report and print it."""
    from chargehand_cli.session_files import open_report, put_report

    return await put_report(connection, await open_report(connection, session), as_json=as_json)


@verb(app)
async def advise(connection: Connection, session: SessionId, *, as_json: AsJson = False) -> None:
    """Say whether a single agent would do for requests like a finished session's."""
    from chargehand_cli.advice import advice_on
    from chargehand_cli.session_files import open_report

    advice = advice_on(await open_report(connection, session))
    if as_json:
        put_json(json.dumps({"single_agent": advice.single_agent, "reasons": advice.reasons}, indent=1))
        return
    put("A single agent would do." if advice.single_agent else "It gains from its crew.")
    for reason in advice.reasons:
        put(f"- {one_safe_line(reason, 400)}")


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
    made = (await open_report(connection, session)).artifacts
    if to is not None and made:
        return await _download(connection, made, to, replace=force, as_json=as_json)
    if as_json:
        put_json(json.dumps([each.model_dump(mode="json") for each in made], indent=1))
    elif not made:
        say(f"Session {session} made no files.")
    else:
        for each in made:
            put(_describe_artifact(each, each.name))
        say(f"To download them: `chargehand artifacts {session} --to DIR`")
    return Exit.DONE


@verb(app, location=FILES)
async def verify(
    connection: Connection,
    session: Annotated[str | None, typer.Argument(metavar="SESSION", help="Session ID.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Verify this report instead, a JSON file such as report.json.")
    ] = None,
    docs: Documents = None,
    as_json: AsJson = False,
) -> Exit:
    """Check that a report's quotations occur in its documents, and list what each claim rests on.

    Exits with 1 if a quotation does not occur.

    Without --docs, the documents that the session was given are used.
    """
    if (session is None) == (file is None):
        raise typer.BadParameter("Give either SESSION or --file FILE with a report as JSON.")
    connection.location.require_worker("verify with")
    report = await _find_report(connection, session, file)
    if docs:
        with tempfile.TemporaryDirectory(prefix="chargehand-verify-") as folder:
            encryption = encryption_of(os.environ)
            uris = await asyncio.to_thread(store_documents, docs, Path(folder), encryption=encryption)
            return await _verify(connection, report, uris, {"CHARGEHAND_ARTIFACTS": folder}, as_json=as_json)
    documents = await _documents_of(connection, report)
    return await _verify(connection, report, documents, {}, as_json=as_json)


async def _download(
    connection: Connection, made: "tuple[Artifact, ...]", folder: Path, *, replace: bool, as_json: bool
) -> Exit:
    from chargehand.download import download_artifacts

    location = connection.location
    if location.artifacts is None:
        raise BadRequest(
            f"Files cannot be downloaded from the workers of the server set by {location.configured_by}: "
            f"{NAME_SHARED_FILES}"
        )
    encryption = encryption_of(os.environ)
    downloads = download_artifacts(made, location.artifacts, folder, replace=replace, encryption=encryption)
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


async def _find_report(connection: Connection, session: str | None, file: Path | None) -> "Report":
    from chargehand import Report
    from chargehand_cli.session_files import open_report

    if file:
        return await asyncio.to_thread(read_model, Report, file, "report")
    assert session, "either is given"
    return await open_report(connection, session)


async def _documents_of(connection: Connection, report: "Report") -> tuple[str, ...]:
    """Ask the server which documents a session was given."""
    await connection.open(worker=False)
    try:
        documents = await connection.session(report.session).documents()
    except SessionNotFound as error:
        raise BadRequest(
            f"The server no longer knows the documents of session '{report.session}': name them with --docs, as they "
            "were named for the session."
        ) from error
    location = connection.location
    if location.artifacts is None and any(each.startswith("artifact:") for each in documents):
        raise BadRequest(
            f"The documents are stored by the workers of the server set by {location.configured_by}: "
            f"{NAME_SHARED_FILES}"
        )
    return documents


async def _verify(
    connection: Connection, report: "Report", documents: tuple[str, ...], settings: dict[str, str], *, as_json: bool
) -> Exit:
    """Have the worker program look up each quotation, and print the results."""
    from chargehand_cli.worker_program import check, put_result

    quoted = {each.ref: each for each in report.sources if each.quote}
    labels = {each.ref: f"S{number}" for number, each in enumerate(report.sources, start=1)}

    def show(result: "Checked") -> None:
        if "claim" in result:
            put_result(result, f"{result['verification']}: {one_safe_line(result['claim'], 120)}")
            return
        put_result(result, f"{labels.get(result['ref'], ''):<4} {one_safe_line(result['ref'], 300)}")

    worker = connection.location.require_worker("verify with")
    with tempfile.TemporaryDirectory(prefix="chargehand-verify-") as folder:
        file = Path(folder) / "quotations.json"
        sources = [each.model_dump(mode="json") for each in quoted.values()]
        claims = [each.model_dump(mode="json") for each in report.claims]
        file.write_text(json.dumps({"documents": documents, "sources": sources, "claims": claims}), encoding="utf-8")
        results = await check(worker, "--verify", file, settings, show=None if as_json else show)
    quotations = [each for each in results if "claim" not in each]
    resting = sum(1 for each in results if "claim" in each and each["verification"] == "quoted")
    if others := len(report.sources) - len(quotations):
        say(f"Not checked: {others} sources that are not documents (web pages, queries, computations).")
    if quotations:
        say(f"Verified quotations: {sum(1 for each in quotations if each['stands'])} of {len(quotations)}.")
    else:
        say("The report quotes no documents.")
    say(f"Claims that rest on a verified quotation: {resting} of {len(report.claims)}.")
    return Exit.FAILED if any(each["problem"] for each in results) else Exit.DONE
