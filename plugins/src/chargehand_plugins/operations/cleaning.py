"""Delete stored payloads and artifacts that no session needs any more.

One may be needed for as long as a workflow exists that was started before it was last stored or used, since only such a
workflow can refer to it. So whatever is younger than the oldest workflow of the namespace stays.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from temporalio.client import Client

from chargehand.visibility import list_executions

_MARGIN: Final = timedelta(hours=1)
"""For clocks that differ, and for input that is stored before its workflow starts."""


@dataclass(frozen=True)
class Cleaning:
    """What was, or would be, deleted."""

    files: int
    bytes: int
    kept: int
    """Files that stay."""
    before: datetime
    """Only what was last stored or used before this is deleted."""


async def clean(client: Client, folders: Sequence[Path], older_than: timedelta, *, delete: bool) -> Cleaning:
    """Find files that are older and that no workflow of the client's namespace needs; delete them if told to."""
    before = datetime.now(UTC) - max(older_than, _MARGIN)
    query = f"StartTime < '{before.isoformat()}'"
    async for execution in list_executions(client, query):
        before = min(before, execution.start_time.ToDatetime(UTC) - _MARGIN)
    return await asyncio.to_thread(_clean, folders, before, delete=delete)


def _clean(folders: Sequence[Path], before: datetime, *, delete: bool) -> Cleaning:
    limit = before.timestamp()
    files = size = kept = 0
    for path in (path for folder in folders for path in _files(folder)):
        with suppress(FileNotFoundError):  # another process cleans too
            found = path.stat()
            if found.st_mtime >= limit or (delete and not _delete(path, limit)):
                kept += 1
            else:
                files += 1
                size += found.st_size
    return Cleaning(files, size, kept, before)


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for shelf in sorted(folder.iterdir()):
            if shelf.is_dir():
                yield from (path for path in shelf.iterdir() if path.is_file())


def _delete(path: Path, limit: float) -> bool:
    """Delete a file unless it is stored again at this moment: who stores it renews its time, or finds it gone."""
    aside = path.with_name(f".{path.name}.{time.monotonic_ns()}")
    path.rename(aside)
    if aside.stat().st_mtime >= limit:
        aside.rename(path)
        return False
    aside.unlink()
    return True
