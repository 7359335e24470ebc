"""What a session waits for a person to decide, and what became of it."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import StringConstraints

from chargehand.contracts.base import Contract, NoControlCharacters, left_out

__all__ = ["DecisionRecord", "Wait"]

WaitKind = Literal["plan", "call", "question", "limits"]
"""A plan that awaits approval, a tool call that does, a question of a subtask, or limits that are reached."""
Decider = Annotated[str, StringConstraints(max_length=200), NoControlCharacters]
"""Who decides, and by which way (200 characters at most), as the program says that sends the decision."""


class Wait(Contract):
    """Something that a session waits for a person to decide."""

    id: str
    """Its id in the session: `plan`, the id of the call, `question-T1`, `limits-1`."""
    kind: WaitKind
    """What has to be decided."""
    asks: str
    """What is asked, in a line of at most 500 characters."""
    since: datetime
    """When the wait began."""
    until: datetime
    """When it ends without a decision."""


class DecisionRecord(Contract):
    """How a wait for a person ended."""

    wait: str
    """Id of the wait."""
    kind: WaitKind
    """What was to be decided."""
    decision: Literal["approved", "edited", "rejected", "answered", "raised", "none"]
    """What was decided; `none` if the wait ended without a decision."""
    by: str = left_out("")
    """Who decided, as far as the decision said so."""
    at: datetime
    """When the wait ended."""
