"""A turn that judges whether the claims of a report are in the words and results that they rest on."""

from typing import ClassVar, Final, Literal

from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.untrusted_text import data_block
from chargehand.contracts import Contract

_INSTRUCTIONS: Final = """You check the claims of a report against the words and results from its sources. What you
may know of the matter yourself does not count.

- verdicts: one for each claim, in their order.
  - claim: its number.
  - verdict: says, if a careful reader finds all of the claim in its evidence, in whatever words or language, or as an
    arithmetic of its figures; contradicts, if the evidence says otherwise; does_not_say, if any part of the claim is
    missing: a subject, a cause, a date, a duty, an extent. When in doubt, does_not_say.
    A claim that speaks of the one before it is an objection to it, found by code and often wrong: says, only if that
    one is wrong or goes too far for this reason; does_not_say, if its evidence says it in other words or figures.
  - reason: for a verdict other than says, what is missing or different, in one short sentence; else empty."""

Verdict = Literal["says", "does_not_say", "contradicts"]


class ClaimToJudge(Contract):
    """One claim, and all that it rests on."""

    text: str
    evidence: str


class ClaimVerdict(Contract):
    claim: int
    """Its number; the first is 1."""
    verdict: Verdict
    reason: str


class JudgeClaimsAnswer(TurnAnswer):
    """The verdicts as the model writes them, not yet checked."""

    kind: Literal["judge_claims"] = "judge_claims"
    verdicts: list[ClaimVerdict]


class JudgeClaimsTask(TurnTask):
    """Judge claims by their evidence alone."""

    instructions: ClassVar = _INSTRUCTIONS
    written_like: ClassVar = "claim"
    answer_type: ClassVar = JudgeClaimsAnswer

    kind: Literal["judge_claims"] = "judge_claims"
    claims: tuple[ClaimToJudge, ...]

    def sections(self, catalog: Catalog | None) -> list[str]:
        """Render each claim with its evidence, which several may share."""
        first: dict[str, int] = {}
        sections: list[str] = []
        for number, claim in enumerate(self.claims, start=1):
            same = first.setdefault(claim.evidence, number)
            evidence = data_block(claim.evidence) if same == number else f"that of claim {same}"
            sections.append(f"Claim {number}: {data_block(claim.text)}\nEvidence: {evidence}")
        return sections
