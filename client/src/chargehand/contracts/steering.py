"""What a person tells the agents of a running session."""

from typing import Annotated

from pydantic import StringConstraints

from chargehand.contracts.base import NoControlCharacters, TypedByPeople

SubtaskPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,19}(/[A-Za-z][A-Za-z0-9_-]{0,19}){0,9}$")
]
"""The id of a subtask, or, below a nested session, the ids on the way to it: `T2/T1`."""


class UserMessage(TypedByPeople):
    """A message of a person to agents, which read it at their next turn."""

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000), NoControlCharacters]
    """The message (1 to 4,000 characters)."""
    subtask: SubtaskPath | None = None
    """The subtask that it is for; without it, every one that runs, and every one that begins later."""


class Interruption(TypedByPeople):
    """Ends the tools that agents are using; the agents go on with their next turn."""

    subtask: SubtaskPath | None = None
    """The subtask whose tools end; without it, those of every one that runs."""
