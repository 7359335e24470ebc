"""The subtask's side of steering: what a person writes to its agent, and whether its tools are to end."""

from typing import Final

from workflows.mailbox.contracts import SteeringItem

_MOST_UNREAD: Final = 200
"""Messages that wait for the agent's next turn; a session sends fewer."""


class Inbox:
    """What an agent has not read, in the order in which it came, and what it has."""

    def __init__(self, unread: tuple[SteeringItem, ...], read: tuple[int, ...]) -> None:
        self.unread = unread
        self.read = read
        """Numbers of the messages that the agent has read."""
        self.is_interrupted = False
        """Whether the tools of the current turn are to end."""
        self._taken: tuple[int, ...] = ()
        """Numbers of the messages in the turn that is being taken."""

    def receive(self, item: SteeringItem) -> None:
        """Keep a message; an item without text is an interruption."""
        if not item.text:
            self.is_interrupted = True
        elif len(self.unread) < _MOST_UNREAD:
            self.unread += (item,)

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
