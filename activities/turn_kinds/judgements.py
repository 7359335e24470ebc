"""Turns in which a model judges answers to one question, claims, tool calls, or reports."""

import json
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict, JsonValue
from pydantic_core import to_json

from activities.contracts.rounds import InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import (
    CitedSource,
    bullet_list,
    contradiction_lines,
    data_block,
    evidence_text,
    refs_of,
    request_block,
    request_section,
    sources_section,
    verdict_section,
)
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.synthesis import SynthesisAnswer
from chargehand.contracts import Contract, Source
from chargehand.contracts.problems import UNSEEN


class JudgeAnswer(TurnAnswer):
    kind: Literal["judge"] = "judge"
    chosen: str = ""
    compatible: bool = False
    reason: str
    confidence: int


class JudgeTask(TurnTask):
    written_like: ClassVar = "question"
    answer_type: ClassVar = JudgeAnswer

    kind: Literal["judge"] = "judge"
    question: str
    candidates: tuple[InputOutcome, ...]
    """Candidates, each with an `id`."""

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


Verdict = Literal["says", "does_not_say", "contradicts"]


class ClaimToJudge(Contract):
    text: str
    evidence: str


class ClaimVerdict(Contract):
    claim: int
    """The claim's number, from 1."""
    verdict: Verdict
    reason: str


class JudgeClaimsAnswer(TurnAnswer):
    kind: Literal["judge_claims"] = "judge_claims"
    verdicts: list[ClaimVerdict]


class JudgeClaimsTask(TurnTask):
    """Judge each claim only by its evidence."""

    written_like: ClassVar = "claim"
    answer_type: ClassVar = JudgeClaimsAnswer

    kind: Literal["judge_claims"] = "judge_claims"
    claims: tuple[ClaimToJudge, ...]

    def sections(self, catalog: Catalog | None) -> list[str]:
        """Render each claim with its evidence, which several claims may share."""
        first: dict[str, int] = {}
        sections: list[str] = []
        for number, claim in enumerate(self.claims, start=1):
            same = first.setdefault(claim.evidence, number)
            evidence = data_block(claim.evidence) if same == number else f"that of claim {same}"
            sections.append(f"Claim {number}: {data_block(claim.text)}\nEvidence: {evidence}")
        return sections


_MOST_ARGUMENTS: Final = 10_000
_MOST_SAID: Final = 40_000
"""Maximum characters of the user's text that the judge of a call reads."""


class JudgeCallAnswer(TurnAnswer):
    model_config = ConfigDict(strict=True, extra="forbid")  # a reply that allows a call must be exact

    kind: Literal["judge_call"] = "judge_call"
    is_expected: bool
    reason: str


class JudgeCallTask(TurnTask):
    """Judge a tool call by the user's own words. None are left out, since the last may take back the first."""

    answer_type: ClassVar = JudgeCallAnswer

    kind: Literal["judge_call"] = "judge_call"
    goal: str
    said: tuple[str, ...] = ()
    """What the user has said since."""
    tool: str
    arguments: dict[str, JsonValue]

    @property
    def is_short(self) -> bool:
        """Whether a model can be trusted to read all of it."""
        return len(self._call) <= _MOST_ARGUMENTS and len(self.goal) + sum(map(len, self.said)) <= _MOST_SAID

    @property
    def _call(self) -> str:
        written = to_json(self.arguments, indent=1).decode()
        return UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], written)  # what a person could not see either

    def sections(self, catalog: Catalog | None) -> list[str]:
        since = [f"The user has said since:\n{request_block(text)}" for text in self.said]
        call = f"The call of {self.tool}:\n{data_block(self._call)}"
        return [f"The user's request:\n{request_block(self.goal)}", *since, call]


class CritiqueAnswer(TurnAnswer):
    kind: Literal["critique"] = "critique"
    acceptable: bool
    problems: list[str] = []


class CritiqueTask(TurnTask):
    answer_type: ClassVar = CritiqueAnswer

    kind: Literal["critique"] = "critique"
    goal: str
    draft: SynthesisAnswer
    outcomes: tuple[InputOutcome, ...]
    sources: tuple[CitedSource, ...] = ()
    """Sources by the numbers used in draft and outcomes."""

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        outcomes = (verdict_section(result) for result in self.outcomes)
        return [request_section(self.goal), *outcomes, sources_section(self.sources)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        draft = self.draft
        contradictions = contradiction_lines(draft.contradictions, "left open")
        report = [draft.answer, f"Gaps:\n{bullet_list(draft.gaps)}", f"Contradictions:\n{contradictions}"]
        return [f"Report, confidence {draft.confidence}:\n" + data_block("\n".join(report))]


class GradeDraft(Contract):
    criterion: int
    """The criterion's number, from 1."""
    met: bool
    reason: str


class GradeAnswer(TurnAnswer):
    kind: Literal["grade"] = "grade"
    grades: list[GradeDraft]


class GradeTask(TurnTask):
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
