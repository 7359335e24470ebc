"""`verify`: find out whether every quotation of a report stands in the document that it names.

This package opens no documents, so the application's own program looks: here the report and its documents are found.
"""

import asyncio
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chargehand.errors import SessionNotFound
from chargehand.payloads.settings import encryption_of
from chargehand.upload import store_documents
from chargehand_cli.connection import Connection
from chargehand_cli.exit_codes import Exit
from chargehand_cli.location import NAME_WHAT_IS_SHARED, Place
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.request_options import BadRequest
from chargehand_cli.session_commands import report_of
from chargehand_cli.terminal import put, say
from chargehand_cli.worker_program import Checked, check, require_application

if TYPE_CHECKING:
    from chargehand.contracts import Report


@dataclass(frozen=True)
class Asked:
    """Whose quotations are looked up, and where."""

    session: str | None
    file: Path | None
    """A report as JSON, if it is not that of `session`."""
    documents: tuple[Path, ...] = ()
    """What is looked into, if not the documents that the session was given."""
    as_json: bool = False


async def verify(connection: Connection, asked: Asked) -> Exit:
    """Check a session's report, or a report from a file, against the documents that the session was given."""
    require_application(connection.place)
    report = await asyncio.to_thread(_read, asked.file) if asked.file else None
    await connection.open()
    if asked.session:
        report = await report_of(connection, asked.session)
    assert report, "one of both is asked"
    if asked.documents:
        return await _verify_here(connection.place, report, asked)
    place = connection.place
    documents = await _documents_of(connection, report)
    if place.artifacts is None and any(each.startswith("artifact:") for each in documents):
        raise BadRequest(
            f"The documents are with the workers of the server that {place.configured_by} names: {NAME_WHAT_IS_SHARED}"
        )
    return await _verify(place, report, documents, {}, asked)


async def verify_here(place: Place, asked: Asked) -> Exit:
    """Check a report from a file against documents of this machine; needs no server."""
    assert asked.file, "it is asked"
    return await _verify_here(place, await asyncio.to_thread(_read, asked.file), asked)


async def _verify_here(place: Place, report: "Report", asked: Asked) -> Exit:
    with tempfile.TemporaryDirectory(prefix="chargehand-verify-") as folder:
        encryption = encryption_of(os.environ)
        uris = await asyncio.to_thread(store_documents, asked.documents, Path(folder), encryption=encryption)
        return await _verify(place, report, uris, {"CHARGEHAND_ARTIFACTS": folder}, asked)


async def _documents_of(connection: Connection, report: "Report") -> tuple[str, ...]:
    try:
        return (await connection.session(report.session).request()).documents
    except SessionNotFound as error:
        raise BadRequest(
            f"The server knows nothing of session '{report.session}' any more, so nobody knows its documents: name "
            "them with --docs, as they were named for the session."
        ) from error


async def _verify(
    place: Place, report: "Report", documents: tuple[str, ...], settings: dict[str, str], asked: Asked
) -> Exit:
    quoted = {each.ref: each for each in report.sources if each.quote}
    labels = {each.ref: f"S{number}" for number, each in enumerate(report.sources, start=1)}

    def show(result: Checked) -> None:
        mark = "✘" if result["problem"] else "✔"
        put(f"{mark} {labels.get(result['ref'], ''):<4} {one_safe_line(result['ref'], 300)}")
        if result["problem"]:
            put(f"       {one_safe_line(result['problem'], 600)}")

    with tempfile.TemporaryDirectory(prefix="chargehand-verify-") as folder:
        file = Path(folder) / "quotations.json"
        sources = [each.model_dump(mode="json") for each in quoted.values()]
        file.write_text(json.dumps({"documents": documents, "sources": sources}), encoding="utf-8")
        results = await check(place, "--verify", file, settings, show=None if asked.as_json else show)
    if asked.as_json:
        put(json.dumps(results, indent=1))
    false = sum(1 for each in results if each["problem"])
    if elsewhere := len(report.sources) - len(results):
        say(f"Sources that quote no document (web pages, queries, computations), not looked up: {elsewhere}.")
    if not results:
        say("The report quotes no document.")
        return Exit.DONE
    say(f"Quotations that stand where the report says: {len(results) - false} of {len(results)}.")
    return Exit.FAILED if false else Exit.DONE


def _read(file: Path) -> "Report":
    from pydantic import ValidationError  # noqa: PLC0415  # slow to load

    from chargehand.contracts import Report  # noqa: PLC0415  # as above
    from chargehand.converter import describe_problems  # noqa: PLC0415  # as above

    try:
        return Report.model_validate_json(file.read_bytes())
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        raise BadRequest(f"{file} is no report as JSON: {'; '.join(describe_problems(error, Report))}") from error
