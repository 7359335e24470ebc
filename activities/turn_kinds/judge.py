"""The turn kind `judge`. Decide which of several answers to one question is right."""

from typing import Literal

from activities.contracts import InputOutcome
from activities.turn_kinds.protocol import TurnAnswer
from chargehand.contracts import Contract


class JudgeTask(Contract):
    """Decide which of several answers to one question is right."""

    kind: Literal["judge"] = "judge"
    question: str
    candidates: tuple[InputOutcome, ...]
    """Each with an `id` of its own."""


class JudgeAnswer(TurnAnswer):
    """A decision between candidates as the model writes it, not yet checked."""

    kind: Literal["judge"] = "judge"
    chosen: str
    """Id of the candidate that is right; empty if the evidence does not decide."""
    reason: str
    confidence: int
