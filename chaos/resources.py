"""A host that runs out of disk, memory or processor time."""

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

from temporalio.api.enums.v1 import TimeoutType
from temporalio.client import Client

from benchmarks.levels import resident_mb
from chaos.harness import SHIPPED, brief, open_harness, script
from chaos.outages import is_whole
from chaos.result import Demand, Result, Scale

_DISK: Final = 24 * 1024 * 1024
_MEMORY_MB: Final = 512


async def disk_full(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Fill the disk of the server and worker while sessions run, then free space again."""
    count = {"short": 8, "full": 40, "nightly": 200}[scale]
    began = time.monotonic()
    if not _mounted(folder):
        return Result("Disk full", "", skipped="only root may mount a small disk")
    try:
        async with open_harness(folder, script(0.1)) as harness:
            await harness.worker()
            running = asyncio.create_task(harness.sessions(count, at_once=4, seconds=240))
            await asyncio.sleep(2)
            harness.fault()
            _fill(folder / "ballast")
            await asyncio.sleep(8)
            (folder / "ballast").unlink()
            outcomes = await running
            result = harness.judge(
                "Disk full",
                "server's and worker's disk full for 8 s",
                outcomes,
                began,
                Demand(faults=1, successes=count),
            )
            result.require(harness.server.process.poll() is None, "the server ended")
            harness.kill_server()
            result.require(is_whole(folder / "temporal.db"), "the database is damaged")
            harness.start_server()
    finally:
        _unmount(folder)
    return result


async def queued(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start many sessions at once on one worker."""
    result, _ = await start_at_once({"short": 20, "full": 1_000, "nightly": 10_000}[scale], folder)
    return result


async def start_at_once(count: int, folder: Path) -> tuple[Result, float]:
    """Start sessions at once on a worker that may have little data memory; also return its peak in MB."""
    began = time.monotonic()
    async with open_harness(folder, brief()) as harness:
        limit = f'ulimit -d {_MEMORY_MB * 1024}; exec "$@"'
        worker = await harness.worker(["sh", "-c", limit, "sh", *SHIPPED])
        harness.fault()
        idle = resident_mb(worker.running.pid)
        running = asyncio.create_task(harness.sessions(count, at_once=count, seconds=3_000))
        peak = 0.0
        while not running.done():
            await asyncio.wait([running], timeout=0.5)
            with suppress(OSError):
                peak = max(peak, resident_mb(worker.running.pid))
        outcomes = await running
        result = harness.judge(
            "Many at once on little memory",
            f"{count:,} sessions at once on one worker of at most {_MEMORY_MB} MB",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
        workflows = await _settled_count(harness.chargehand.client)
        result.require(worker.running.returncode is None, "the worker ended")
    result.require(workflows == 2 * count, f"{workflows} workflows instead of a session and a subtask each")
    result.require(result.extra_calls == 0, f"{result.extra_calls} model calls were made twice")
    last = max(outcome.seconds for outcome in outcomes)
    result.figures = {
        "sessions a second": f"{count / last:.1f}",
        "first and last done, s": f"{min(outcome.seconds for outcome in outcomes):.0f}, {last:.0f}",
        "worker MB, idle and most": f"{idle:.0f}, {peak:.0f}",
    }
    return result, peak


async def _settled_count(client: Client) -> int:
    """Count all workflows once the count is stable: the server lists them a moment after they start."""
    count, before = (await client.count_workflows()).count, -1
    while count != before:
        await asyncio.sleep(1)
        count, before = (await client.count_workflows()).count, count
    return count


async def little_processor(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Run twice as many busy loops as there are cores alongside everything else."""
    least, seconds = {"short": (4, 3), "full": (20, 60), "nightly": (200, 120)}[scale]
    began = time.monotonic()
    async with open_harness(folder, script(0.1)) as harness:
        worker = await harness.worker()
        with _busy(2 * (os.cpu_count() or 1)) as loops:
            harness.fault(loops)
            busy_since = time.monotonic()
            outcomes = await harness.sessions_until(
                lambda done: done >= least and time.monotonic() - busy_since >= seconds, lines=4
            )
        result = harness.judge(
            "Little processor time",
            f"{loops} busy loops beside server and worker for {time.monotonic() - busy_since:.0f} s",
            outcomes,
            began,
            Demand(faults=loops, successes=least),
        )
        blocked = worker.log.count("TMPRL1101")
    result.figures = {"deadlocks reported (TMPRL1101)": str(blocked)}
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


@contextmanager
def _busy(count: int) -> Generator[int]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield count
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


async def saturated(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start more sessions at once than the machine can serve, and count workers wrongly taken for lost."""
    count = {"short": 10, "full": 100, "nightly": 300}[scale]
    began = time.monotonic()
    async with open_harness(folder, script(0.2)) as harness:
        worker = await harness.worker()
        harness.fault()
        outcomes = await harness.sessions(count, at_once=count, seconds=1_200)
        result = harness.judge(
            "Saturated",
            f"{count} sessions at once on one worker",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
        activities, timeouts = await _heartbeat_timeouts(harness.chargehand.client)
        result.require(worker.running.returncode is None, "the worker ended")
    result.require(timeouts == 0, f"{timeouts} attempts were taken for lost")
    result.require(result.extra_calls == 0, f"{result.extra_calls} model calls were made twice")
    result.figures = {"activities; heartbeat timeouts": f"{activities}; {timeouts}"}
    return result


async def _heartbeat_timeouts(client: Client) -> tuple[int, int]:
    """Count all activities, and those with an attempt that ended because of a missing heartbeat."""
    started = [
        event.activity_task_started_event_attributes
        async for execution in client.list_workflows()
        for event in (await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()).events
        if event.HasField("activity_task_started_event_attributes")
    ]
    kinds = [each.last_failure.timeout_failure_info.timeout_type for each in started]
    return len(started), kinds.count(TimeoutType.TIMEOUT_TYPE_HEARTBEAT)
