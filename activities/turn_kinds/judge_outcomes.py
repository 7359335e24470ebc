"""A turn that decides which of several answers to one question is right."""

from typing import ClassVar, Final, Literal

from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import evidence_text, refs_of
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.untrusted_text import data_block

_INSTRUCTIONS: Final = """You are a judge. Several candidates answer the same question. You decide which one is right.

- chosen: the id of that candidate; empty if the evidence does not decide.
- compatible: true if all of them can be right, because they speak of different things, periods, units or definitions.
- reason: what decides it, in one or two sentences, with the ref that it rests on, such as [p1].
- confidence: 0-100 that the chosen one is right.
Go by the evidence: prefer words quoted from a source to a summary, a primary source to a report of it, the one that
fits the question's period and unit, and the later one where a fact has changed. Ignore length, tone, self-confidence
and order of the candidates."""


class JudgeAnswer(TurnAnswer):
    kind: Literal["judge"] = "judge"
    chosen: str = ""
    compatible: bool = False
    reason: str
    confidence: int


class JudgeTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    written_like: ClassVar = "question"
    answer_type: ClassVar = JudgeAnswer

    kind: Literal["judge"] = "judge"
    question: str
    candidates: tuple[InputOutcome, ...]
    """Each with an `id` of its own."""

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(refs_of(self.candidates))

    def sections(self, catalog: Catalog | None) -> list[str]:
        refs = self.refs
        candidates = [
            f"Candidate {candidate.id} ({candidate.agent}), confidence {candidate.outcome.confidence}:\n"
            f"{data_block(evidence_text(candidate, refs))}"
            for candidate in self.candidates
        ]
        return [f"Question:\n{data_block(refs.shorten(self.question))}", *candidates]
