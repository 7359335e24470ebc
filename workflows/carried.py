"""State that a workflow changes as it goes, and that goes on with it in a new run."""

from chargehand.contracts import Contract


class Carried(Contract, frozen=False):
    """Its fields are handed on when the workflow continues as new; what begins with `_` is the present run's."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # pydantic shares a default that can be hashed
