"""The arithmetic of the capacity guide."""

from dataclasses import asdict

import pytest

from benchmarks.capacity.measured import kept_cost
from benchmarks.capacity.model import Demand, SessionCost, setup

COST = SessionCost(
    worker_cpu_seconds=0.1,
    server_cpu_seconds=0.2,
    workflows=6,
    workflow_tasks=30,
    activities=17,
    transitions=100,
    history_kb=50,
    database_kb=80,
    turns=12,
    tools=5,
    waiting_mb=0.2,
)


def test_what_the_last_run_kept_can_be_read() -> None:
    """The guide's own example starts from it."""
    assert all(value > 0 for value in asdict(kept_cost()).values())


@pytest.mark.parametrize("sessions", [1_000, 10_000, 100_000, 1_000_000])
def test_what_is_recommended_carries_the_peak_with_one_worker_gone(sessions: int) -> None:
    """Slots, cores, shards and partitions have room for the calls and tasks of the busiest second."""
    demand = Demand(sessions)
    told = setup(COST, demand)
    left = told.worker_processes - 1

    assert told.max_activities <= 1_000
    assert left * told.max_activities > demand.rate * (COST.turns * demand.turn_seconds + COST.tools * 2)
    assert told.worker_processes * 0.61 > demand.rate * COST.worker_cpu_seconds
    assert told.history_shards / (demand.database_ms / 1_000) > told.transitions_a_second
    assert told.partitions * 200 >= demand.rate * COST.workflow_tasks
    assert told.wait_for_a_slot_ms < 100
