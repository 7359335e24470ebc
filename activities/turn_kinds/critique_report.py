"""A turn that checks a report before the user reads it."""

from typing import ClassVar, Final, Literal

from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import (
    CitedSource,
    bullet_list,
    contradiction_lines,
    request_section,
    sources_section,
    verdict_section,
)
from activities.turn_kinds.synthesis import SynthesisAnswer
from activities.turn_kinds.untrusted_text import data_block

_INSTRUCTIONS: Final = """You are a critic. You read a report before the user does, beside the outcomes it rests on.

- acceptable: false if something would mislead the user: a fact or figure that is in no outcome; a citation [S…] that
  does not support its sentence, or is missing; a part of the request left unanswered though an outcome answers it; a
  lost subtask or a disagreement between outcomes that is not named. Style and length alone are no reason.
- problems: each complete in itself, since the writer will not see this version again: quote the words in question, say
  what is wrong, and what the outcomes say instead. Empty if acceptable."""


class CritiqueAnswer(TurnAnswer):
    kind: Literal["critique"] = "critique"
    acceptable: bool
    problems: list[str] = []


class CritiqueTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    answer_type: ClassVar = CritiqueAnswer

    kind: Literal["critique"] = "critique"
    goal: str
    draft: SynthesisAnswer
    outcomes: tuple[InputOutcome, ...]
    sources: tuple[CitedSource, ...] = ()
    """By the numbers under which draft and outcomes cite them."""

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        outcomes = (verdict_section(result) for result in self.outcomes)
        return [request_section(self.goal), *outcomes, sources_section(self.sources)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        draft = self.draft
        report = [draft.answer, f"Gaps:\n{bullet_list(draft.gaps)}", "Contradictions:"]
        report += [contradiction_lines(found) for found in draft.contradictions]
        return [f"Report, confidence {draft.confidence}:\n" + data_block("\n".join(report))]
