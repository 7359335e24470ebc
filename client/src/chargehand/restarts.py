"""Back-off between restarts of a worker process, in a process group and beside the embedded server."""

from dataclasses import dataclass
from typing import Final

_PAUSES_SECONDS: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_WELL_AFTER_SECONDS: Final = 20.0
"""An exit after this long does not count as a consecutive failure."""


@dataclass
class Restarts:
    """Counts the consecutive failures of one process."""

    failures: int = 0

    def pause_after(self, lived_seconds: float) -> float:
        """Count an exit, and return the seconds until the restart."""
        self.failures = 1 if lived_seconds > _WELL_AFTER_SECONDS else self.failures + 1
        return _PAUSES_SECONDS[min(self.failures, len(_PAUSES_SECONDS)) - 1]
