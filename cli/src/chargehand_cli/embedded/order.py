"""What a user process tells the keeper that it starts. Standard library only."""

import json
from dataclasses import asdict, dataclass
from typing import Final

SOMEBODY_ELSE_KEEPS: Final = 75
"""Exit code of a keeper that found another one at work."""
COULD_NOT_START: Final = 1
SETTINGS_CANNOT_BE_USED: Final = 2
"""Exit code of a worker that will not run until somebody changes its settings."""


@dataclass(frozen=True)
class Order:
    """What a keeper is to keep."""

    state: str
    temporal: str
    """Path of the `temporal` program."""
    worker: tuple[str, ...]
    """Command of the worker; empty for none."""
    worker_directory: str
    worker_environment: dict[str, str]
    """Added to the keeper's own environment; never secrets, since they can be read in the process list."""
    worker_grace_seconds: float = 30

    def to_argument(self) -> str:
        """Write the order as a command-line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, argument: str) -> "Order":
        """Read what `to_argument` wrote."""
        return cls(**json.loads(argument))
