"""Workers of acting tools, a process for each moment, killed there: `… ADDRESS FOLDER QUEUE MOMENT […]`.

Each effect of the tools is a line of a file, which outlives every worker.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.worker import Worker

from activities.contracts.crew import Agent, Crew
from activities.crews.versions import CrewVersions
from activities.heartbeat import BEAT_SECONDS, Pulse
from activities.tools.own import open_own_tools
from activities.turn.apply_once import ActingCalls, CallTimes, Entry
from activities.turn.tool_use import ToolActivities
from chargehand.converter import data_converter
from chargehand.record import Record
from chargehand.tools import ToolContext, tool
from worker.heartbeat_sender import Heartbeats
from worker.slots import PacedSlots


def effects(ledger: Path) -> list[list[str]]:
    """List the effects in their order: tool and idempotency key."""
    return [line.split() for line in ledger.read_text().splitlines()] if ledger.exists() else []


def _apply(ledger: str, name: str, key: str) -> str:
    with Path(ledger).open("a") as opened:
        opened.write(f"{name} {key}\n")
    return f"Applied {name}."


@tool(capabilities=[], acts=True)
def book(ledger: str, context: ToolContext) -> str:
    """Book something; nothing can say afterwards whether it was booked."""
    return _apply(ledger, "book", context.idempotency_key)


@tool(capabilities=[], acts=True)
async def ship(ledger: str, context: ToolContext) -> str:
    """Ship something."""
    return _apply(ledger, "ship", context.idempotency_key)


@ship.lookup
def find_shipment(ledger: str, context: ToolContext) -> str | None:
    """Look a shipment up."""
    return "Applied ship." if ["ship", context.idempotency_key] in effects(Path(ledger)) else None


@tool(capabilities=[], acts=True, idempotent=True)
def pay(ledger: str, context: ToolContext) -> str:
    """Pay something, at a bank that applies each key once."""
    if ["pay", context.idempotency_key] in effects(Path(ledger)):
        return "Applied pay."
    return _apply(ledger, "pay", context.idempotency_key)


ACTING = (book, ship, pay)
_CLERK = Agent(
    name="clerk", description="Sells things.", prompt="You sell things.", tools=tuple(each.name for each in ACTING)
)
_CREW = Crew(name="shop", description="Sells things.", guidance="Ask the clerk for everything.", agents=(_CLERK,))


@asynccontextmanager
async def acting_worker(client: Client, task_queue: str, folder: str) -> AsyncGenerator[None]:
    """Run a worker of the production activity that uses tools; its record is in a folder."""
    async with AsyncExitStack() as closing:
        tools = await open_own_tools(ACTING, 20, closing)
        acting = ActingCalls(Record(folder), CallTimes(timedelta(seconds=1)))
        async with Worker(
            client,
            task_queue=task_queue,
            activities=[ToolActivities(CrewVersions({"shop": _CREW}, tools), tools, acting).use_tool],
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


async def _main(address: str, folder: str, task_queue: str, moment: str) -> None:
    kill_at(moment)
    client = await Client.connect(address, data_converter=data_converter())
    async with acting_worker(client, task_queue, folder):
        await asyncio.Event().wait()


def _start(address: str, folder: str, *queues_and_moments: str) -> None:
    """Start the workers, which share what takes time to import, and wait until all are killed."""
    started = 0
    for task_queue, moment in zip(queues_and_moments[::2], queues_and_moments[1::2], strict=True):
        started += 1
        if os.fork() == 0:
            asyncio.run(_main(address, folder, task_queue, moment))
    for _ in range(started):
        os.wait()


if __name__ == "__main__":
    _start(*sys.argv[1:])
