"""What rows must have: values, and comparisons whose column is still to be found."""

from collections.abc import Sequence
from typing import NamedTuple

from activities.documents.sql_names import quoted_text
from chargehand_plugins.extractive.fields import Field


class Condition(NamedTuple):
    field: Field
    sql: str
    text: str
    is_value: bool = False
    value: str = ""


class Limit(NamedTuple):
    """What a column of numbers or times is compared with."""

    sides: tuple[tuple[str, str], ...]
    """Signs, each with a number, a time of day or a column in SQL."""
    text: str
    against: Field | None = None
    is_time: bool = False


def equal(field: Field, values: Sequence[str]) -> Condition:
    """Write that a column has one of several values."""
    name = f'lower(CAST("{field.name}" AS VARCHAR))'
    sql = " OR ".join(f"{name} = {quoted_text(value.lower())}" for value in values)
    return Condition(
        field, f"({sql})" if len(values) > 1 else sql, f"{field.label} = {' / '.join(values)}", True, values[0]
    )
