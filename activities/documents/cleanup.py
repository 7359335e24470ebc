"""Remove what nobody has used for long: indexes, copies of what lies in a bucket, notes on what was downloaded.

Whatever is used is marked by the time on it, hourly at most; whatever has an old time is nobody's.
"""

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Final

_MARKED_EVERY_SECONDS: Final = 3_600
_MOST_AT_ONCE: Final = 2_000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}(\.json)?")
_REMOVING: Final = ".removing-"


def mark_used(path: Path) -> bool:
    """Note that a file or folder is in use; False if it is gone."""
    try:
        if time.time() - path.stat().st_mtime > _MARKED_EVERY_SECONDS:
            os.utime(path)
    except OSError:
        return False
    return True


def sweep(folders: Iterable[Path], unused_for: timedelta) -> int:
    """Remove what lies in these folders under a digest and is out of use; a bounded number of them at once.

    Returns how many were removed. `unused_for` must be well above an hour.
    """
    before = time.time() - unused_for.total_seconds()
    removed = 0
    for path in islice(_unused(folders, before), _MOST_AT_ONCE):
        removed += _remove(path, before)
    return removed


def _unused(folders: Iterable[Path], before: float) -> Iterator[Path]:
    for folder in folders:
        with suppress(OSError):
            for entry in list(os.scandir(folder)):
                path = Path(entry.path)
                if len(entry.name) == 2 and entry.is_dir(follow_symlinks=False):
                    yield from _unused((path,), before)
                elif entry.name.startswith(_REMOVING) or _DIGEST.fullmatch(entry.name):
                    with suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_mtime < before:
                            yield path


def _remove(path: Path, before: float) -> bool:
    aside = path.with_name(f"{_REMOVING}{secrets.token_hex(8)}")
    try:
        path.rename(aside)
        if aside.stat().st_mtime >= before:
            # Somebody began to use it in this moment.
            aside.rename(path)
            return False
        if aside.is_dir():
            shutil.rmtree(aside)
        else:
            aside.unlink()
    except OSError:
        return False
    return True
