"""`artifacts`: the files that a session's agents made."""

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from chargehand.payloads.settings import encryption_of
from chargehand_cli.connection import Connection
from chargehand_cli.exit_codes import Exit
from chargehand_cli.location import NAME_WHAT_IS_SHARED
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.request_options import BadRequest
from chargehand_cli.session_commands import report_of
from chargehand_cli.terminal import put, say

if TYPE_CHECKING:
    from chargehand.contracts import Artifact
    from chargehand.download import Downloaded


async def artifacts(
    connection: Connection, session_id: str, folder: Path | None, *, replace: bool, as_json: bool
) -> Exit:
    """List the files of a session, or bring them into a folder."""
    await connection.open()
    made = (await report_of(connection, session_id)).artifacts
    if folder is not None and made:
        downloaded = await asyncio.to_thread(_download, connection, made, folder, replace=replace)
        return _tell(downloaded, folder, as_json=as_json)
    if as_json:
        put(json.dumps([each.model_dump(mode="json") for each in made], indent=1))
    elif not made:
        say(f"The agents of session {session_id} made no files.")
    else:
        for each in made:
            put(_line(each, each.name))
        say(f"`chargehand artifacts {session_id} --to DIR` brings them here.")
    return Exit.DONE


def _download(
    connection: Connection, made: "tuple[Artifact, ...]", folder: Path, *, replace: bool
) -> "list[Downloaded]":
    from chargehand.download import download_artifacts  # noqa: PLC0415  # slow to load

    place = connection.place
    if place.artifacts is None:
        raise BadRequest(
            f"Files cannot be taken from the workers of the server that {place.configured_by} names: "
            f"{NAME_WHAT_IS_SHARED}"
        )
    encryption = encryption_of(os.environ)
    return [*download_artifacts(made, place.artifacts, folder, replace=replace, encryption=encryption)]


def _tell(downloaded: "list[Downloaded]", folder: Path, *, as_json: bool) -> Exit:
    if as_json:
        told = [
            each.artifact.model_dump(mode="json") | {"path": str(each.path), "problem": each.problem}
            for each in downloaded
        ]
        put(json.dumps(told, indent=1))
    missing = [each for each in downloaded if each.problem]
    for each in downloaded:
        if each.problem:
            say(f"✘ {each.path}: {one_safe_line(each.problem, 400)}")
        elif not as_json:
            put(_line(each.artifact, str(each.path)))
    if missing:
        say(f"{len(missing)} of {len(downloaded)} files could not be brought to {folder}.")
        return Exit.FAILED
    return Exit.DONE


def _line(artifact: "Artifact", name: str) -> str:
    from chargehand_cli.rendering.text import size  # noqa: PLC0415  # slow to load

    facts = [one_safe_line(name, 300), one_safe_line(artifact.media_type, 60), size(artifact.bytes)]
    return "  ".join([*facts, one_safe_line(artifact.title)]).rstrip()
