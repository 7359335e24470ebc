"""The main job: what a session takes of time, processor, memory and history, beside the same job on the bare SDK."""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from temporalio.client import Client

from benchmarks import processes
from benchmarks.jobs import HistorySize, Measured, bare_runs, measure, own_runs, until_polled
from benchmarks.scripted import Shape
from benchmarks.tables import Row
from chargehand.client import Chargehand

_WARM_UP: Final = 3
_OWN_PER_BARE: Final = 3
"""Three sessions for each bare job, taking turns, so that whatever else the machine does falls on both."""


_MOST_SECONDS: Final = 45
"""On a busy machine fewer jobs are measured."""


@dataclass(frozen=True)
class Side:
    """What one kind of job came to."""

    jobs: Sequence[Measured]
    peak_rss: int

    def walls(self) -> list[float]:
        return sorted(job.wall.total_seconds() * 1_000 for job in self.jobs)

    def median_wall(self) -> float:
        return statistics.median(self.walls())

    def cpu(self, *names: str) -> float:
        """Average milliseconds a job."""
        return statistics.mean(sum(job.cpu[name] for name in names) for job in self.jobs) * 1_000

    def most(self, workflow: Literal["parent", "child"], unit: Literal["events", "bytes"]) -> int:
        """The same job takes more or fewer workflow tasks, as its subtasks end apart or together."""
        sizes: list[HistorySize] = [getattr(job, workflow) for job in self.jobs]
        return max(getattr(size, unit) for size in sizes)


async def main_job(*, wire: bool, jobs: int) -> tuple[Sequence[Row], Sequence[str]]:
    """Run sessions and bare jobs by turns on one server, each with a worker process of its own."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        with processes.server(folder) as server:
            if not wire:
                return await _by_turns(server.address, server.process.pid, "", folder, jobs)
            with processes.provider(folder) as provider:
                return await _by_turns(server.address, server.process.pid, provider, folder, jobs)


async def _by_turns(
    address: str, server_pid: int, provider: str, folder: Path, jobs: int
) -> tuple[Sequence[Row], Sequence[str]]:
    with (
        processes.worker("own", address, "own", folder, provider) as own_worker,
        processes.worker("bare", address, "bare", folder, provider) as bare_worker,
    ):
        chargehand = await Chargehand.connect(address, task_queue="own")
        client = await Client.connect(address)
        await until_polled(client, own_worker)
        await until_polled(client, bare_worker)
        own, bare = own_runs(chargehand), bare_runs(client, "bare")
        shape = Shape()
        for _ in range(_WARM_UP):
            await measure(client, own, shape, {})
            await measure(client, bare, shape, {})
        own_pid, bare_pid = own_worker.process.pid, bare_worker.process.pid
        common = {"client": os.getpid(), "server": server_pid}
        sessions: list[Measured] = []
        others: list[Measured] = []
        give_up_at = time.monotonic() + _MOST_SECONDS
        for number in range(jobs):
            if time.monotonic() > give_up_at:
                break
            sessions.append(await measure(client, own, shape, common | {"worker": own_pid}))
            if number % _OWN_PER_BARE == 0:
                others.append(await measure(client, bare, shape, common | {"worker": bare_pid}))
        rows = _rows(
            shape,
            Side(sessions, processes.peak_rss_bytes(own_pid)),
            Side(others, processes.peak_rss_bytes(bare_pid)),
        )
        return rows, [f"{len(sessions)} sessions and {len(others)} bare jobs, one after another, by turns"]


def _rows(shape: Shape, own: Side, bare: Side) -> Sequence[Row]:
    ideal = shape.ideal.total_seconds() * 1_000
    return [
        _row("wall/ideal", own.median_wall() / ideal, bare.median_wall() / ideal, 1.20),
        _row("wall median, ms", own.median_wall(), bare.median_wall()),
        _row("wall min, ms", own.walls()[0], bare.walls()[0]),
        _row("wall p95, ms", _p95(own.walls()), _p95(bare.walls())),
        _row("CPU client+worker, ms a job", own.cpu("client", "worker"), bare.cpu("client", "worker"), 130),
        _row("CPU worker, ms a job", own.cpu("worker"), bare.cpu("worker")),
        _row("CPU server, ms a job", own.cpu("server"), bare.cpu("server")),
        _row("worker peak RSS, MB", own.peak_rss / 1e6, bare.peak_rss / 1e6, 160),
        _row("events, parent, at most", own.most("parent", "events"), bare.most("parent", "events"), 60),
        _row("history bytes, parent, at most", own.most("parent", "bytes"), bare.most("parent", "bytes"), 40_000),
        _row("events, subtask, at most", own.most("child", "events"), bare.most("child", "events"), 40),
        _row("history bytes, subtask, at most", own.most("child", "bytes"), bare.most("child", "bytes")),
    ]


def _row(what: str, own: float, bare: float, target: float | None = None) -> Row:
    verdict = None if target is None else "pass" if own <= target else "MISS"
    return {
        "": what,
        "Chargehand": own,
        "bare SDK": bare,
        "ratio": own / bare,
        "at most": target,
        "verdict": verdict,
    }


def _p95(ascending: Sequence[float]) -> float:
    return ascending[-(-len(ascending) * 95 // 100) - 1]
