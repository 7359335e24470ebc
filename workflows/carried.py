"""State that a workflow changes as it goes, and that goes on with it in a new run."""

from typing import Any

from pydantic import ConfigDict, Field

from chargehand.contracts import Contract


class Carried(Contract, frozen=False):
    """Its fields are handed on when the workflow continues as new, but for those of the present run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # pydantic shares a default that can be hashed


def present(default: Any) -> Any:
    """Make a field that belongs to the present run, as do those that begin with `_`."""
    return Field(default=default, exclude=True)
