"""The arithmetic of the capacity guide."""

import math
from dataclasses import asdict, replace

import pytest

from benchmarks.capacity.measured import kept_cost
from benchmarks.capacity.model import Demand, SessionCost, most_a_second, setup, wait_seconds

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


def test_a_single_slot_waits_as_a_single_server_does() -> None:
    """With one slot, half busy, calls of a second wait a second on average: ρ/(1-ρ) times the call."""
    assert wait_seconds(0.5, 1, 1.0) == pytest.approx(1.0)


def test_fewer_slots_than_calls_never_catch_up() -> None:
    """The queue of a worker that is asked for more than it has grows for ever."""
    assert math.isinf(wait_seconds(10, 10, 1.0))


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


def test_ten_times_the_sessions_take_ten_times_the_database() -> None:
    """What a session leaves does not depend on the others."""
    ten, one = setup(COST, Demand(10_000)), setup(COST, Demand(1_000))

    assert ten.database_gb == pytest.approx(10 * one.database_gb)


def test_longer_turns_cost_heartbeats() -> None:
    """Each second of a call is an action, a request and a write more; the rest of a session stays as it is."""
    short, long = (setup(COST, Demand(86_400, peak=1, turn_seconds=seconds)) for seconds in (1, 11))

    assert long.actions_a_second - short.actions_a_second == pytest.approx(10 * COST.turns)
    assert long.transitions_a_second - short.transitions_a_second == pytest.approx(10 * COST.turns)


def test_one_worker_process_carries_no_more_than_its_core() -> None:
    """However many cores there are."""
    assert most_a_second(COST, 64) == pytest.approx(10)
    assert most_a_second(replace(COST, server_cpu_seconds=0.9), 2) == pytest.approx(2)
