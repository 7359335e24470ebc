"""How many agents of a session may work at once: `max_parallel` for a session and all that are nested in it. Pure.

Each subtask that runs takes a place. Places that no subtask of the session waits for are lent to nested sessions that
run, until these end. A nested session begins with one: that of its own subtask.
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
    """To nested sessions that run, by workflow id, beside the place of their subtask."""
    _spare: int = 0
    """What may be lent: nothing that the session starts before it offers anew has use for it."""

    def free(self, running: int) -> int:
        """Count the places that neither subtasks nor nested sessions have."""
        return self.total - running - sum(self._lent.values())

    def open(self, child: str) -> None:
        """Begin to lend to a nested session, with the next that is lent."""
        self._lent[child] = 0

    def close(self, child: str) -> None:
        """Take back what a nested session has, which has ended."""
        del self._lent[child]

    def offer(self, spare: int) -> None:
        """Lend so many of the free places to nested sessions that run, or open before the next offer."""
        self._spare = spare
        self.lend()

    def lend(self) -> None:
        """Lend what is offered, each place to the session with the fewest."""
        while self._lent and self._spare > 0:
            self._lent[min(self._lent, key=lambda child: self._lent[child])] += 1
            self._spare -= 1

    def of(self, child: str) -> int:
        """Count the places that a nested session has, or had in the end: its own."""
        return 1 + self._lent.get(child, 0)

    def grow(self, total: int) -> None:
        self.total = max(self.total, total)

    def record(self, changes: Iterable[AgentsAtWork]) -> None:
        self.at_work += tuple(changes)

    @property
    def peak(self) -> int:
        """How many agents have worked at once, those of nested sessions included."""
        most, now = min(len(self.at_work), 1), 0
        # One that ends when another begins has made room for it.
        for change in sorted(self.at_work, key=lambda each: (each.at, each.change)):
            now += change.change
            most = max(most, now)
        return most
