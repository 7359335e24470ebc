"""A turn that grades a report by the user's own criteria."""

from typing import ClassVar, Final, Literal

from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import bullet_list, request_section
from activities.turn_kinds.untrusted_text import data_block
from chargehand.contracts import Contract, Source

_INSTRUCTIONS: Final = """You are an examiner. You grade a report by the criteria of the user who asked for it. You did
not write it, and you see what its reader sees.

- grades: one for each criterion, in their order.
  - criterion: its number.
  - met: true only if the report as it stands meets all of it. When in doubt, false. A claim about facts counts only as
    far as the words quoted from its sources bear it out.
  - reason: what decides it, in one or two sentences; if it is not met, what would have to change. Quote the report.
Grade nothing but the criteria, each by itself. Ignore length, tone and confidence unless a criterion is about them."""


class GradeDraft(Contract):
    criterion: int
    """Its number; the first is 1."""
    met: bool
    reason: str


class GradeAnswer(TurnAnswer):
    kind: Literal["grade"] = "grade"
    grades: list[GradeDraft]


class GradeTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    answer_type: ClassVar = GradeAnswer

    kind: Literal["grade"] = "grade"
    goal: str
    criteria: tuple[str, ...]
    answer: str
    gaps: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    """In citation order: the first is `[S1]`."""

    def sections(self, catalog: Catalog | None) -> list[str]:
        sources = [
            f"[S{number}] {source.ref}" + (f"\n{source.quote}" if source.quote else "")
            for number, source in enumerate(self.sources, start=1)
        ]
        report = f"{self.answer}\n\nGaps:\n{bullet_list(self.gaps)}"
        return [
            request_section(self.goal, criteria=self.criteria),
            f"Report:\n{data_block(report)}",
            f"Sources:\n{data_block(chr(10).join(sources) or '(none)')}",
        ]
