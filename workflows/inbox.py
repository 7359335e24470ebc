"""The subtask's side of steering: what a person writes to its agent, and whether its tools are to end."""

from collections.abc import Iterable
from typing import Final

from workflows.contracts import SteeringItem

_MOST_UNREAD: Final = 200
"""Messages that wait for the agent's next turn; a session sends fewer."""


class Inbox:
    """Messages in the order in which they come, each read once, also when it is sent again."""

    def __init__(self) -> None:
        self.unread: tuple[SteeringItem, ...] = ()
        self.is_interrupted = False
        """Whether the tools of the current turn are to end."""
        self._received: set[SteeringItem] = set()
        self._taken: tuple[int, ...] = ()
        """Numbers of the messages in the turn that is being taken."""
        self.read: tuple[int, ...] = ()
        """Numbers of the messages that the agent has read."""

    def open(self, before: Iterable[SteeringItem], read: tuple[int, ...] = ()) -> None:
        """Put what was written before the workflow's run began before everything that came since."""
        self.read = read
        self.unread = tuple(dict.fromkeys((*before, *self.unread)))
        self._received.update(self.unread)

    def receive(self, items: Iterable[SteeringItem]) -> None:
        """Keep what is new; an item without text is an interruption."""
        for item in items:
            if item in self._received or len(self.unread) >= _MOST_UNREAD:
                continue
            self._received.add(item)
            if item.text:
                self.unread += (item,)
            else:
                self.is_interrupted = True

    def take(self) -> list[str]:
        """Take what is unread, for the next turn."""
        taken, self.unread = self.unread, ()
        self._taken = tuple(item.number for item in taken)
        return [item.text for item in taken]

    def begin_turn(self) -> None:
        """Forget an interruption of the turn before."""
        self.is_interrupted = False

    def confirm(self) -> None:
        """Note that the agent has replied to what was taken."""
        self.read, self._taken = (*self.read, *self._taken), ()

    def withdraw(self, read: tuple[int, ...]) -> None:
        """Go back to what had been read at some time, since nothing came of what was read later."""
        self.read = read
