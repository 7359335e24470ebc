"""A sample of the simulated sessions on a real server: the simulation tells the truth."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import Report
from chargehand.errors import SessionFailed
from tests.environment import open_environment
from tests.simulation.invariants import report_of
from tests.simulation.sample import respond_as, sample
from tests.simulation.traces import outcome_of, simulate, without_times
from tests.simulation.world import CEILINGS, Scenario, relative

pytestmark = pytest.mark.nightly

_CACHED = 3
"""With none, the SDK leaves first tasks unanswered: docs/decisions/0010."""


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
    """The same scripts come to the same reports, modulo times, on a real server whose worker forgets most workflows
    after every task."""
    ids = [_id(position) for position in range(len(sample()))]

    def scenario_of(workflow_id: str) -> tuple[Scenario, str]:
        session_id = workflow_id.split("/", 1)[0]
        return sample()[ids.index(session_id)], relative(workflow_id)

    respond = respond_as(scenario_of)
    async with open_environment(client, tmp_path, respond, ceilings=CEILINGS, cached_workflows=_CACHED) as environment:
        real = await asyncio.gather(
            *(_real(environment.chargehand, scenario, id_) for scenario, id_ in zip(sample(), ids, strict=True))
        )

    assert real == [await _simulated(scenario) for scenario in sample()]
