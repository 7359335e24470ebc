"""The turn kind `critique`. Check a report before the user reads it."""

from typing import Literal

from activities.contracts import InputOutcome
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.synthesis import SynthesisAnswer
from chargehand.contracts import Contract


class CritiqueTask(Contract):
    """Read a report before the user does."""

    kind: Literal["critique"] = "critique"
    goal: str
    draft: SynthesisAnswer
    outcomes: tuple[InputOutcome, ...]
    """What the report was written from."""
    sources: tuple[str, ...] = ()
    """`ref`s of all sources in citation order: the first is `[S1]`."""


class CritiqueAnswer(TurnAnswer):
    """An opinion on a report as the model writes it, not yet checked."""

    kind: Literal["critique"] = "critique"
    acceptable: bool
    problems: list[str]
    """Each complete in itself: the words in question, and what is wrong with them."""
