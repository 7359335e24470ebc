"""A turn that shortens the prose of an outcome."""

from typing import ClassVar, Final, Literal

from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.untrusted_text import data_block
from chargehand.contracts import left_out

_INSTRUCTIONS: Final = """You shorten a text that answers an instruction.

- content: the shorter text, in Markdown. Keep every figure, name, date, unit, condition and doubt that the instruction
  asks for, and the ref behind each statement, such as [p1]. Leave out repetition, introductions and accounts of how it
  was found. Add nothing, conclude nothing."""


class CompressAnswer(TurnAnswer):
    kind: Literal["compress"] = "compress"
    content: str


class CompressTask(TurnTask):
    """Shorten the prose of an outcome; its findings and sources stay as they are, which code sees to."""

    instructions: ClassVar = _INSTRUCTIONS
    written_like: ClassVar = "text"
    answer_type: ClassVar = CompressAnswer
    text_field: ClassVar = "content"

    kind: Literal["compress"] = "compress"
    instruction: str
    """What the text answers."""
    content: str
    sources: tuple[str, ...] = left_out(())
    """Refs that the text cites."""
    most_words: int

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(self.sources)

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [
            f"Instruction that the text answers:\n{data_block(self.instruction)}",
            f"Text:\n{data_block(self.refs.shorten(self.content))}",
            f"Shorten it to at most {self.most_words} words.",
        ]
