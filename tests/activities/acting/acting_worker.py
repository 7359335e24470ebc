"""Workers of acting tools, a process for each moment, killed there: `… ADDRESS QUEUE MOMENT [QUEUE MOMENT …]`."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from activities.contracts.crew import Crew
from activities.crews.versions import CrewVersions
from activities.heartbeat import BEAT_SECONDS, Pulse
from activities.tools.own import open_own_tools
from activities.turn.apply_once import CallTimes, Entry
from activities.turn.tool_use import ToolActivities
from chargehand.converter import data_converter
from tests.activities.acting.acting_shop import ACTING, LATENESS
from worker.heartbeat_sender import Heartbeats
from worker.slots import PacedSlots

CREW = Crew.model_validate(
    {
        "name": "shop",
        "description": "Sells things.",
        "guidance": "Ask the clerk for everything.",
        "agents": [
            {
                "name": "clerk",
                "description": "Sells and ships things.",
                "prompt": "You sell and ship things.",
                "tools": [each.name for each in ACTING],
            }
        ],
    }
)


@asynccontextmanager
async def acting_worker(client: Client, task_queue: str) -> AsyncGenerator[None]:
    """Run a worker of the production activity that uses tools."""
    async with AsyncExitStack() as closing:
        tools = await open_own_tools(ACTING, 10, closing)
        uses = ToolActivities(CrewVersions({"shop": CREW}, tools), tools, times=CallTimes(2 * LATENESS))
        async with Worker(
            client,
            task_queue=task_queue,
            activities=[uses.use_tool],
            interceptors=[Heartbeats(PacedSlots(100))],
            build_id="shop",
            max_heartbeat_throttle_interval=timedelta(seconds=BEAT_SECONDS),
            default_heartbeat_throttle_interval=timedelta(seconds=BEAT_SECONDS),
        ):
            yield


def kill_at(moment: str) -> None:
    """Kill this process when all tools have reached the moment."""
    record, arrived = Pulse.record, 0

    async def reach(here: str) -> None:
        nonlocal arrived
        if here == moment:
            arrived += 1
            if arrived == len(ACTING):
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.Event().wait()

    async def record_and_reach(self: Pulse, *details: object) -> None:
        [entry] = details
        assert isinstance(entry, Entry)
        what = "answer" if entry.answer else "intent"
        await reach(f"before the {what} is recorded")
        await record(self, *details)
        await reach(f"after the {what} is recorded")

    Pulse.record = record_and_reach


async def _main(address: str, task_queue: str, moment: str) -> None:
    kill_at(moment)
    client = await Client.connect(address, data_converter=data_converter())
    async with acting_worker(client, task_queue):
        await asyncio.Event().wait()


def _start(address: str, *queues_and_moments: str) -> None:
    """Start the workers, which share what takes time to import, and wait until all are killed."""
    started = 0
    for task_queue, moment in zip(queues_and_moments[::2], queues_and_moments[1::2], strict=True):
        started += 1
        if os.fork() == 0:
            asyncio.run(_main(address, task_queue, moment))
    for _ in range(started):
        os.wait()


if __name__ == "__main__":
    _start(*sys.argv[1:])
