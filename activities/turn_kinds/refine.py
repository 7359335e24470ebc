"""The turn kind `refine`. Write a better instruction for a subtask that ended badly."""

from typing import Literal

from activities.turn_kinds.protocol import TurnAnswer
from chargehand.contracts import Contract, Outcome


class RefineTask(Contract):
    """Write a better instruction for a subtask that ended badly."""

    kind: Literal["refine"] = "refine"
    goal: str
    """The session's goal, for context only."""
    agent: str
    instruction: str
    """The instruction of the attempt that ended badly."""
    problem: str
    """How it ended badly, in words."""
    outcome: Outcome
    attempts: int
    """Attempts that have ended, this one included."""


class RefineAnswer(TurnAnswer):
    """A better instruction as the model writes it, not yet checked."""

    kind: Literal["refine"] = "refine"
    worthwhile: bool
    """Whether any other instruction could help."""
    instruction: str
    """The new instruction; empty if none could help."""
    reason: str
