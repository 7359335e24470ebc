"""How many agents can work at once in a session and all sessions nested in it: `max_parallel`. Pure.

Each running subtask takes a place. Places that no subtask of the session waits for are lent to running nested
sessions until these end. A nested session starts with one place, that of its own subtask.
"""

from collections.abc import Iterable

from pydantic import PrivateAttr

from chargehand.contracts import AgentsAtWork, left_out
from workflows.carried import Carried


class Places(Carried):
    """The places of one session, and when its agents worked."""

    total: int
    at_work: tuple[AgentsAtWork, ...] = left_out(())
    _lent: dict[str, int] = PrivateAttr(default_factory=dict[str, int])
    """Places lent to running nested sessions, by workflow id, in addition to their subtask's own."""
    _spare: int = 0
    """Places that can be lent; the session itself does not need them before its next offer."""

    def free(self, running: int) -> int:
        """Count the places used neither by subtasks nor by nested sessions."""
        return self.total - running - sum(self._lent.values())

    def open(self, child: str) -> None:
        """Register a nested session to lend places to."""
        self._lent[child] = 0

    def close(self, child: str) -> None:
        """Take back the places of a nested session that has ended."""
        del self._lent[child]

    def offer(self, spare: int) -> None:
        """Lend free places to nested sessions that run or are opened before the next offer."""
        self._spare = spare
        self.lend()

    def lend(self) -> None:
        """Lend the offered places one by one, each to the session with the fewest."""
        while self._lent and self._spare > 0:
            self._lent[min(self._lent, key=lambda child: self._lent[child])] += 1
            self._spare -= 1

    def of(self, child: str) -> int:
        """Count the places of a nested session; after its end, only its own."""
        return 1 + self._lent.get(child, 0)

    def grow(self, total: int) -> None:
        self.total = max(self.total, total)

    def record(self, changes: Iterable[AgentsAtWork]) -> None:
        self.at_work += tuple(changes)

    @property
    def peak(self) -> int:
        """The peak number of agents working at once, nested sessions included."""
        most, now = min(len(self.at_work), 1), 0
        # An agent that ends when another begins is counted off first.
        for change in sorted(self.at_work, key=lambda each: (each.at, each.change)):
            now += change.change
            most = max(most, now)
        return most
