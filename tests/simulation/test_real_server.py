"""A sample of the simulated sessions on a real server: the simulation tells the truth."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import Report
from chargehand.errors import SessionFailed
from tests.environment import open_environment
from tests.simulation.invariants import report_of
from tests.simulation.sample import respond_as, sample
from tests.simulation.traces import outcome_of, simulate, without_times
from tests.simulation.world import CEILINGS, Scenario

_ROOT: Final = Path(__file__).resolve().parents[2]
_MONEY: Final = ("usage", "wasted", "spend", "cost_usd", "limits", "brain")


def _id(position: int) -> str:
    return f"sample-{position}-{uuid4().hex[:8]}"


async def _simulated(scenario: Scenario) -> object:
    # In a thread of its own: a simulated workflow is an event loop, and there can be one in each thread.
    world = await asyncio.to_thread(simulate, scenario)
    return outcome_of(world) if report_of(world) is not None else world.root.status


async def _real(chargehand: Chargehand, scenario: Scenario, session_id: str) -> object:
    session = await chargehand.start(scenario.request, session_id=session_id)
    try:
        report: Report = await asyncio.wait_for(session.result(), 90)
    except SessionFailed:
        return "failed"
    return without_times(report, session_id)


async def test_sessions_end_on_a_real_server_as_they_do_in_the_simulation(client: Client, tmp_path: Path) -> None:
    """The same scripts come to the same reports, modulo times, on a real server whose worker forgets every workflow
    after every task."""
    ids = [_id(position) for position in range(len(sample()))]

    def scenario_of(workflow_id: str) -> tuple[Scenario, str]:
        session_id = workflow_id.split("/", 1)[0]
        return sample()[ids.index(session_id)], workflow_id.removeprefix(session_id)

    async with open_environment(client, tmp_path, respond_as(scenario_of), ceilings=CEILINGS) as environment:
        real = await asyncio.gather(
            *(_real(environment.chargehand, scenario, id_) for scenario, id_ in zip(sample(), ids, strict=True))
        )

    assert real == [await _simulated(scenario) for scenario in sample()]


@asynccontextmanager
async def _worker(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.simulation.dying_worker", *arguments, cwd=_ROOT, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _killed(client: Client, folder: Path, position: int, dies_at: int) -> tuple[JsonValue, Report]:
    session_id, queue = _id(position), f"dying-{uuid4().hex[:8]}"
    address = client.service_client.config.target_host
    chargehand = Chargehand(client, queue)
    arguments = (address, queue, str(folder / session_id), session_id, str(position))
    session = await chargehand.start(sample()[position].request, session_id=session_id)
    async with _worker(*arguments, str(dies_at)) as first:
        await asyncio.wait_for(first.wait(), 100)
    async with _worker(*arguments, "0"):
        report = await asyncio.wait_for(session.result(), 100)
    return _without_money(without_times(report, session_id)), report


@pytest.mark.timeout(
    240
)  # a lost call is noticed after five seconds, and four processes start, maybe on a busy machine
async def test_a_worker_killed_at_an_event_changes_no_report(client: Client, tmp_path: Path) -> None:
    """I12 for real: killed with a call of a model under way, a session ends in the report that the simulation comes to
    without any crash; the call in doubt is charged and named, and all other turns are paid once."""
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(_killed(client, tmp_path, *at)) for at in _KILLED]
    killed = [task.result() for task in running]

    for (position, _), (real, report) in zip(_KILLED, killed, strict=True):
        world = await asyncio.to_thread(simulate, sample()[position])
        calm = report_of(world)
        assert calm is not None
        assert real == _without_money(without_times(calm))
        assert report.usage.turns == calm.usage.turns
        assert report.usage.possibly_billed_twice_usd > 0


def _without_money(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_money(inner) for name, inner in value.items() if name not in _MONEY}
    if isinstance(value, list):
        return [_without_money(inner) for inner in value]
    return value


_KILLED: Final = ((4, 2), (5, 3))
"""Position in the sample, and at which call of a model the worker dies."""
