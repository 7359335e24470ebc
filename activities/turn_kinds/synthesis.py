"""Turns that write the report: as a whole or by section, compress outcomes, and fill the output schema."""

from typing import ClassVar, Final, Literal

from pydantic_core import to_json

from activities.contracts.crew import Agent
from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import ContradictionDraft, TurnAnswer, TurnTask, TypedAnswer
from activities.turn_kinds.rendering import (
    CitedSource,
    bullet_list,
    contradiction_lines,
    data_block,
    escape_marks,
    findings_text,
    outcome_heading,
    outcome_section,
    request_section,
    sources_section,
)
from activities.turn_kinds.short_refs import ShortRefs
from chargehand.contracts import Contract, Contradiction, JsonSchema, left_out

_REOPEN: Final = """If this section needs what a source says beyond its quotations, name up to {most} sources in
`reopen` and leave `answer` empty: you are asked once more, with their text."""
_REOPENED: Final = (
    """You asked for these to be read again. Quote what you use of them word for word, in quotation marks:"""
)
MOST_REOPENED: Final = 3
"""Maximum sources that the writer of a section may reopen."""


class Section(Contract):
    heading: str
    brief: str
    outline: tuple[str, ...]


class ReopenDraft(Contract):
    source: str
    words: str = ""


class ReopenedSource(Contract):
    number: int
    """Cited as `[S<number>]`."""
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
    answer_type: ClassVar = SynthesisAnswer
    text_field: ClassVar = "answer"
    temperature: ClassVar = 0.3

    kind: Literal["synthesis"] = "synthesis"
    goal: str
    criteria: tuple[str, ...] = left_out(())
    """The user's criteria for grading the report."""
    final_instruction: str = ""
    length_words: int = left_out(0)
    """Approximate length of the text; 0 for no target."""
    section: Section | None = left_out(None)
    """The section to write, if other turns write the rest."""
    may_reopen: bool = left_out(False)
    """Whether sources can be reopened before writing."""
    reopened: tuple[ReopenedSource, ...] = left_out(())
    outcomes: tuple[InputOutcome, ...]
    """All subtasks of the plan, whether or not they succeeded."""
    sources: tuple[CitedSource, ...] = ()
    """Sources, numbered as in the outcomes."""
    stopped_because: str = ""
    """Why the plan was not completed; empty if it was."""
    contradictions: tuple[Contradiction, ...] = ()
    """Known contradictions between outcomes, with resolutions."""
    is_part: bool = False
    """Whether these are only part of the outcomes, to be summarised as input to the report."""
    problems: tuple[str, ...] = ()
    first_version: str = left_out("")
    """The report that was sent back for these problems."""

    @property
    def label(self) -> str:
        """Distinguishes the whole report, whose text is followed live, from a section or a summary of a part."""
        return "section" if self.section else "summary" if self.is_part else self.kind

    @property
    def has_siblings(self) -> bool:
        """Whether it writes one section of several, from the same outcomes."""
        return self.section is not None

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        """Render the material of the report; the writer knows documents only through outcomes."""
        parts = [request_section(self.goal, criteria=self.criteria), *map(outcome_section, self.outcomes)]
        if self.contradictions:
            known = contradiction_lines(self.contradictions, "left open: state both sides")
            parts.append(
                f"Known contradictions; follow the decisions, and do not list them again:\n{data_block(known)}"
            )
        return [*parts, sources_section(self.sources)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        """Render what to write, and how."""
        how = escape_marks(self.final_instruction) or ("clearly" if self.length_words else "clearly and briefly")
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
                "These are only some of the outcomes: neither answer the request nor conclude. The others are "
                "summarised separately, as input to the report."
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
        f"The sections of the report are written in parallel, by this outline:\n{outline}\nWrite only this section, "
        "without its heading, in `answer`; answer the request and conclude only if its brief says so:\n"
        f"{data_block(f'{section.heading}: {section.brief}')}"
    )


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
    answer_type: ClassVar = OutlineAnswer

    kind: Literal["outline"] = "outline"
    goal: str
    final_instruction: str = ""
    length_words: int
    most_sections: int
    outcomes: tuple[InputOutcome, ...]
    sources: tuple[CitedSource, ...] = ()
    """Sources by the numbers used in the outcomes."""

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal), *map(outcome_section, self.outcomes), sources_section(self.sources)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        how = escape_marks(self.final_instruction)
        return [
            *([f"How to write: {how}"] if how else []),
            f"The report has about {self.length_words} words, in at most {self.most_sections} sections.",
        ]


class CompressAnswer(TurnAnswer):
    kind: Literal["compress"] = "compress"
    content: str


class CompressTask(TurnTask):
    """Shorten the prose of an outcome; code keeps its findings and sources unchanged."""

    written_like: ClassVar = "text"
    answer_type: ClassVar = CompressAnswer
    text_field: ClassVar = "content"

    kind: Literal["compress"] = "compress"
    instruction: str
    """The instruction that the text answers."""
    content: str
    sources: tuple[str, ...] = left_out(())
    """Refs cited by the text."""
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


class RejectedOutput(Contract):
    output: str
    """The beginning of the model's output."""
    errors: str


class OutputAnswer(TypedAnswer):
    kind: Literal["output"] = "output"
    missing: list[str] = []

    @property
    def requires_data(self) -> bool:
        """Whether everything required by the schema is present."""
        return not self.missing


class OutputTask(TurnTask):
    answer_type: ClassVar = OutputAnswer

    kind: Literal["output"] = "output"
    goal: str
    data_schema: JsonSchema
    answer: str
    gaps: tuple[str, ...] = ()
    outcomes: tuple[InputOutcome, ...] = ()
    """The outcomes from which the report was written."""
    rejected: tuple[RejectedOutput, ...] = ()

    def data_schema_for(self, agent: Agent | None) -> JsonSchema | None:
        return self.data_schema

    def sections(self, catalog: Catalog | None) -> list[str]:
        report = f"{self.answer}\n\nGaps:\n{bullet_list(self.gaps)}"
        return [
            request_section(self.goal, context_only=True),
            f"JSON Schema of data:\n{data_block(to_json(self.data_schema).decode())}",
            f"Report:\n{data_block(report)}",
            *(
                f"{outcome_heading(each)}:\n{data_block(text)}"
                for each in self.outcomes
                if (text := findings_text(each))
            ),
            *(
                f"Your data was rejected:\n{data_block(attempt.output)}\nfor these reasons:\n"
                f"{data_block(attempt.errors)}\nFix all of them."
                for attempt in self.rejected[-1:]
            ),
        ]
