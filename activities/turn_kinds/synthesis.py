"""A turn that writes the report."""

from typing import ClassVar, Final, Literal

from activities.contracts.drafts import ContradictionDraft
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import (
    CitedSource,
    bullet_list,
    contradiction_lines,
    outcome_section,
    request_section,
    sources_section,
)
from activities.turn_kinds.untrusted_text import data_block, escape_marks
from chargehand.contracts import Contract, Contradiction, left_out

_INSTRUCTIONS: Final = """You write the report of a crew of agents from its outcomes.

- answer: Markdown. Answer the request first, in a sentence or two; then what supports it, under headings if it has
  several parts, in a table where things are compared by the same measures. One coherent text, no list of outcomes,
  nothing about how it was made. Conclude: what the facts together mean for the request, what is sure and what is not.
  Add no facts.
- citations: put [S1.2] behind each statement that rests on a quotation, [S1] behind one that rests on a source in
  another way, as they are numbered in the task, each in brackets of its own. Every paragraph, list item and table row
  has one, a conclusion those of its statements. Remarks about the report itself, and
  nothing else, are in *italics*.
- gaps: every part of the request that the outcomes do not answer, lost subtasks included.
- contradictions: where outcomes disagree on a fact: about; positions, each with its source; resolution: which one you
  follow and why (empty if it cannot be decided).
- confidence: 0-100 that the answer is right and complete.
- reopen: sources to read again, if the task allows it, else empty. Each: source (such as S2), words to find there."""

_REOPEN: Final = """If this section needs what a source says beyond its quotations, name up to {most} sources in
`reopen` and leave `answer` empty: you are asked once more, with what stands there."""
_REOPENED: Final = (
    """You have had these read again. What you take from them, put between quotation marks, word for word:"""
)
MOST_REOPENED: Final = 3
"""Sources that the writer of one section may read again."""


class Section(Contract):
    """The one section of a long report that is to be written."""

    heading: str
    brief: str
    outline: tuple[str, ...]


class ReopenDraft(Contract):
    source: str
    words: str = ""


class ReopenedSource(Contract):
    number: int
    """It is cited as `[S<number>]`."""
    ref: str
    text: str


class SynthesisAnswer(TurnAnswer):
    kind: Literal["synthesis"] = "synthesis"
    answer: str
    gaps: list[str] = []
    contradictions: list[ContradictionDraft] = []
    confidence: int
    reopen: list[ReopenDraft] = []


class SynthesisTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    answer_type: ClassVar = SynthesisAnswer
    text_field: ClassVar = "answer"
    temperature: ClassVar = 0.3

    kind: Literal["synthesis"] = "synthesis"
    goal: str
    criteria: tuple[str, ...] = left_out(())
    """What the user will have the report graded by."""
    final_instruction: str = ""
    length_words: int = left_out(0)
    """About how long the text is to be; 0 if it is as long as it needs to be."""
    section: Section | None = left_out(None)
    """The section to write, if others write the rest."""
    may_reopen: bool = left_out(False)
    """Whether sources can be read again before it is written."""
    reopened: tuple[ReopenedSource, ...] = left_out(())
    outcomes: tuple[InputOutcome, ...]
    """Every subtask of the plan, whatever became of it."""
    sources: tuple[CitedSource, ...] = ()
    """By the numbers under which the outcomes cite them."""
    stopped_because: str = ""
    """Why the plan was not carried out to its end, if it was not."""
    contradictions: tuple[Contradiction, ...] = ()
    """Where outcomes are known to disagree, and what was decided."""
    is_part: bool = False
    """Whether these are only some of the outcomes, to be summarised as input to the report."""
    problems: tuple[str, ...] = ()
    first_version: str = left_out("")
    """The report that is sent back for these problems."""

    @property
    def label(self) -> str:
        """Tell the whole report, whose text is followed live, from a section or a summary of a part."""
        return "section" if self.section else "summary" if self.is_part else self.kind

    @property
    def has_siblings(self) -> bool:
        """Whether it writes one section of several, from the same outcomes."""
        return self.section is not None

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        """Render everything that the report is written from; the writer knows the documents by its outcomes only."""
        parts = [request_section(self.goal, criteria=self.criteria), *map(outcome_section, self.outcomes)]
        if self.contradictions:
            known = "\n".join(
                contradiction_lines(found, "left open: state both sides") for found in self.contradictions
            )
            parts.append(
                f"Known contradictions; follow the decisions, and do not list them again:\n{data_block(known)}"
            )
        return [*parts, sources_section(self.sources)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        """Say what is to be written, and how."""
        how = escape_marks(self.final_instruction) or "clearly and briefly"
        parts = [f"How to write: {how}"]
        if self.length_words:
            parts.append(f"About {self.length_words} words.")
        if self.section:
            parts.append(_section_text(self.section))
        if self.may_reopen:
            parts.append(_REOPEN.format(most=MOST_REOPENED))
        if self.reopened:
            texts = "\n\n".join(f"[S{each.number}] {each.ref}\n{each.text}" for each in self.reopened)
            parts.append(f"{_REOPENED}\n{data_block(texts)}")
        if self.is_part:
            parts.append(
                "These are only some of the outcomes. The others are summarised separately, as input to the report."
            )
        if self.stopped_because:
            parts.append(f"The work was stopped early: {self.stopped_because}. Say what is missing.")
        if self.problems:
            problems = data_block(bullet_list(self.problems))
            parts.append(f"Your first version:\n{data_block(self.first_version)}")
            parts.append(f"Write it again without these problems, and change nothing else:\n{problems}")
        return parts


def _section_text(section: Section) -> str:
    outline = data_block(bullet_list(section.outline))
    return (
        f"The report is written by section, side by side, by this outline:\n{outline}\nWrite only this section, "
        f"without its heading, in `answer`:\n{data_block(f'{section.heading}: {section.brief}')}"
    )
