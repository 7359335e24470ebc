"""How long one tenant's flood of 200 concurrent sessions delays the first model turn of other tenants' sessions."""

import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from temporalio.api.enums.v1 import EventType

from benchmarks import processes
from benchmarks.jobs import own_runs, until_polled
from benchmarks.scripted import Shape
from benchmarks.tables import Row
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.session import Session
from chargehand.wire import ActivityType

_FLOOD: Final = 200
_STARTS_AT_ONCE: Final = 20
_OTHERS: Final = 6
_PAUSE_SECONDS: Final = 1.5
"""Seconds between two sessions of the others."""
_MOST_SECONDS: Final = 5.0
_LIMITED: Final = "[tenants.flood]\nsessions = 10\n"
_CASES: Final[Mapping[str, tuple[str, str, str]]] = {
    "no flood": ("", "other", ""),
    "a flood of the same tenant": ("other", "other", ""),
    "a flood of another tenant": ("flood", "other", ""),
    "a flood of another tenant, limited to 10 sessions": ("flood", "other", _LIMITED),
}
"""The tenant of the flood and that of the others, and the file of tenants."""


async def tenants() -> tuple[Sequence[Row], Sequence[str]]:
    """Measure each case on a separate server and worker."""
    waits = {name: await _waits(*case) for name, case in _CASES.items()}
    rows = [
        {"beside": name, "median, s": statistics.median(each), "longest, s": max(each)} for name, each in waits.items()
    ]
    longest = max(waits["a flood of another tenant"])
    verdict = "keeps" if longest <= _MOST_SECONDS else "DOES NOT KEEP"
    note = f"I22 {verdict}: {_FLOOD} sessions of another tenant at once delay the first step by {longest:.2f} s"
    return rows, [f"{note} (at most {_MOST_SECONDS:g} s).", "From the start of a session to its first model turn."]


async def _waits(flooding: str, other: str, limits: str) -> list[float]:
    """Start a flood, then sessions one after another; return how long each waited for its first turn."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        settings = processes.wide(folder)
        if limits:
            file = folder / "tenants.toml"
            file.write_text(limits)
            settings |= {"CHARGEHAND_TENANTS": str(file)}
        with (
            processes.server(folder) as server,
            processes.provider(folder) as provider,
            processes.worker("own", server.address, "own", folder, provider, **settings) as worker,
        ):
            chargehand = await Chargehand.connect(server.address, task_queue="own")
            await until_polled(worker)
            await own_runs(chargehand)(Shape())
            if flooding:
                await _flood(chargehand, flooding)
            return await _first_turns(chargehand, other)


async def _flood(chargehand: Chargehand, tenant: str) -> None:
    at_once = asyncio.Semaphore(_STARTS_AT_ONCE)

    async def start() -> None:
        async with at_once:
            await chargehand.start(SessionRequest(goal=Shape().goal, tenant=tenant))

    await asyncio.gather(*(start() for _ in range(_FLOOD)))


async def _first_turns(chargehand: Chargehand, tenant: str) -> list[float]:
    sessions: list[Session] = []
    for _ in range(_OTHERS):
        sessions.append(await chargehand.start(SessionRequest(goal=Shape().goal, tenant=tenant)))
        await asyncio.sleep(_PAUSE_SECONDS)
    return list(await asyncio.gather(*(_until_first_turn(chargehand, each.id) for each in sessions)))


async def _until_first_turn(chargehand: Chargehand, session_id: str) -> float:
    """Wait until the first turn has ended; return the seconds from the session's start to the turn's, by the server."""
    turns: set[int] = set()
    began = 0.0
    async for event in chargehand.client.get_workflow_handle(session_id).fetch_history_events(wait_new_event=True):
        at = event.event_time.ToNanoseconds() / 1e9
        scheduled = event.activity_task_scheduled_event_attributes
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            began = at
        elif scheduled.activity_type.name == ActivityType.TAKE_TURN:
            turns.add(event.event_id)
        elif event.activity_task_started_event_attributes.scheduled_event_id in turns:
            return at - began
    raise RuntimeError(f"session {session_id} ended without a turn")
