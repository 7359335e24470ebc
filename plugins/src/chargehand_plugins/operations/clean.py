"""Delete files that no session needs."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from temporalio.client import Client

from chargehand.bucket import bucket_location
from chargehand.payloads.settings import protection_from
from chargehand.payloads.storage import PayloadDirectory
from chargehand.record import FOLDER
from chargehand.visibility import list_executions
from chargehand_cli.connection import Connection
from chargehand_cli.location import Location
from chargehand_cli.rendering.text import size
from chargehand_cli.terminal import put

_MARGIN: Final = timedelta(hours=1)
"""Margin for clock skew, and for input stored before its workflow starts."""


async def clean_up(connection: Connection, before: datetime, *, delete: bool) -> None:
    """Delete old files that no session on the server needs, or report what would be deleted."""
    client = connection.chargehand.client
    storage = protection_from(os.environ, client.namespace, usual_storage=connection.location.storage).storage
    folders = _folders_of_files(connection.location, storage.driver if storage else None)
    done = await clean_folders(client, folders, before, delete=delete)
    verb = "Deleted" if delete else "Would delete"
    put(f"{verb} {done.files} files ({size(done.bytes)}) last used before {done.before:%Y-%m-%d %H:%M} UTC.")
    put(f"{done.kept} files remain." if delete else f"{done.kept} files would remain. Delete with --delete.")


def _folders_of_files(location: Location, payloads: object) -> list[Path]:
    folders = {location.state / "artifacts", location.state / "crews"}
    if isinstance(payloads, PayloadDirectory):
        folders.add(payloads.folder)
    if location.artifacts and bucket_location(location.artifacts) is None:
        folders.add(Path(location.artifacts).absolute())
    folders |= {location.state / FOLDER, *(folder / FOLDER for folder in folders)}
    return sorted(folders)


@dataclass(frozen=True)
class Cleaning:
    """What was or would be deleted."""

    files: int
    bytes: int
    kept: int
    """Files that are kept."""
    before: datetime
    """Only files last stored or used before this time can be deleted."""


async def clean_folders(client: Client, folders: Sequence[Path], before: datetime, *, delete: bool) -> Cleaning:
    """Find old files that no workflow of the client's namespace needs; delete them if requested.

    A file can be needed as long as a workflow exists that was started before the file was last stored or used, since
    only such a workflow can refer to it. So everything younger than the namespace's oldest workflow is kept.
    """
    before = min(before.astimezone(UTC), datetime.now(UTC) - _MARGIN)
    query = f"StartTime < '{before.isoformat()}'"
    async for execution in list_executions(client, query):
        before = min(before, execution.start_time.ToDatetime(UTC) - _MARGIN)
    return await asyncio.to_thread(_clean, folders, before, delete=delete)


def _clean(folders: Sequence[Path], before: datetime, *, delete: bool) -> Cleaning:
    limit = before.timestamp()
    files = size = remaining = 0
    for path in (path for folder in folders for path in _files(folder)):
        with suppress(FileNotFoundError):  # another process is cleaning too
            status = path.stat()
            if status.st_mtime >= limit or (delete and not _delete(path, limit)):
                remaining += 1
            else:
                files += 1
                size += status.st_size
    return Cleaning(files, size, remaining, before)


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for shelf in sorted(folder.iterdir()):
            if shelf.is_dir():
                yield from (path for path in shelf.iterdir() if path.is_file())


def _delete(path: Path, limit: float) -> bool:
    """Delete a file unless it is being stored again: storing renews its time, or notices the deletion."""
    aside = path.with_name(f".{path.name}.{time.monotonic_ns()}")
    path.rename(aside)
    if aside.stat().st_mtime >= limit:
        aside.rename(path)
        return False
    aside.unlink()
    return True
