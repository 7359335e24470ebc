"""Selects the cases of a large parametrisation that run every time."""

from collections.abc import Iterable
from typing import cast

import pytest


def first_fast(cases: Iterable[object], fast: int = 1, mark: pytest.MarkDecorator = pytest.mark.slow) -> list[object]:
    """Leave all cases but the first ones to longer runs."""
    return [case if number < fast else _later(case, mark) for number, case in enumerate(cases)]


def _later(case: object, mark: pytest.MarkDecorator) -> object:
    values = cast("tuple[object, ...]", case) if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=mark)
