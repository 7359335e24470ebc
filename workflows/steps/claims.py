"""Checks of a draft by models before it becomes the report; its writer may revise it once.

Claims are checked by code and judged once by a small model. The draft is graded by the request's criteria.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from activities.turn_kinds.judgements import (
    ClaimToJudge,
    ClaimVerdict,
    GradeAnswer,
    GradeTask,
    JudgeClaimsAnswer,
    JudgeClaimsTask,
)
from chargehand.contracts import Claim, Grade, Source, Tier
from workflows.rules.citation_checks import CheckedClaim, claims_of, mark_uncited
from workflows.rules.citations import CITES_NOTHING
from workflows.rules.inputs import DECISION_TOKENS, beginning, tokens_of
from workflows.rules.report_content import check_citations, evidence_of, keep_cited
from workflows.state.session import Session
from workflows.steps.effects import try_turn
from workflows.steps.writer import Draft, Material

_LONGEST_PROBLEM: Final = 300
_EVIDENCE_TOKENS: Final = 1_000
"""Maximum of the evidence of one claim."""
_CONTRADICTED: Final = "Its source says otherwise; correct it, or leave it out: “{0}” {1}"
_DOUBT: Final = "Claim {0} is not what its evidence says. {1}"
"""A control claim: a judge that agrees with everything also agrees with this, and verifies nothing."""
_NOT_GRADED: Final = "The report was not graded by its criteria: no model could do so in time and within the limits."
_MOST_REVISIONS: Final = 2
_LEAST_TURNS: Final = 2
"""One for a revision and one to grade it."""
_LONGEST_GAP: Final = 200


@dataclass(frozen=True)
class CheckedText:
    """A report's text with checked citations."""

    answer: str
    sources: tuple[Source, ...]
    """The cited sources in order of their numbers."""
    claims: tuple[Claim, ...]


async def check_claims(
    session: Session, draft: Draft, material: Material, gaps_for: Callable[[Draft], Sequence[str]], *, is_judged: bool
) -> tuple[Draft, CheckedText]:
    """Check the claims of a draft; contradicted claims go back to the writer once.

    Args:
        session: whose report it is.
        draft: the draft after its writer and critic.
        material: its evidence.
        gaps_for: returns the known gaps of a draft; stating one is not a claim.
        is_judged: whether a model may be asked; otherwise no claim is better than `cited`.
    """
    is_judged = is_judged and session.budget.judge_reserve.is_needed
    text = await _check(session, draft, material, gaps_for(draft), is_judged=is_judged)
    contradicted = _contradicted_claims(text)
    if not contradicted or session.clock.was_interrupted:
        return draft, text
    problems = [_CONTRADICTED.format(claim.text, claim.problem) for claim in contradicted]
    before = session.budget.spending.mark()
    revised = await draft.rewrite(session, material, problems)
    if revised is not None:
        again = await _check(session, revised, material, gaps_for(revised), is_judged=is_judged)
        if len(_contradicted_claims(again)) < len(contradicted):
            return revised, again
    session.budget.spending.waste_since(before)
    return draft, text


async def _check(
    session: Session, draft: Draft, material: Material, gaps: Sequence[str], *, is_judged: bool
) -> CheckedText:
    evidence = evidence_of(material.known, material.sources, gaps)
    text = check_citations(draft.text.answer, material.sources, CITES_NOTHING)
    statements = claims_of(text, evidence)
    claims = await _judge(session, statements) if is_judged else tuple(each.claim for each in statements)
    is_marked = material.sources and draft.has_to_cite
    return CheckedText(*keep_cited(mark_uncited(text, evidence) if is_marked else text, material.sources), claims)


def _contradicted_claims(text: CheckedText) -> list[Claim]:
    return [claim for claim in text.claims if claim.verification == "contradicted"]


async def _judge(session: Session, claims: Sequence[CheckedClaim]) -> tuple[Claim, ...]:
    """Let a model judge the claims with evidence, as many as fit into one small turn."""
    resting = [number for number, each in enumerate(claims) if each.rests_on]
    verdicts = await _verdicts(session, [claims[number] for number in resting]) if resting else []
    judged = [each.claim for each in claims]
    for number, (verdict, is_doubted) in zip(resting, verdicts, strict=False):
        if verdict:
            reason = verdict.reason[:_LONGEST_PROBLEM]
            judged[number] = claims[number].as_judged(verdict.verdict, reason, is_doubted=is_doubted)
    return tuple(judged)


async def _verdicts(session: Session, claims: Sequence[CheckedClaim]) -> list[tuple[ClaimVerdict | None, bool]]:
    shown: list[ClaimToJudge] = []
    places: list[tuple[int, int | None]] = []
    left = DECISION_TOKENS
    for each in claims:
        claim = ClaimToJudge(text=each.claim.text, evidence=beginning(each.rests_on, _EVIDENCE_TOKENS))
        number = len(shown) + 1
        objection = [claim.replace(text=_DOUBT.format(number, each.doubts))] if each.doubts else []
        left -= tokens_of(claim.evidence) + sum(tokens_of(item.text) for item in (claim, *objection))
        if left < 0:
            break
        shown += [claim, *objection]
        places.append((number, number + 1 if objection else None))
    task = JudgeClaimsTask(claims=tuple(shown))
    answer = await try_turn(session, task, JudgeClaimsAnswer, tier=Tier.SMALL, until=session.clock.deadline_at)
    by_claim = {verdict.claim: verdict for verdict in answer.verdicts} if answer else {}
    return [
        (by_claim.get(number), doubt is not None and (doubt not in by_claim or by_claim[doubt].verdict == "says"))
        for number, doubt in places
    ]


async def grade(session: Session, draft: Draft, material: Material) -> tuple[Draft, tuple[Grade, ...]]:
    """Grade a draft by the request's criteria, revise it while that helps, and return the best with its grades."""
    if not session.request.criteria:
        return draft, ()
    grades = await _grades(session, draft, material.sources)
    if grades is None:
        session.progress.add_gaps([_NOT_GRADED])
        return draft, ()
    for _ in range(_MOST_REVISIONS):
        problems = [f"It does not meet the criterion “{each.criterion}”: {each.reason}" for each in _unmet(grades)]
        if not problems or session.budget.unspent.turns < _LEAST_TURNS:
            break
        before = session.budget.spending.mark()
        revised = await draft.rewrite(session, material, problems)
        regraded = None if revised is None else await _grades(session, revised, material.sources)
        if revised is None or regraded is None or len(_unmet(regraded)) >= len(problems):
            session.budget.spending.waste_since(before)
            break
        draft, grades = revised, regraded
    session.progress.add_gaps(f"A criterion is not met: {each.criterion[:_LONGEST_GAP]}" for each in _unmet(grades))
    return draft, grades


async def _grades(session: Session, draft: Draft, sources: Sequence[Source]) -> tuple[Grade, ...] | None:
    """Let a model grade a draft as shown to its reader; None if no model can."""
    if session.clock.was_interrupted:
        return None
    answer, cited = keep_cited(check_citations(draft.text.answer, sources), sources)
    criteria = session.request.criteria
    task = GradeTask(
        goal=session.request.goal,
        criteria=criteria,
        answer=answer,
        gaps=tuple(draft.text.gaps),
        sources=_shorten_sources(cited),
    )
    grading = await try_turn(session, task, GradeAnswer, until=session.clock.deadline_at)
    by_number = {each.criterion: each for each in grading.grades} if grading else {}
    if not any(number in by_number for number in range(1, len(criteria) + 1)):
        return None
    return tuple(
        Grade(criterion=criterion, met=by_number[number].met, reason=by_number[number].reason)
        if number in by_number
        else Grade(criterion=criterion, met=False, reason="It was not graded.")
        for number, criterion in enumerate(criteria, start=1)
    )


def _unmet(grades: Sequence[Grade]) -> list[Grade]:
    return [each for each in grades if not each.met]


def _shorten_sources(sources: Sequence[Source]) -> tuple[Source, ...]:
    most = DECISION_TOKENS // max(len(sources), 1)
    return tuple(Source(ref=source.ref, quote=beginning(source.quote, most)) for source in sources)
