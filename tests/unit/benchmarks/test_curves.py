"""What the benchmarks say about growth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.curves import describe, exponent, parabola

_COEFFICIENTS = st.integers(-1_000, 1_000)


@given(_COEFFICIENTS, _COEFFICIENTS, _COEFFICIENTS)
def test_three_points_give_their_parabola(constant: int, linear: int, square: int) -> None:
    """The curve through three points of a parabola is that parabola."""
    points = [(x, constant + linear * x + square * x**2) for x in (5, 20, 100)]

    assert parabola(points) == pytest.approx((constant, linear, square), abs=1e-6)


def test_a_straight_line_is_told_as_linear() -> None:
    """A quantity that grows by 4 for each one more is linear, however large it is to begin with."""
    assert describe([(5, 120), (20, 180), (100, 500)]) == "x20 gives x4.2; linear, about 4 for each one more"


def test_a_square_is_told_as_quadratic() -> None:
    """A quantity that repeats everything before it at every step is quadratic."""
    points = [(n, 3 + 2 * n + 2 * n**2) for n in (2, 5, 10)]

    assert describe(points) == "x5 gives x14.9; quadratic: 3 + 2 n + 2.0 n²"


def test_a_root_is_told_as_less_than_linear() -> None:
    """A quantity that levels off is less than linear."""
    assert describe([(1, 10), (25, 50), (100, 100)]) == "x100 gives x10.0; less than linear"


@given(st.integers(1, 1_000), st.sampled_from((0.5, 1, 2, 3)))
def test_the_exponent_of_a_power_is_found(factor: int, power: float) -> None:
    """What grows with a power of its cause has that power as its exponent."""
    assert exponent([(x, factor * x**power) for x in (2, 5, 10, 20)]) == pytest.approx(power)
