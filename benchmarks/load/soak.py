"""L5: half of the capacity, for long, with workers killed: nothing is lost, and nothing grows without bound.

One of two workers is killed again and again; the other one survives and is sampled. What a namespace's retention
and the worker's own sweep remove after days is removed here after a tenth of the run: ended sessions are deleted, and
unused files of the state directory get an older date.
"""

import asyncio
import math
import os
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from benchmarks import levels
from benchmarks.load.arrivals import arrive, carry
from chaos.harness import Harness, Outcome, Worker, open_harness, script
from chaos.result import Demand, Result

_SHARE: Final = 0.5
_MOST_OPEN: Final = 30
"""Maximum open sessions: more would mean that something else is using this machine."""
_SAMPLES: Final = 240
_MOST_SECONDS_BETWEEN: Final = 5.0
_KILL_EVERY: Final = (15, 45)
_TURN_SECONDS: Final = 0.1
_LONG_AGO_SECONDS: Final = 2 * 86_400
"""More than the one day after which a worker of this experiment sweeps its caches."""
_LEVEL: Final = 0.05
"""Maximum rise of a series over the last half, as a share of its mean."""
_FEW: Final[Mapping[str, float]] = {"MB": 5, "files": 2, "threads": 2, "processes": 2}
"""A rise up to this amount, by unit, does not count: the log of the database alone varies by 4 MB."""
_STABLE: Final = 0.2
"""Maximum rise of the last quarter's latency over the previous quarter's, as a share of it."""
_LOOKS: Final = 30
"""Number of checks, one a second: what a session leaves behind can end after it."""
_ENOUGH: Final = 100
"""Minimum sessions in a quarter; with fewer, the p95 is left to chance."""
_Span = tuple[float, float]
"""Seconds of the monotonic clock."""


@dataclass
class _Recording:
    """Named series of samples, each with its unit."""

    began: float = field(default_factory=time.monotonic)
    series: defaultdict[tuple[str, str], list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list[tuple[float, float]])
    )

    def sample(self, sources: Mapping[tuple[str, str], Callable[[], float]]) -> None:
        for name, read in sources.items():
            self.series[name].append((time.monotonic() - self.began, read()))


async def soak(minutes: float, random: Random, folder: Path) -> Result:
    """Run sessions at half of the capacity, kill workers, sample, and compare the end with the middle."""
    began = time.monotonic()
    async with open_harness(folder, script(_TURN_SECONDS)) as harness:
        steady = await harness.worker(CHARGEHAND_INDEX_DAYS="1")
        victim = await harness.worker(CHARGEHAND_INDEX_DAYS="1")
        first, capacity = await carry(harness)
        rate = _SHARE * capacity
        recording = _Recording()
        ended = deque((time.monotonic(), each) for each in first)
        sessions: list[_Span] = []
        kills: list[_Span] = []

        def note(outcome: Outcome) -> None:
            now = time.monotonic()
            ended.append((now, outcome))
            sessions.append((now - outcome.seconds, now))

        async with asyncio.TaskGroup() as beside:
            watching = [
                beside.create_task(_kill_now_and_then(harness, victim, random, kills)),
                beside.create_task(_sample(harness, steady, recording, minutes * 60)),
                beside.create_task(_forget(harness, ended, minutes * 60 / 10)),
            ]
            # With the default limits: until a deadline has passed, the server keeps its timer in the database.
            outcomes = await arrive(harness, rate, minutes * 60, note, most_open=_MOST_OPEN, limits={})
            for task in watching:
                task.cancel()
        result = harness.judge(
            "Soak",
            f"{minutes:g} minutes at half of the capacity, one of two workers killed every "
            f"{_KILL_EVERY[0]}–{_KILL_EVERY[1]} s",
            [*first, *outcomes],
            began,
            Demand(faults=int(minutes), successes=len(outcomes)),
        )
        result.require(steady.running.returncode is None, "the worker that was not killed ended")
        left = await _still_running(harness.chargehand.client)
        result.require(not left, f"{left} workflows still run, although all sessions have ended")
    harness.require_no_other_calls(result)
    started = f"{rate:.2f} planned, {len(outcomes) / minutes / 60:.2f} started"
    result.figures = {"sessions a second": started, "kills": str(harness.faults)}
    _require_level(result, recording)
    _require_stable(result, [end - start for start, end in sessions if not _met((start, end), kills)])
    return result


async def _kill_now_and_then(harness: Harness, victim: Worker, random: Random, kills: list[_Span]) -> None:
    while True:
        await asyncio.sleep(random.uniform(*_KILL_EVERY))
        harness.fault()
        killed_at = time.monotonic()
        kills.append((killed_at, math.inf))
        await victim.restart()
        await harness.polled(victim)
        kills[-1] = (killed_at, time.monotonic())


def _met(session: _Span, kills: Sequence[_Span]) -> bool:
    """Return whether a worker was down at some time during a session."""
    return any(session[0] < back_at and killed_at < session[1] for killed_at, back_at in kills)


async def _sample(harness: Harness, worker: Worker, recording: _Recording, seconds: float) -> None:
    """Sample the surviving worker, the server and the disk."""
    pids = {"worker": worker.running.pid, "server": harness.server.process.pid}
    sources: dict[tuple[str, str], Callable[[], float]] = {}
    for name, pid in pids.items():
        sources[f"{name}, resident", "MB"] = lambda pid=pid: levels.resident_mb(pid)
        sources[f"{name}, open files and connections", "files"] = lambda pid=pid: levels.descriptors(pid)
        sources[f"{name}, threads", "threads"] = lambda pid=pid: levels.threads(pid)
    sources["worker, children", "processes"] = lambda: len(levels.children(pids["worker"]))
    sources["state directory", "MB"] = lambda: levels.stored_mb(harness.folder / "state")
    database = [harness.folder / "temporal.db", harness.folder / "temporal.db-wal"]
    sources["server database with its log", "MB"] = lambda: levels.stored_mb(*database)
    while True:
        recording.sample(sources)
        await asyncio.sleep(min(_MOST_SECONDS_BETWEEN, seconds / _SAMPLES))


async def _forget(harness: Harness, ended: deque[tuple[float, Outcome]], after: float) -> None:
    """Remove what ended this long ago, as days of retention would; the books need only heads of model calls."""
    slimmed = 0
    while True:
        await asyncio.sleep(1)
        while ended and ended[0][0] < time.monotonic() - after:
            if report := ended.popleft()[1].report:
                ids = [report.session, *(record.workflow_id or "" for record in report.subtasks)]
                await _delete(harness.chargehand.client, [each for each in ids if each])
        await asyncio.to_thread(_age, harness.folder / "state", after)
        for exchange in harness.provider.exchanges[slimmed : max(slimmed, len(harness.provider.exchanges) - 1_000)]:
            exchange.request = replace(exchange.request, system="", messages=(), body={})
            slimmed += 1


async def _delete(client: Client, workflow_ids: Sequence[str]) -> None:
    """Delete workflows; one that the busy server does not delete in time stays, and adds to the database size."""
    for workflow_id in workflow_ids:
        execution = WorkflowExecution(workflow_id=workflow_id)
        request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
        with suppress(RPCError):
            await client.workflow_service.delete_workflow_execution(request, retry=True)


async def _still_running(client: Client) -> int:
    """Return the number of running workflows, once it is 0 or after a while."""
    for _ in range(_LOOKS):
        if not (await client.count_workflows("ExecutionStatus = 'Running'")).count:
            return 0
        await asyncio.sleep(1)
    return (await client.count_workflows("ExecutionStatus = 'Running'")).count


def _age(folder: Path, after: float) -> None:
    """Give files that were unused for this long a much older date."""
    now = time.time()
    for file in folder.rglob("*"):
        try:
            used_at = file.stat().st_mtime
            if now - _LONG_AGO_SECONDS / 2 < used_at < now - after:
                os.utime(file, (now - _LONG_AGO_SECONDS, now - _LONG_AGO_SECONDS))
        except OSError:
            continue


def _require_level(result: Result, recording: _Recording) -> None:
    figures = dict(result.figures)
    for (name, unit), samples in recording.series.items():
        half = [value for _, value in samples[len(samples) // 2 :]]
        rises = levels.change(samples)
        figures[f"{name}, {unit}"] = (
            f"{samples[0][1]:.1f}, {statistics.mean(half):.1f}, {max(value for _, value in samples):.1f}; "
            f"{rises:.1%}, {levels.growth_per_hour(samples):+.1f} % an hour"
        )
        few = rises * statistics.mean(half) <= _FEW[unit]
        result.require(rises <= _LEVEL or few, f"{name} still grows: {rises:.1%} over the last half")
    result.figures = figures


def _require_stable(result: Result, seconds: Sequence[float]) -> None:
    """Compare quarters of the sessions that no kill hit, since how many sessions a kill hits is chance."""
    quarter = len(seconds) // 4
    if not quarter:
        result.problems.append("kills met nearly all sessions")
        return
    third, fourth = _p95(seconds[-2 * quarter : -quarter]), _p95(seconds[-quarter:])
    result.figures = {
        **result.figures,
        "sessions that met no kill; median, s": f"{len(seconds)}; {statistics.median(seconds):.2f}",
        "p95 in the third and last quarter, s": f"{third:.2f}, {fourth:.2f}",
    }
    is_stable = quarter < _ENOUGH or fourth <= third * (1 + _STABLE)
    result.require(is_stable, f"p95 rises from {third:.2f} s to {fourth:.2f} s")


def _p95(seconds: Sequence[float]) -> float:
    """Return the time that one session in twenty exceeds: kills delay more than one in a hundred."""
    ascending = sorted(seconds)
    return ascending[-(-len(ascending) * 95 // 100) - 1]
