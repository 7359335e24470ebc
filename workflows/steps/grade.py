"""The user's own measure: a report is graded by the criteria of its request, and revised where it fails them."""

from collections.abc import Sequence
from typing import Final

from activities.turn_kinds.grade_report import GradeAnswer, GradeTask
from chargehand.contracts import Grade, Source
from workflows.rules.inputs import DECISION_TOKENS, beginning
from workflows.rules.report_content import check_citations, keep_cited
from workflows.state.session import Session
from workflows.steps.turns import try_turn
from workflows.steps.writer import Draft, Material

_NOT_GRADED: Final = "The report was not graded by its criteria: no model could do so in time and within the limits."
_MOST_REVISIONS: Final = 2
_LEAST_TURNS: Final = 2
"""A revision, and the grades of what it gave."""
_LONGEST_GAP: Final = 200


async def grade(session: Session, draft: Draft, material: Material) -> tuple[Draft, tuple[Grade, ...]]:
    """Grade a draft by the request's criteria, and revise it while that helps; returns the best, and its grades."""
    if not session.request.criteria:
        return draft, ()
    grades = await _grades(session, draft, material.sources)
    if grades is None:
        session.progress.add_gaps([_NOT_GRADED])
        return draft, ()
    for _ in range(_MOST_REVISIONS):
        problems = [f"It does not meet the criterion “{each.criterion}”: {each.reason}" for each in _unmet(grades)]
        if not problems or session.ledger.unspent.turns < _LEAST_TURNS:
            break
        before = session.spending.mark()
        revised = await draft.rewrite(session, material, problems)
        regraded = None if revised is None else await _grades(session, revised, material.sources)
        if revised is None or regraded is None or len(_unmet(regraded)) >= len(problems):
            session.spending.waste_since(before)
            break
        draft, grades = revised, regraded
    session.progress.add_gaps(f"A criterion is not met: {each.criterion[:_LONGEST_GAP]}" for each in _unmet(grades))
    return draft, grades


async def _grades(session: Session, draft: Draft, sources: Sequence[Source]) -> tuple[Grade, ...] | None:
    """Have a model grade a draft as its reader would see it; None if no model can."""
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
    found = await try_turn(session, task, GradeAnswer, until=session.clock.deadline_at)
    by_number = {each.criterion: each for each in found.grades} if found else {}
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
    """Cut quotations evenly to what a grader reads."""
    most = DECISION_TOKENS // max(len(sources), 1)
    return tuple(Source(ref=source.ref, quote=beginning(source.quote, most)) for source in sources)
