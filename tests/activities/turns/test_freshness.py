"""An attempt that its server may have given up asks before it pays."""

from datetime import UTC, datetime, timedelta

import pytest

from activities.model_turn.retry_policy import Freshness

STARTED = datetime(2026, 11, 21, 12, tzinfo=UTC)
PATIENCE = timedelta(seconds=5)


def doubts(*ages: float) -> list[bool]:
    """Judge attempts that have these ages, in seconds, by a clock on this host."""
    left = iter(ages)
    freshness = Freshness(lambda: STARTED + timedelta(seconds=next(left)))
    return [freshness.is_doubtful(STARTED, PATIENCE) for _ in ages]


@pytest.mark.parametrize(("age", "doubtful"), [(0.0, False), (2.5, False), (2.6, True), (15.0, True), (-0.2, False)])
def test_half_the_heartbeat_timeout_is_fresh(age: float, doubtful: bool) -> None:  # noqa: FBT001  # a column of the table
    """Younger than half the time that the server waits for a sign of life, an attempt need not ask."""
    assert doubts(age) == [doubtful]


def test_a_clock_that_is_ahead_only_asks_more_often() -> None:
    """An hour ahead, every attempt looks old and asks: the worker goes on."""
    assert doubts(3600.0, 3600.1) == [True, True]


def test_a_clock_that_is_behind_is_allowed_for() -> None:
    """Two seconds behind, an attempt that waited six seconds looks four seconds old and asks all the same."""
    assert doubts(-2.0, -1.9, 4.0) == [False, False, True]


def test_a_clock_that_is_far_behind_is_not_believed() -> None:
    """Behind by more than half the patience, it cannot say that an attempt is fresh."""
    assert doubts(-3600.0, -3599.9) == [True, True]


def test_a_clock_that_jumps_back_is_not_believed() -> None:
    """After a jump of an hour every attempt asks."""
    assert doubts(0.1, -3599.9, -3599.8) == [False, True, True]
