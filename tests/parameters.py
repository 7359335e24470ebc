"""Which cases of a wide parametrisation run every time."""

from collections.abc import Iterable
from typing import cast

import pytest


def first_fast(cases: Iterable[object], fast: int = 1) -> list[object]:
    """Mark all cases but the first ones as slow."""
    return [case if number < fast else _slow(case) for number, case in enumerate(cases)]


def _slow(case: object) -> object:
    values = cast("tuple[object, ...]", case) if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
