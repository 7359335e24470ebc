"""Whether something levels off, told from samples."""

import pytest

from benchmarks.levels import change, growth_per_hour


def test_only_the_second_half_counts() -> None:
    """What a process takes while it warms up is no leak."""
    samples = [(second, min(second, 50.0)) for second in range(101)]

    assert growth_per_hour(samples) == pytest.approx(0)
    assert change(samples) == pytest.approx(0)


def test_steady_growth_is_told_by_the_hour_and_over_the_half() -> None:
    """One more each minute, on a mean of 127 in the second half of an hour."""
    samples = [(60.0 * minute, 82.5 + minute) for minute in range(60)]

    assert growth_per_hour(samples) == pytest.approx(60 / 127 * 100)
    assert change(samples) == pytest.approx(29 / 127)


def test_what_holds_nothing_does_not_grow() -> None:
    """A worker without child processes, and a series of one sample."""
    assert growth_per_hour([(float(second), 0.0) for second in range(10)]) == 0
    assert growth_per_hour([(0.0, 5.0)]) == 0
