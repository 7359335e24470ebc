"""The two kinds of contract: what our own processes exchange, and what people type."""

from decimal import ROUND_UP, Decimal
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

_NANODOLLAR: Final = Decimal("0.000000001")


class Contract(BaseModel):
    """A frozen value that crosses a boundary; unknown fields are ignored, so an old reader survives a new writer."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class TypedByPeople(Contract):
    """A contract that people write by hand: an unknown field is an error that names it."""

    model_config = ConfigDict(extra="forbid")


Dollars = Annotated[
    Decimal,
    Field(ge=0, le=1_000_000, allow_inf_nan=False),
    PlainSerializer(float, return_type=float, when_used="json"),
]
"""US dollars, 0 to one million, whole nanodollars; a JSON number on the wire."""


def round_up_dollars(amount: Decimal) -> Decimal:
    """Round an amount up to whole nanodollars, the finest unit that the books keep."""
    return amount.quantize(_NANODOLLAR, rounding=ROUND_UP)
