"""Running jobs and measuring what each took: wall time, CPU by process, events and bytes of history."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import uuid4

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from benchmarks import processes
from benchmarks.hand_written import HandWritten, HandWrittenWithChildren, Job
from benchmarks.processes import Worker, cpu_seconds
from benchmarks.scripted import WIDEST, Shape
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest

_LONGEST_JOB_SECONDS: Final = 180
"""Seconds after which a job counts as hung; nothing here waits forever."""
_SETTLING_SECONDS: Final = 0.05
"""Work that a job leaves behind, such as the worker's last answers, still counts towards it."""


STEPS: Final[Mapping[str, Sequence[EventType.ValueType]]] = {
    "events": EventType.values(),
    "workflow tasks": (EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,),
    "activities": (EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,),
    "children": (EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,),
    "signals": (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,),
    "timers": (EventType.EVENT_TYPE_TIMER_STARTED,),
    "memo and search attributes": (
        EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
        EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
    ),
}


@dataclass(frozen=True)
class HistorySize:
    """Number of events in a history, and its size as counted by the server."""

    events: int
    bytes: int


@dataclass(frozen=True)
class Measured:
    """One job."""

    wall: timedelta
    cpu: Mapping[str, float]
    """Seconds by process."""
    parent: HistorySize
    children: Sequence[HistorySize]
    steps: Mapping[str, int]

    @property
    def child(self) -> HistorySize:
        """The largest values of any child."""
        return HistorySize(max(size.events for size in self.children), max(size.bytes for size in self.children))

    @property
    def whole(self) -> HistorySize:
        """All its workflows together."""
        sizes = [self.parent, *self.children]
        return HistorySize(sum(size.events for size in sizes), sum(size.bytes for size in sizes))


@asynccontextmanager
async def one_worker() -> AsyncGenerator[tuple[Chargehand, dict[str, int]]]:
    """Run a server, the scripted provider and the released worker; yield a client and their process ids."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        with (
            processes.server(folder) as server,
            processes.provider(folder) as provider,
            processes.worker("own", server.address, "own", folder, provider, **processes.wide(folder)) as worker,
        ):
            chargehand = await Chargehand.connect(server.address, task_queue="own")
            await until_polled(worker)
            yield chargehand, {"server": server.process.pid, "worker": worker.process.pid}


Run = Callable[[Shape], Awaitable[tuple[str, Sequence[str]]]]
"""Runs a job and returns the ids of its workflows: the parent and its children."""


async def measure(
    client: Client, run: Run, shape: Shape, pids: Mapping[str, int], settling_seconds: float = _SETTLING_SECONDS
) -> Measured:
    """Run one job and measure what it took."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    started_at = time.perf_counter()
    async with asyncio.timeout(_LONGEST_JOB_SECONDS):
        parent, children = await run(shape)
    wall = timedelta(seconds=time.perf_counter() - started_at)
    await asyncio.sleep(settling_seconds)
    cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
    sizes = [await _size(client, child) for child in children]
    counted = await steps(client, [parent, *children])
    return Measured(wall, cpu, await _size(client, parent), sizes, counted)


async def steps(client: Client, workflow_ids: Sequence[str]) -> Counter[str]:
    """Count the steps in some histories, by kind."""
    counted: Counter[str] = Counter()
    for workflow_id in workflow_ids:
        async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
            counted.update(step for step, kind in STEPS.items() if event.event_type in kind)
    return counted


async def _size(client: Client, workflow_id: str) -> HistorySize:
    info = (await client.get_workflow_handle(workflow_id).describe()).raw_description.workflow_execution_info
    return HistorySize(info.history_length, info.history_size_bytes)


def own_runs(chargehand: Chargehand) -> Run:
    """Run jobs as sessions through the public client: the main job with the default limits."""

    async def run(shape: Shape) -> tuple[str, Sequence[str]]:
        request = SessionRequest(goal=shape.goal)
        if shape != Shape():
            parallel = min(WIDEST.max_parallel, shape.subtasks)
            allowed = WIDEST.model_copy(update={"max_parallel": parallel, "deadline": timedelta(minutes=5)})
            request = SessionRequest(goal=shape.goal, limits=allowed)
        session = await chargehand.start(request)
        report = await session.result()
        if report.stop_reason != "completed" or report.usage.turns < shape.turns:
            raise RuntimeError(f"the job went wrong: {report.stop_reason} after {report.usage.turns} turns")
        return session.id, [record.workflow_id or "" for record in report.subtasks]

    return run


def hand_written_runs(client: Client, task_queue: str, *, children: bool, in_turn: bool = False) -> Run:
    """Run jobs as hand-written workflows, with or without a child per subtask."""
    workflow = HandWrittenWithChildren.run if children else HandWritten.run

    async def run(shape: Shape) -> tuple[str, Sequence[str]]:
        job = Job(shape.goal, shape.subtasks, shape.rounds, in_turn)
        handle = await client.start_workflow(
            workflow, job, id=f"hand-written-{uuid4().hex[:12]}", task_queue=task_queue
        )
        await handle.result()
        return handle.id, [f"{handle.id}/{number}" for number in range(1, shape.subtasks + 1)] if children else []

    return run


async def until_polled(worker: Worker, seconds: float = 120) -> None:
    """Wait until a worker reports that it is ready."""
    async with asyncio.timeout(seconds):
        while not worker.polls:  # noqa: ASYNC110  # other processes set no events
            await asyncio.sleep(0.005)
