"""A turn in which an agent sums up its own conversation, to go on in a new one.

A new conversation, since what a model has thought belongs to the messages before it: they cannot be shortened under it.
"""

from typing import ClassVar, Final, Literal

from activities.contracts.crew import Agent
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Contract, JsonSchema

_REQUEST: Final = """This conversation has become long. You will go on in a new one, which begins with your task, your
notes and what you write now; nothing else of this conversation will be there. Use no tools now. Answer with JSON:
- summary: what is found, what was tried without result, and what is still to be done, in Markdown, at most 1,500 words.
  Keep every figure, name, date, unit and doubt that the task needs, and the ref behind each statement, such as [p1].
- notes: each claim that your answer will need and that you have not noted yet, with the ref of its source, such as p1,
  and quote copied word for word from there (at most 600 characters); both empty for a conclusion of your own."""


class NoteDraft(Contract):
    claim: str
    ref: str = ""
    quote: str = ""


class CompactAnswer(TurnAnswer):
    kind: Literal["compact"] = "compact"
    summary: str
    notes: list[NoteDraft] = []


class CompactTask(WorkTask):
    last_request: ClassVar = _REQUEST
    text_field: ClassVar = ""

    kind: Literal["compact"] = "compact"  # pyright: ignore[reportIncompatibleVariableOverride]  # it tells them apart
    must_answer: bool = True

    @classmethod
    def answer_type_for(cls, agent: Agent | None) -> type[TurnAnswer]:
        """Every agent sums up in the same way."""
        return CompactAnswer

    def data_schema_for(self, agent: Agent | None) -> JsonSchema | None:
        return None
