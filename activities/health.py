"""Shows container runtimes that the worker polls, by a file that stays fresh while its event loop runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from activities.backends import SettingsError

_EVERY: Final = timedelta(seconds=5)
"""How often the file is touched. Probes accept a file that is younger than a minute."""


@asynccontextmanager
async def health_file(path: Path | None) -> AsyncGenerator[None]:
    """Keep a file fresh until the block is left, and remove it then; without a path, do nothing.

    Raises:
        SettingsError: the file cannot be written.
    """
    if path is None:
        yield
        return
    try:
        await asyncio.to_thread(path.touch)
    except OSError as error:
        raise SettingsError(f"CHARGEHAND_HEALTH_FILE: {path} cannot be written: {error.strerror}") from error
    touching = asyncio.create_task(_touch(path))
    try:
        yield
    finally:
        touching.cancel()
        path.unlink(missing_ok=True)  # noqa: ASYNC240  # one call, when the worker stops


async def _touch(path: Path) -> None:
    while True:
        await asyncio.sleep(_EVERY.total_seconds())
        await asyncio.to_thread(path.touch)
