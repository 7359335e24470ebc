"""A host that runs short: of disk, of memory, of processor time."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

from tests.chaos.ground import open_ground, script
from tests.chaos.outages import is_whole
from tests.chaos.result import Demand, Result, Scale

_DISK: Final = 24 * 1024 * 1024
_MEMORY_MB: Final = 512


async def disk_full(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Fill the disk under server and worker while sessions run, then make room again."""
    count = {"short": 8, "full": 40, "nightly": 200}[scale]
    began = time.monotonic()
    if not _mounted(folder):
        return Result("F10 disk full", "", skipped="only root may mount a small disk")
    try:
        async with open_ground(folder, script(0.1)) as ground:
            await ground.worker()
            running = asyncio.create_task(ground.sessions(count, at_once=4, seconds=240))
            await asyncio.sleep(2)
            ground.fault()
            _fill(folder / "ballast")
            await asyncio.sleep(8)
            (folder / "ballast").unlink()
            outcomes = await running
            result = ground.judge(
                "F10 disk full",
                "the disk of server and worker full for 8 s",
                outcomes,
                began,
                Demand(faults=1, successes=count),
            )
            result.require(ground.server.process.poll() is None, "the server ended")
            ground.kill_server()
            result.require(is_whole(folder / "temporal.db"), "the database is damaged")
            ground.start_server()
    finally:
        _unmount(folder)
    return result


async def little_memory(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Give the worker a small address space for its data and many sessions that wait."""
    count = {"short": 20, "full": 300, "nightly": 1_000}[scale]
    began = time.monotonic()
    async with open_ground(folder, script(2.0)) as ground:
        limit = f'ulimit -d {_MEMORY_MB * 1024}; exec "$@"'
        worker = await ground.worker(before=["sh", "-c", limit, "sh"])
        ground.fault()
        running = asyncio.create_task(ground.sessions(count, at_once=count, seconds=900))
        peak = 0
        while not running.done():
            await asyncio.wait([running], timeout=0.5)
            with suppress(OSError):
                peak = max(peak, _resident_mb(worker.running.pid))
        outcomes = await running
        result = ground.judge(
            "F09 little memory",
            f"{count} sessions at once on a worker that may have {_MEMORY_MB} MB of data",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
        result.require(worker.running.returncode is None, "the worker ended")
    result.figures = {"most memory resident, MB": str(peak)}
    return result


async def little_processor(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Let twice as many busy loops as there are cores compete with everything."""
    count = {"short": 6, "full": 60, "nightly": 200}[scale]
    began = time.monotonic()
    async with open_ground(folder, script(0.1)) as ground:
        worker = await ground.worker()
        with _busy(2 * (os.cpu_count() or 1)) as loops:
            ground.fault(loops)
            outcomes = await ground.sessions(count, at_once=8)
        result = ground.judge(
            "F11 little processor time",
            f"{loops} busy loops beside server and worker",
            outcomes,
            began,
            Demand(faults=loops, successes=count),
        )
        blocked = worker.log.count("TMPRL1101")
    result.figures = {"workflow tasks taken for deadlocked (TMPRL1101)": str(blocked)}
    return result


def _mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "chargehand-chaos", str(folder)]
    try:
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _fill(file: Path) -> None:
    piece = b"\0" * 4096
    with file.open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(piece) == len(piece):
            pass


def _resident_mb(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000


@contextmanager
def _busy(count: int) -> Generator[int]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield count
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
