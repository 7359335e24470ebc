"""How a quantity grows with its cause, derived from three measurements."""

import math
from collections.abc import Sequence
from typing import Final

_NEGLIGIBLE: Final = 1 / 2
"""If the square term is below this share of the largest value, the curve is not quadratic: measurements vary."""


def describe(points: Sequence[tuple[float, float]]) -> str:
    """Describe how much a quantity grows from the first of three points to the last, and the kind of curve."""
    (first_x, first_y), *_, (last_x, last_y) = points
    factors = f"x{last_x / first_x:.0f} gives x{last_y / first_y:.1f}"
    constant, linear, square = parabola(points)
    share = square * last_x**2 / last_y
    if abs(share) < _NEGLIGIBLE:
        return f"{factors}; linear, about {linear + square * (first_x + last_x):,.0f} for each one more"
    if share < 0:
        return f"{factors}; less than linear"
    return f"{factors}; quadratic: {constant:,.0f} + {linear:,.0f} n + {square:,.1f} n²"


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Find the best-fitting exponent k of the curve c·xᵏ: 1 is linear, 2 is quadratic."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def parabola(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return a, b and c of the curve a + b x + c x² through three points."""
    (x1, y1), (x2, y2), (x3, y3) = points
    first = (y2 - y1) / (x2 - x1)
    square = ((y3 - y2) / (x3 - x2) - first) / (x3 - x1)
    linear = first - square * (x1 + x2)
    return y1 - linear * x1 - square * x1**2, linear, square
