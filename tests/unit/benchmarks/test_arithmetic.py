"""The arithmetic of benchmarks and of the capacity guide: curves, levels, slots."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.capacity.measured import kept_cost
from benchmarks.capacity.model import Demand, SessionCost, setup
from benchmarks.curves import exponent, parabola
from benchmarks.levels import change, growth_per_hour

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


def test_the_saved_costs_of_the_last_run_can_be_read() -> None:
    assert all(value > 0 for value in asdict(kept_cost()).values())


@pytest.mark.parametrize("sessions", [1_000, 10_000, 100_000, 1_000_000])
def test_the_recommended_setup_carries_the_peak_with_one_worker_down(sessions: int) -> None:
    demand = Demand(sessions)
    told = setup(COST, demand)
    left = told.worker_processes - 1

    assert told.max_activities <= 1_000
    assert left * told.max_activities > demand.rate * (COST.turns * demand.turn_seconds + COST.tools * 2)
    assert told.worker_processes * 0.61 > demand.rate * COST.worker_cpu_seconds
    assert told.history_shards / (demand.database_ms / 1_000) > told.transitions_a_second
    assert told.partitions * 200 >= demand.rate * COST.workflow_tasks
    assert told.wait_for_a_slot_ms < 100


_COEFFICIENTS = st.integers(-1_000, 1_000)


@given(_COEFFICIENTS, _COEFFICIENTS, _COEFFICIENTS)
def test_a_parabola_is_recovered_from_three_points(constant: int, linear: int, square: int) -> None:
    points = [(x, constant + linear * x + square * x**2) for x in (5, 20, 100)]

    assert parabola(points) == pytest.approx((constant, linear, square), abs=1e-6)


@given(st.integers(1, 1_000), st.sampled_from((0.5, 1, 2, 3)))
def test_the_exponent_of_a_power_law_is_recovered(factor: int, power: float) -> None:
    assert exponent([(x, factor * x**power) for x in (2, 5, 10, 20)]) == pytest.approx(power)


@pytest.mark.parametrize(
    ("samples", "per_hour", "relative"),
    [
        # Memory taken while a process warms up is not a leak.
        ([(second, min(second, 50.0)) for second in range(101)], 0, 0),
        # The sample grows by one a minute, with a mean of 127 in the second half of an hour.
        ([(60.0 * minute, 82.5 + minute) for minute in range(60)], 60 / 127 * 100, 29 / 127),
    ],
    ids=["warming up", "a leak"],
)
def test_growth_is_measured_over_the_second_half_only(
    samples: list[tuple[float, float]], per_hour: float, relative: float
) -> None:
    assert growth_per_hour(samples) == pytest.approx(per_hour)
    assert change(samples) == pytest.approx(relative)


def test_zero_or_single_samples_have_no_growth() -> None:
    """A worker may have no child processes, and a series a single sample."""
    assert growth_per_hour([(float(second), 0.0) for second in range(10)]) == 0
    assert growth_per_hour([(0.0, 5.0)]) == 0
