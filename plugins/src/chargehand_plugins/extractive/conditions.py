"""What rows must have: values, and comparisons whose column is still to be found."""

from collections.abc import Sequence
from typing import NamedTuple

from activities.documents.catalog import Column
from activities.documents.sql_names import quoted_text


class Condition(NamedTuple):
    column: Column
    sql: str
    text: str
    is_value: bool = False
    value: str = ""


class Limit(NamedTuple):
    """What a column of numbers or times is compared with."""

    sides: tuple[tuple[str, str], ...]
    """Signs, each with a number, a time of day or a column in SQL."""
    text: str
    against: Column | None = None
    is_time: bool = False


def equal(column: Column, values: Sequence[str]) -> Condition:
    """Write that a column has one of several values."""
    name = f'lower(CAST("{column.name}" AS VARCHAR))'
    sql = " OR ".join(f"{name} = {quoted_text(value.lower())}" for value in values)
    text = f"{title_of(column)} = {' / '.join(values)}"
    return Condition(column, f"({sql})" if len(values) > 1 else sql, text, True, values[0])


def title_of(column: Column) -> str:
    return column.title or column.name
