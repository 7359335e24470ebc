"""How far a session used the limits that no ledger counts."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass
class Peaks:
    """The most of each such limit that a session has used so far."""

    parallel: int = 0
    attempts: int = 0
    rounds: int = 0
    depth: int = 0
    longest_attempt: timedelta = timedelta(0)

    def count_parallel(self, running: int) -> None:
        """Note how many subtasks run at the same time."""
        self.parallel = max(self.parallel, running)

    def count_attempts(self, attempts: int) -> None:
        """Note how many attempts a subtask took."""
        self.attempts = max(self.attempts, attempts)

    def measure_attempt(self, rounds: int, depth: int, time: timedelta) -> None:
        """Note how far one attempt went."""
        self.rounds = max(self.rounds, rounds)
        self.depth = max(self.depth, depth)
        self.longest_attempt = max(self.longest_attempt, time)
