"""Mutable workflow state that is passed on when the workflow continues as new."""

from typing import Any

from pydantic import ConfigDict, Field

from chargehand.contracts import Contract


class Carried(Contract, frozen=False):
    """State whose fields are passed on when the workflow continues as new, except those of the current run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # pydantic shares a default that can be hashed

    def take_over(self, before: "Carried") -> None:
        """Take over the state passed on by the previous run."""
        for name, field in type(self).model_fields.items():
            if not field.exclude:
                setattr(self, name, getattr(before, name))


def present(default: Any) -> Any:
    """Declare a field of the current run that is not passed on, like fields that begin with `_`."""
    return Field(default=default, exclude=True)
