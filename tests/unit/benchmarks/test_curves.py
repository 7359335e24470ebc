"""What the benchmarks say about growth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.curves import exponent, parabola

_COEFFICIENTS = st.integers(-1_000, 1_000)


@given(_COEFFICIENTS, _COEFFICIENTS, _COEFFICIENTS)
def test_three_points_give_their_parabola(constant: int, linear: int, square: int) -> None:
    """The curve through three points of a parabola is that parabola."""
    points = [(x, constant + linear * x + square * x**2) for x in (5, 20, 100)]

    assert parabola(points) == pytest.approx((constant, linear, square), abs=1e-6)


@given(st.integers(1, 1_000), st.sampled_from((0.5, 1, 2, 3)))
def test_the_exponent_of_a_power_is_found(factor: int, power: float) -> None:
    """What grows with a power of its cause has that power as its exponent."""
    assert exponent([(x, factor * x**power) for x in (2, 5, 10, 20)]) == pytest.approx(power)
