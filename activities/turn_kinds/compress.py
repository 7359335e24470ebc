"""The turn kind `compress`. Shorten an outcome's text."""

from typing import Literal

from activities.turn_kinds.protocol import TurnAnswer
from chargehand.contracts import Contract


class CompressTask(Contract):
    """Shorten the prose of an outcome; its findings and sources stay as they are, which code sees to."""

    kind: Literal["compress"] = "compress"
    instruction: str
    """What the text answers."""
    content: str
    most_words: int


class CompressAnswer(TurnAnswer):
    """A shortened text as the model writes it, not yet checked."""

    kind: Literal["compress"] = "compress"
    content: str
