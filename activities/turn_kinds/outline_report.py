"""A turn that divides a long report into sections."""

from typing import ClassVar, Final, Literal

from activities.contracts.drafts import ContradictionDraft
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import CitedSource, outcome_section, request_section, sources_section
from activities.turn_kinds.untrusted_text import escape_marks
from chargehand.contracts import Contract

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. You outline a long report from the outcomes of its
subtasks. Its sections are then written side by side, each by a writer that sees this outline and the same outcomes, but
no other section.

- title: of the report, in the language of the request.
- sections: in the order of reading; the first answers the request in short. For each: heading; brief (what it says, and
  what it leaves to other sections, so that nothing is told twice); words.
- gaps: every part of the request that the outcomes do not answer, lost subtasks included.
- contradictions: where outcomes disagree on a fact: about; positions, each with its source; resolution: which one the
  report follows and why (empty if it cannot be decided).
- confidence: 0-100 that the report will be right and complete."""


class SectionDraft(Contract):
    heading: str
    brief: str
    words: int


class OutlineAnswer(TurnAnswer):
    kind: Literal["outline"] = "outline"
    title: str
    sections: list[SectionDraft]
    gaps: list[str] = []
    contradictions: list[ContradictionDraft] = []
    confidence: int


class OutlineTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    answer_type: ClassVar = OutlineAnswer

    kind: Literal["outline"] = "outline"
    goal: str
    final_instruction: str = ""
    length_words: int
    most_sections: int
    outcomes: tuple[InputOutcome, ...]
    sources: tuple[CitedSource, ...] = ()
    """By the numbers under which the outcomes cite them."""

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal), *map(outcome_section, self.outcomes), sources_section(self.sources)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        how = escape_marks(self.final_instruction)
        return [
            *([f"How to write: {how}"] if how else []),
            f"The report has about {self.length_words} words, in at most {self.most_sections} sections.",
        ]
