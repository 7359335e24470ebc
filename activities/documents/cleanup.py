"""Removal of files that have not been used for a long time: indexes, cached artifacts, records of downloads.

Using a file updates its modification time, at most once an hour; a file with an old time is unused.
"""

import asyncio
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Final

_MARKED_EVERY_SECONDS: Final = 3_600
_SWEPT_EVERY_SECONDS: Final = 3_600
_MOST_AT_ONCE: Final = 2_000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}(\.json)?")
_REMOVING: Final = ".removing-"
_LEFT_OVER: Final = (_REMOVING, ".draft-")
"""Name prefixes of files left behind by a killed process."""


def mark_used(path: Path) -> bool:
    """Update the modification time of a file or folder; False if it is gone."""
    try:
        if time.time() - path.stat().st_mtime > _MARKED_EVERY_SECONDS:
            os.utime(path)
    except OSError:
        return False
    return True


async def keep_swept(folders: Sequence[Path], unused_for: timedelta) -> None:
    """Remove unused files now and every hour, until cancelled."""
    while True:
        while await asyncio.to_thread(sweep, folders, unused_for):
            pass
        await asyncio.sleep(_SWEPT_EVERY_SECONDS)


def sweep(folders: Iterable[Path], unused_for: timedelta) -> int:
    """Remove unused files named by a digest in these folders, a limited number per call; return how many.

    `unused_for` must be well above an hour.
    """
    before = time.time() - unused_for.total_seconds()
    removed = 0
    for path in islice(_unused_files(folders, before), _MOST_AT_ONCE):
        removed += _remove(path, before)
    return removed


def _unused_files(folders: Iterable[Path], before: float) -> Iterator[Path]:
    for folder in folders:
        with suppress(OSError):
            for entry in list(os.scandir(folder)):
                path = Path(entry.path)
                if len(entry.name) == 2 and entry.is_dir(follow_symlinks=False):
                    yield from _unused_files((path,), before)
                elif entry.name.startswith(_LEFT_OVER) or _DIGEST.fullmatch(entry.name):
                    with suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_mtime < before:
                            yield path


def _remove(path: Path, before: float) -> bool:
    aside = path.with_name(f"{_REMOVING}{secrets.token_hex(8)}")
    try:
        path.rename(aside)
        if aside.stat().st_mtime >= before:
            # It was used in the meantime.
            aside.rename(path)
            return False
        if aside.is_dir():
            shutil.rmtree(aside)
        else:
            aside.unlink()
    except OSError:
        return False
    return True
