"""The main job in Chargehand and in hand-written workflows, alternating, on one embedded server in one run."""

import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from temporalio.client import Client

from benchmarks import processes
from benchmarks.jobs import Run, hand_written_runs, measure, own_runs, until_polled
from benchmarks.processes import Worker
from benchmarks.scripted import Shape, input_bytes, respond
from benchmarks.tables import Row, written
from chargehand.client import Chargehand
from tests.scripted_provider import ScriptedProvider

_WARM_UP: Final = 3
_AT_ONCE: Final = 100
_BURSTS: Final = 2
_WIDE: Final = Shape(subtasks=100)
_WIDE_JOBS: Final = 3
_STARTS: Final = 3
_KILLS: Final = 3
_IN_THE_TOOL: Final = 0.06
"""Seconds after all agents' first turns are answered until each of them waits for its tool."""
_BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True)
class Side:
    """One way to do the job."""

    name: str
    kind: processes.Kind
    children: bool = True
    in_turn: bool = False
    """Whether a hand-written turn also runs the tool that it asks for."""
    figures: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list), compare=False)
    """Measurements by row name."""

    async def run(self, address: str, task_queue: str) -> Run:
        """Connect a client; every job run through it waits for its result."""
        if self.kind != "hand-written":
            return own_runs(await Chargehand.connect(address, task_queue=task_queue))
        return hand_written_runs(
            await Client.connect(address), task_queue, children=self.children, in_turn=self.in_turn
        )


@dataclass(frozen=True)
class Asked:
    """A row of the table and its required range."""

    what: str
    at_most: float | None = None
    at_least: float | None = None

    def verdict(self, value: float) -> str | None:
        if self.at_most is None and self.at_least is None:
            return None
        is_above = self.at_most is not None and value > self.at_most
        is_below = self.at_least is not None and value < self.at_least
        return "MISS" if is_above or is_below else "pass"


_RATIO: Final = Asked("wall/ideal", at_most=1.20)
_WALL: Final = Asked("wall, ms")
_CPU: Final = Asked("worker + client CPU, ms a job", at_most=130)
_SERVER: Final = Asked("server CPU, ms a job", at_most=230)
_BURST: Final = Asked(f"jobs/s, {_AT_ONCE} at once, one worker", at_least=6)
_WIDTH: Final = Asked(f"width {_WIDE.subtasks} in one session, s", at_most=3)
_HISTORY: Final = Asked("history, kB, all workflows", at_most=50)
_EVENTS: Final = Asked("history events, all workflows")
_FIRST: Final = Asked('first job after "ready" over a warm one, s', at_most=0.1)
_START: Final = Asked('start of a worker until "ready", s')
_RESUMED: Final = Asked("killed worker: restart to answer, s", at_most=3)
_PAID_TWICE: Final = Asked("killed worker: model calls paid twice", at_most=0)
_TOKENS: Final = Asked(f"input tokens a job ({_BYTES_PER_TOKEN} bytes each)")
_MEMORY: Final = Asked("worker, most resident memory, MB", at_most=160)
_ROWS: Final = (
    *(_RATIO, _WALL, _CPU, _SERVER, _BURST, _WIDTH, _HISTORY, _EVENTS),
    *(_FIRST, _START, _RESUMED, _PAID_TWICE, _TOKENS, _MEMORY),
)


async def speed(jobs: int) -> tuple[Sequence[Row], Sequence[str]]:
    """Run jobs one after another, many at once, wide ones, on fresh workers, and on killed workers."""
    sides = [
        Side("Chargehand", "own"),
        Side("by hand with children", "hand-written"),
        Side("by hand", "hand-written", children=False),
        Side("Chargehand, own_step", "own-step"),
        Side("by hand, tool in the turn", "hand-written", children=False, in_turn=True),
    ]
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        with processes.server(folder) as server:
            with processes.provider(folder) as provider:
                async with workers_of(sides, server.address, folder, provider) as workers:
                    await _one_by_one(sides, workers, server.address, server.process.pid, jobs)
                    for side in sides:
                        peak = processes.peak_rss_bytes(workers[side.kind].process.pid)
                        side.figures[_MEMORY.what].append(peak / 1e6)
                    await _many_at_once(sides, workers, server.address)
                wide = processes.wide(folder)
                async with workers_of(sides, server.address, folder, provider, **wide) as workers:
                    await _wide(sides, workers, server.address)
                await _just_started(sides[:3], server.address, folder, provider)
            async with ScriptedProvider(respond) as counting:
                await _killed(sides[:3], server.address, folder, counting)
    notes = [
        f"each: {jobs} jobs one by one, {_BURSTS} bursts, {_WIDE_JOBS} wide jobs, {_STARTS} starts, {_KILLS} kills",
        "medians (least–most); all take turns; the kill comes in a tool call",
        "by hand: Temporal's and OpenAI's SDK, heartbeats with a timeout of 10 s; one workflow, or one per subtask",
        "tools run in activities by hand, in Chargehand within the turn but for web searches, or as the column says",
    ]
    return [_row(asked, sides) for asked in _ROWS if asked.what in sides[0].figures], notes


@asynccontextmanager
async def workers_of(
    sides: Sequence[Side], address: str, folder: Path, provider: str, **more: str
) -> AsyncGenerator[Mapping[str, Worker]]:
    """Run one worker of each kind, known to poll a queue of the same name."""
    with (
        processes.worker("own", address, "own", folder, provider, **more) as own,
        processes.worker("own-step", address, "own-step", folder, provider, **more) as own_step,
        processes.worker("hand-written", address, "hand-written", folder, provider) as other,
    ):
        workers = {"own": own, "own-step": own_step, "hand-written": other}
        for side in sides:
            await until_polled(workers[side.kind])
            run = await side.run(address, side.kind)
            for _ in range(_WARM_UP):
                await run(Shape())
        yield workers


async def _one_by_one(
    sides: Sequence[Side], workers: Mapping[str, Worker], address: str, server_pid: int, jobs: int
) -> None:
    client = await Client.connect(address)
    runs = [(side, await side.run(address, side.kind)) for side in sides]
    ideal = Shape().ideal.total_seconds()
    for _ in range(jobs):
        for side, run in runs:
            pids = {"client": os.getpid(), "worker": workers[side.kind].process.pid, "server": server_pid}
            job = await measure(client, run, Shape(), pids)
            took = {
                _RATIO: job.wall.total_seconds() / ideal,
                _WALL: job.wall.total_seconds() * 1_000,
                _CPU: (job.cpu["client"] + job.cpu["worker"]) * 1_000,
                _SERVER: job.cpu["server"] * 1_000,
                _HISTORY: job.whole.bytes / 1_000,
                _EVENTS: job.whole.events,
            }
            for asked, figure in took.items():
                side.figures[asked.what].append(figure)


async def _many_at_once(sides: Sequence[Side], workers: Mapping[str, Worker], address: str) -> None:
    for _ in range(_BURSTS):
        for side in sides:
            run = await side.run(address, workers[side.kind].task_queue)
            began = time.perf_counter()
            await asyncio.gather(*(run(Shape()) for _ in range(_AT_ONCE)))
            side.figures[_BURST.what].append(_AT_ONCE / (time.perf_counter() - began))


async def _wide(sides: Sequence[Side], workers: Mapping[str, Worker], address: str) -> None:
    runs = [(side, await side.run(address, workers[side.kind].task_queue)) for side in sides]
    for _ in range(_WIDE_JOBS):
        for side, run in runs:
            side.figures[_WIDTH.what].append(await _seconds(run, _WIDE))


async def _just_started(sides: Sequence[Side], address: str, folder: Path, provider: str) -> None:
    for number in range(_STARTS):
        for side in sides:
            queue = f"start-{sides.index(side)}-{number}"
            run = await side.run(address, queue)
            began = time.perf_counter()
            with processes.worker(side.kind, address, queue, folder, provider) as worker:
                await until_polled(worker)
                side.figures[_START.what].append(time.perf_counter() - began)
                first, *warm = [await _seconds(run, Shape()) for _ in range(3)]
            side.figures[_FIRST.what].append(first - statistics.median(warm))


async def _killed(sides: Sequence[Side], address: str, folder: Path, provider: ScriptedProvider) -> None:
    """Kill the worker while all agents wait for their tools, and start another one at once."""
    for number in range(_KILLS):
        for side in sides:
            queue = f"kill-{sides.index(side)}-{number}"
            run = await side.run(address, queue)
            provider.exchanges.clear()
            with processes.worker(side.kind, address, queue, folder, provider.base_url) as first:
                await until_polled(first)
                job = asyncio.ensure_future(run(Shape()))
                await provider.until(lambda: _agents_answered(provider))
                await asyncio.sleep(_IN_THE_TOOL)
                os.killpg(first.process.pid, signal.SIGKILL)
                first.process.wait()
            began = time.perf_counter()
            with processes.worker(side.kind, address, queue, folder, provider.base_url):
                async with asyncio.timeout(120):
                    await job
                side.figures[_RESUMED.what].append(time.perf_counter() - began)
            paid = provider.requests
            side.figures[_PAID_TWICE.what].append(len(paid) - Shape().turns)
            # Relative to the calls of a job without faults.
            tokens = sum(input_bytes(request) for request in islice(paid, Shape().turns)) / _BYTES_PER_TOKEN
            side.figures[_TOKENS.what].append(tokens)


def _agents_answered(provider: ScriptedProvider) -> bool:
    """Return whether the plan and the first turn of each agent are answered."""
    return sum(exchange.answered_at is not None for exchange in provider.exchanges) > Shape().subtasks


async def _seconds(run: Run, shape: Shape) -> float:
    began = time.perf_counter()
    await run(shape)
    return time.perf_counter() - began


def _row(asked: Asked, sides: Sequence[Side]) -> Row:
    row: dict[str, str | float | int | None] = {"": asked.what}
    for side in sides:
        seen = side.figures[asked.what]
        if not seen:
            row[side.name] = row[f"{side.name}: range"] = None
            continue
        row[side.name] = statistics.median(seen)
        row[f"{side.name}: range"] = f"{written(min(seen))}–{written(max(seen))}"
    own = statistics.median(sides[0].figures[asked.what])
    row["asked"] = asked.at_most if asked.at_least is None else asked.at_least
    row["verdict"] = asked.verdict(own)
    return row
