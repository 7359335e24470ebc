"""The cost of following: one session at a time, with zero, one and fifty followers from beginning to end."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Final

from temporalio.client import Client

from benchmarks.jobs import Run, measure, one_worker, own_runs
from benchmarks.scripted import Shape
from benchmarks.tables import Row
from chargehand.client import Chargehand
from chargehand.contracts import SubtaskEvent
from chargehand.visibility import OPEN, ROOT_SESSIONS, list_executions

_WATCHERS: Final = (0, 1, 50)
_JOBS: Final = 5


async def watchers() -> tuple[Sequence[Row], Sequence[str]]:
    """Measure the main job under growing numbers of followers."""
    async with one_worker() as (chargehand, pids):
        await measure(chargehand.client, own_runs(chargehand), Shape(), {})
        rows = [await _row(chargehand, count, pids) for count in _WATCHERS]
    plain = float(rows[0]["CPU server, ms"] or 0)
    shares = [(row["watchers"], float(row["CPU server, ms"] or 0) / plain) for row in rows[1:]]
    notes = [f"CPU of the server with watchers: {count} take {share:.2f} times that of none" for count, share in shares]
    return rows, [*notes, "Events and bytes of history do not depend on who follows: nothing is written for followers."]


async def _row(chargehand: Chargehand, count: int, pids: dict[str, int]) -> Row:
    delays: list[float] = []
    run = _watched(chargehand, count, delays)
    jobs = [await measure(chargehand.client, run, Shape(), pids) for _ in range(_JOBS)]
    return {
        "watchers": count,
        "wall, ms": statistics.median(job.wall.total_seconds() for job in jobs) * 1_000,
        "CPU server, ms": statistics.median(job.cpu["server"] for job in jobs) * 1_000,
        "CPU worker, ms": statistics.median(job.cpu["worker"] for job in jobs) * 1_000,
        "first event of a subtask after, ms": max(delays) * 1_000 if delays else None,
        "events, parent": max(job.parent.events for job in jobs),
        "history bytes, parent": max(job.parent.bytes for job in jobs),
    }


def _watched(chargehand: Chargehand, count: int, delays: list[float]) -> Run:
    """Run jobs with this many followers each, one job at a time."""
    plain = own_runs(chargehand)

    async def watch(session_id: str) -> None:
        async for event in chargehand.session(session_id).follow():
            given_at = time.time()
            if isinstance(event, SubtaskEvent) and event.state == "running":
                delays.append(given_at - event.at.timestamp())

    async def run(shape: Shape) -> tuple[str, Sequence[str]]:
        running = asyncio.ensure_future(plain(shape))
        session_id = await _begun(chargehand.client)
        await asyncio.gather(*(watch(session_id) for _ in range(count)))
        return await running

    return run


async def _begun(client: Client) -> str:
    """Wait until the server lists the session that was started."""
    while True:
        async for found in list_executions(client, f"{ROOT_SESSIONS} AND {OPEN}", limit=1):
            return found.execution.workflow_id
        await asyncio.sleep(0.01)
