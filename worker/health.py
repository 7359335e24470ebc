"""Health of a worker: a file touched while its event loop runs, for container runtimes, and the loop's lag.

Each process of a group has a file, and the public file is as old as the oldest of these. A blocked loop delays all
sessions of the worker; a thread sends heartbeats in the meantime. A process that is blocked for too long ends.
"""

import asyncio
import faulthandler
import logging
import math
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from temporalio.common import MetricMeter

from activities.backends import SettingsError
from activities.metrics import EVENT_LOOP_LAG

_EVERY: Final = timedelta(seconds=5)
"""Interval of touching the file. Probes accept a file younger than a minute."""
FROZEN_AFTER: Final = timedelta(minutes=1)
"""Same as the probes: an orchestrator can take minutes more to end a process; others only report it."""
_LOOK: Final = timedelta(milliseconds=50)
_WARN_ABOVE: Final = timedelta(milliseconds=250)
_WARN_EVERY: Final = timedelta(seconds=10)
_logger: Final = logging.getLogger("chargehand.worker")
_watchdog: Final = logging.getLogger("chargehand.watchdog")


@asynccontextmanager
async def health_file(path: Path | None, *, member: int | None = None, members: int = 1) -> AsyncGenerator[None]:
    """Keep a file fresh until the block exits, and then remove it; without a path, do nothing.

    Args:
        path: the file's path.
        member: the number of this process in its group; None without a group.
        members: the size of the group, all of which must be healthy.

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
    """Touch the file repeatedly, since problems such as a full disk may pass. A problem is logged once."""
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
        return  # one is not polling yet, or no longer
    path.touch()
    os.utime(path, (oldest, oldest))


async def end_if_frozen(after: timedelta = FROZEN_AFTER) -> None:
    """End this process if its event loop is blocked for too long, and log where each thread is.

    A loop in C can hold Python's lock, so that no signal and no other Python thread could end it.
    """
    try:
        while True:
            faulthandler.dump_traceback_later(after.total_seconds(), exit=True)
            await asyncio.sleep(min(_EVERY, after / 3).total_seconds())
    finally:
        faulthandler.cancel_dump_traceback_later()


async def watch_event_loop(
    meter: MetricMeter = MetricMeter.noop, *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Measure the loop's lag until cancelled; warn about long lags at a limited rate."""
    lags = meter.create_histogram_timedelta(*EVENT_LOOP_LAG)
    quiet_until = -math.inf
    long_lags: list[float] = []
    while True:
        due = clock() + _LOOK.total_seconds()
        await asyncio.sleep(_LOOK.total_seconds())
        now = clock()
        lag = max(0.0, now - due)
        lags.record(timedelta(seconds=lag))
        if lag > _WARN_ABOVE.total_seconds():
            long_lags.append(lag)
        if long_lags and now >= quiet_until:
            longest_ms, times = round(max(long_lags) * 1_000), len(long_lags)
            _watchdog.warning(
                "the event loop stood still: something blocks it, or this machine has too much to do "
                "(longest %d ms, times %d)",
                longest_ms,
                times,
                extra={"longest_ms": longest_ms, "times": times},
            )
            quiet_until = now + _WARN_EVERY.total_seconds()
            long_lags.clear()
