"""Measures what one session of the main job costs on this machine, and compares its capacity with the model's."""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from benchmarks import levels, processes
from benchmarks.capacity.model import Demand, SessionCost, most_a_second, setup
from benchmarks.jobs import own_runs, until_polled
from benchmarks.processes import cpu_seconds, machine_cpu_seconds
from benchmarks.scripted import Shape, respond
from benchmarks.tables import Row
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from tests.scripted_provider import ScriptedProvider

SESSIONS_A_DAY: Final = (1_000, 10_000, 100_000, 1_000_000)
_WARM_UP: Final = 3
_SESSIONS: Final = 10
_BURST: Final = 60
_WAITING: Final = 150
_SETTLING_SECONDS: Final = 0.3
_COUNTED: Final = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: "workflows",
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED: "workflow_tasks",
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: "activities",
}


async def capacity() -> tuple[Sequence[Row], Sequence[str], Row]:
    """Measure the cost of a session and of a burst; return what to set for growing numbers of sessions a day.

    The last part of the result is the cost, for `kept_cost`.
    """
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        with processes.server(folder) as server:
            async with AsyncExitStack() as closing:
                provider = closing.enter_context(processes.provider(folder))
                worker = closing.enter_context(processes.worker("own", server.address, "own", folder, provider))
                await until_polled(worker)
                chargehand = await Chargehand.connect(server.address, task_queue="own")
                pids = {"worker": worker.process.pid, "server": server.process.pid}
                cost, other = await _cost(chargehand, pids)
                before = _database_kb(folder)
                rate, left = await _burst(chargehand)
                grown = (_database_kb(folder) - before) / _BURST
            cost = replace(cost, database_kb=grown, waiting_mb=await _waiting_mb(server.address, folder))
    cores = len(os.sched_getaffinity(0))
    predicted, expected = (most_a_second(cost, each, other) for each in (cores, left))
    each_core = f"{1 / cost.worker_cpu_seconds:.1f}; of the embedded server: {1 / cost.server_cpu_seconds:.1f}"
    burst = f"measured in a burst of {_BURST} {rate:.2f}, with {left:.2f} cores left by other programs"
    notes = [
        "one session of the main job: "
        + ", ".join(f"{name} {round(value, 4):g}" for name, value in asdict(cost).items()),
        f"so {cost.actions:.0f} billable actions without heartbeats, and {cost.requests:.0f} requests",
        f"sessions a second for each core of a worker: {each_core}",
        f"sessions a second that this machine of {cores} cores carries: predicted {predicted:.2f}",
        f"{burst}: {rate / expected:.0%} of the {expected:.2f} predicted for these",
    ]
    return [_row(cost, sessions) for sessions in SESSIONS_A_DAY], notes, asdict(cost)


def kept_cost() -> SessionCost:
    """Read the cost of a session saved by the last run with `--save`."""
    kept = json.loads((processes.ROOT / "benchmarks" / "results" / "capacity.json").read_text(encoding="utf-8"))
    return SessionCost(**kept["figures"])


async def _cost(chargehand: Chargehand, pids: Mapping[str, int]) -> tuple[SessionCost, float]:
    """Run sessions one after another; return the cost of one, and the processor seconds of everything else."""
    run = own_runs(chargehand)
    for _ in range(_WARM_UP):
        await run(Shape())
    others = [os.getpid(), *(pid for pid in levels.children(os.getpid()) if pid not in pids.values())]
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    others_before = sum(map(cpu_seconds, others))
    trees = [await run(Shape()) for _ in range(_SESSIONS)]
    await asyncio.sleep(_SETTLING_SECONDS)
    used = {name: (cpu_seconds(pid) - before[name]) / _SESSIONS for name, pid in pids.items()}
    other = (sum(map(cpu_seconds, others)) - others_before) / _SESSIONS
    counted: Counter[str] = Counter()
    for parent, children in trees:
        for workflow_id in (parent, *children):
            counted += await _counted(chargehand.client, workflow_id)
    each = {name: count / _SESSIONS for name, count in counted.items()}
    cost = SessionCost(
        worker_cpu_seconds=used["worker"],
        server_cpu_seconds=used["server"],
        workflows=each["workflows"],
        workflow_tasks=each["workflow_tasks"],
        activities=each["activities"],
        transitions=each["transitions"],
        history_kb=each["bytes"] / 1_000,
        database_kb=0.0,
        turns=Shape().turns,
        tools=Shape().subtasks * Shape().rounds,
        waiting_mb=0.0,
    )
    return cost, other


async def _counted(client: Client, workflow_id: str) -> Counter[str]:
    handle = client.get_workflow_handle(workflow_id)
    info = (await handle.describe()).raw_description.workflow_execution_info
    counted = Counter({"transitions": info.state_transition_count, "bytes": info.history_size_bytes})
    for event in (await handle.fetch_history()).events:
        if named := _COUNTED.get(event.event_type):
            counted[named] += 1
    return counted


def _database_kb(folder: Path) -> float:
    return levels.stored_mb(folder / "temporal.db", folder / "temporal.db-wal") * 1_000


async def _burst(chargehand: Chargehand) -> tuple[float, float]:
    """Run more sessions at once than the machine can handle; return sessions per second and the cores available."""
    run, pids = own_runs(chargehand), [os.getpid(), *levels.children(os.getpid())]

    def by_others() -> float:
        return machine_cpu_seconds() - sum(map(cpu_seconds, pids))

    before, began = by_others(), time.perf_counter()
    await asyncio.gather(*(run(Shape()) for _ in range(_BURST)))
    seconds = time.perf_counter() - began
    return _BURST / seconds, len(os.sched_getaffinity(0)) - (by_others() - before) / seconds


async def _waiting_mb(address: str, folder: Path) -> float:
    """Let sessions wait for a person to approve their plans, on a separate worker."""
    async with ScriptedProvider(respond) as provider:
        with processes.worker("own", address, "waiting", folder, provider.base_url) as worker:
            await until_polled(worker)
            chargehand = await Chargehand.connect(address, task_queue="waiting")
            await chargehand.run(SessionRequest(goal=Shape().goal))
            before = levels.resident_mb(worker.process.pid)
            provider.exchanges.clear()
            request = SessionRequest(goal=Shape().goal, approval="plan")
            await asyncio.gather(*(chargehand.start(request) for _ in range(_WAITING)))
            await provider.until(
                lambda: sum(each.answered_at is not None for each in provider.exchanges) >= _WAITING, 120
            )
            held: list[float] = []
            for _ in range(10):
                await asyncio.sleep(_SETTLING_SECONDS)
                held.append(levels.resident_mb(worker.process.pid))
    return (statistics.median(held) - before) / _WAITING


def _row(cost: SessionCost, sessions_a_day: int) -> Row:
    told = setup(cost, Demand(sessions_a_day))
    return {
        "sessions a day": sessions_a_day,
        "a second at the peak": told.sessions_a_second,
        "open at the peak": told.open_sessions,
        "worker processes": told.worker_processes,
        "CHARGEHAND_MAX_ACTIVITIES": told.max_activities,
        "wait for a slot, ms": told.wait_for_a_slot_ms,
        "MB more each": round(told.worker_memory_mb),
        "server cores": told.server_cores,
        "actions/s": round(told.actions_a_second, 1),
        "requests/s": round(told.requests_a_second, 1),
        "writes/s": round(told.transitions_a_second, 1),
        "history shards": told.history_shards,
        "partitions": told.partitions,
        "database, GB": told.database_gb,
    }
