"""Running jobs one after another and reading off what each took: wall, CPU by process, events and bytes of history."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import uuid4

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from benchmarks import bare
from benchmarks.processes import Worker, cpu_seconds, require_alive
from benchmarks.scripted import Shape
from benchmarks.worker import CEILINGS
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest

_LONGEST_JOB_SECONDS: Final = 180
"""A job that takes longer hangs; nothing here waits for ever."""
_SETTLING_SECONDS: Final = 0.05
"""What a job leaves behind, such as the worker's last answers, still belongs to it."""


@dataclass(frozen=True)
class HistorySize:
    """How long a history is, and how large by the server's own count."""

    events: int
    bytes: int


@dataclass(frozen=True)
class Measured:
    """One job."""

    wall: timedelta
    cpu: Mapping[str, float]
    """Seconds by process."""
    parent: HistorySize
    child: HistorySize
    """The largest of them."""


Run = Callable[[Shape], Awaitable[tuple[str, Sequence[str]]]]
"""Carries out a job and names its workflows: the parent and its children."""


async def measure(client: Client, run: Run, shape: Shape, pids: Mapping[str, int]) -> Measured:
    """Carry out one job and read off what it took."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    started_at = time.perf_counter()
    async with asyncio.timeout(_LONGEST_JOB_SECONDS):
        parent, children = await run(shape)
    wall = timedelta(seconds=time.perf_counter() - started_at)
    await asyncio.sleep(_SETTLING_SECONDS)
    cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
    sizes = [await _size(client, child) for child in children]
    largest = HistorySize(max(size.events for size in sizes), max(size.bytes for size in sizes))
    return Measured(wall, cpu, await _size(client, parent), largest)


async def _size(client: Client, workflow_id: str) -> HistorySize:
    info = (await client.get_workflow_handle(workflow_id).describe()).raw_description.workflow_execution_info
    return HistorySize(info.history_length, info.history_size_bytes)


def own_runs(chargehand: Chargehand) -> Run:
    """Run jobs as sessions, through the client that everybody uses."""

    async def run(shape: Shape) -> tuple[str, Sequence[str]]:
        limits = CEILINGS.model_copy(
            update={"max_parallel": min(100, shape.subtasks), "deadline": timedelta(minutes=5)}
        )
        session = await chargehand.start(SessionRequest(goal=shape.goal, limits=limits))
        report = await session.result()
        if report.stop_reason != "completed" or report.usage.turns < shape.turns:
            raise RuntimeError(f"the job went wrong: {report.stop_reason} after {report.usage.turns} turns")
        return session.id, [record.workflow_id or "" for record in report.subtasks]

    return run


def bare_runs(client: Client, task_queue: str) -> Run:
    """Run jobs as hand-written workflows."""

    async def run(shape: Shape) -> tuple[str, Sequence[str]]:
        job = bare.Job(shape.goal, shape.subtasks, shape.rounds)
        handle = await client.start_workflow(
            bare.BareJob.run, job, id=f"bare-{uuid4().hex[:12]}", task_queue=task_queue
        )
        await handle.result()
        return handle.id, [f"{handle.id}/{number}" for number in range(1, shape.subtasks + 1)]

    return run


async def until_polled(client: Client, worker: Worker, seconds: float = 30) -> None:
    """Wait until a worker asks its queue for workflow tasks and for activities."""
    async with asyncio.timeout(seconds):
        for kind in (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY):
            request = DescribeTaskQueueRequest(
                namespace=client.namespace, task_queue=TaskQueue(name=worker.task_queue), task_queue_type=kind
            )
            while not (await client.workflow_service.describe_task_queue(request)).pollers:
                require_alive(worker.process, worker.log)
                await asyncio.sleep(0.01)
