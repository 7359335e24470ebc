"""Shows container runtimes that the worker polls, by a file that stays fresh while its event loop runs.

The processes of a group have a file each, and the one that is shown is as old as the oldest of these.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from activities.backends import SettingsError

_EVERY: Final = timedelta(seconds=5)
"""How often the file is touched. Probes accept a file that is younger than a minute."""
_logger: Final = logging.getLogger("chargehand.worker")


@asynccontextmanager
async def health_file(path: Path | None, *, member: int | None = None, members: int = 1) -> AsyncGenerator[None]:
    """Keep a file fresh until the block is left, and remove it then; without a path, do nothing.

    Args:
        path: of the file.
        member: the number of this process in its group; None outside any.
        members: of the group, all of which have to be healthy.

    Raises:
        SettingsError: the file cannot be written.
    """
    if path is None:
        yield
        return
    files = [path] if member is None else [Path(f"{path}.{number}") for number in range(members)]
    own = files[member or 0]
    try:
        await asyncio.to_thread(_refresh, path, own, files)
    except OSError as error:
        raise SettingsError(f"CHARGEHAND_HEALTH_FILE: {path} cannot be written: {error.strerror}") from error
    refreshing = asyncio.create_task(_keep_fresh(path, own, files))
    try:
        yield
    finally:
        refreshing.cancel()
        for each in (own, path):
            with suppress(OSError):
                each.unlink()


async def _keep_fresh(path: Path, own: Path, files: Sequence[Path]) -> None:
    """Refresh the file again and again: a full disk, say, may be mended. A problem is logged when it begins."""
    problem: int | None = None
    while True:
        await asyncio.sleep(_EVERY.total_seconds())
        try:
            await asyncio.to_thread(_refresh, path, own, files)
        except OSError as error:
            if error.errno != problem:
                _logger.warning("the health file cannot be written", extra={"problem": error.strerror})
            problem = error.errno
        else:
            problem = None


def _refresh(path: Path, own: Path, files: Sequence[Path]) -> None:
    own.touch()
    if path == own:
        return
    try:
        oldest = min(each.stat().st_mtime for each in files)
    except FileNotFoundError:
        return  # one does not poll yet, or no longer
    path.touch()
    os.utime(path, (oldest, oldest))
