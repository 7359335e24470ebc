"""The cost of open conversations that wait for their users: worker memory, processor time, and history."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from benchmarks import processes
from benchmarks.jobs import one_worker
from benchmarks.levels import resident_mb
from benchmarks.tables import Row
from chargehand.client import Chargehand
from chargehand.visibility import describe
from tests.waiting import until

_STEPS: Final = 4
_AT_ONCE: Final = 20
_IDLE_SECONDS: Final = 20.0
_OPENING_SECONDS: Final = 300.0
"""On a busy machine, a few workflow tasks in a thousand time out and are repeated."""


async def idle(count: int) -> tuple[Sequence[Row], Sequence[str]]:
    """Open conversations on one worker in steps; after each step, watch the worker while nothing is sent."""
    rows: list[Row] = []
    async with one_worker() as (chargehand, pids):
        for step in range(_STEPS + 1):
            opened = count * step // _STEPS
            await _open(chargehand, range(count * max(step - 1, 0) // _STEPS, opened))
            rows.append(await _row(chargehand, opened, pids))
    return rows, [f"a worker caches up to 1,000 workflows, and processor time is that of {_IDLE_SECONDS:.0f} s"]


async def _open(chargehand: Chargehand, numbers: range) -> None:
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> None:
        async with free:
            talk = await chargehand.converse(conversation_id=f"idle-{number}")
            await until(partial(_is_idle, chargehand, talk.id), _OPENING_SECONDS)

    await asyncio.gather(*map(one, numbers))


async def _is_idle(chargehand: Chargehand, name: str) -> bool:
    found = await describe(chargehand.client, name)
    return found.workflow_execution_info.history_length > 3 and not found.HasField("pending_workflow_task")


async def _row(chargehand: Chargehand, opened: int, pids: dict[str, int]) -> Row:
    before, began = {name: processes.cpu_seconds(pid) for name, pid in pids.items()}, time.monotonic()
    size = await _size(chargehand, opened)
    await asyncio.sleep(_IDLE_SECONDS)
    seconds = time.monotonic() - began
    share = {name: (processes.cpu_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}
    after = await _size(chargehand, opened)
    return {
        "conversations": opened,
        "worker, resident MB": resident_mb(pids["worker"]),
        "worker, % of a core": 100 * share["worker"],
        "server, % of a core": 100 * share["server"],
        "events each": after[0],
        "events added while idle": after[0] - size[0],
        "history bytes each": after[1],
    }


async def _size(chargehand: Chargehand, opened: int) -> tuple[int, int]:
    """Measure the history of the conversation opened last."""
    if not opened:
        return 0, 0
    info = (await describe(chargehand.client, f"idle-{opened - 1}")).workflow_execution_info
    return info.history_length, info.history_size_bytes
