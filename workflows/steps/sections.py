"""Long reports, by section: an outline, then its sections side by side, joined."""

import asyncio
from collections.abc import Sequence
from typing import Final

from activities.contracts import InputOutcome
from activities.turn_kinds.outline import OutlineAnswer, OutlineTask
from activities.turn_kinds.synthesis import Section, SynthesisAnswer
from workflows.rules.writer_input import fitted_task
from workflows.session import Session
from workflows.steps.writer import Draft, Material, is_long, length_words, named, sections_for, uncited_problems, write

_LINE: Final = 200
"""Characters of a title or heading."""


async def write_by_section(session: Session, material: Material, outcomes: Sequence[InputOutcome]) -> Draft | None:
    """Write a long report by section; None if none is asked for, there is no time, or it cannot be outlined."""
    words = length_words(session)
    if not is_long(session) or session.clock.was_interrupted:
        return None
    session.report_reserve.release()
    # One turn is kept for the report in one piece, should the outline fail.
    most = min(sections_for(words), session.ledger.unspent.turns - 1)
    outline = await _outline(session, material, outcomes, words, most) if most > 1 else None
    if outline is None or len(outline.sections) < 2:
        session.progress.add_gaps(["The limits or the outline left no room for a report by section; it is shorter."])
        return None
    headings = tuple(_line(each.heading) for each in outline.sections[:most])
    usual = words // len(headings)
    writers = (
        _write_section(
            session,
            material,
            outcomes,
            Section(heading=heading, brief=planned.brief, outline=headings),
            planned.words if 0 < planned.words < 2 * usual else usual,
        )
        for heading, planned in zip(headings, outline.sections, strict=False)
    )
    written = await asyncio.gather(*writers)
    if not any(written):
        return None
    missing = [heading for heading, text in zip(headings, written, strict=True) if text is None]
    return Draft(_joined(outline, headings, written, material, missing), is_final=True)


async def _outline(
    session: Session, material: Material, outcomes: Sequence[InputOutcome], words: int, most: int
) -> OutlineAnswer | None:
    plan = session.progress.plan
    task = OutlineTask(
        goal=session.request.goal,
        final_instruction=plan.final_instruction if plan else "",
        length_words=words,
        most_sections=most,
        outcomes=(),
    )
    task = fitted_task(task, outcomes, material.numbering)
    return await session.try_turn(task, OutlineAnswer, until=session.clock.deadline_at)


async def _write_section(
    session: Session,
    material: Material,
    outcomes: Sequence[InputOutcome],
    section: Section,
    words: int,
) -> SynthesisAnswer | None:
    """Write one section; what it leaves uncited is sent back once."""
    draft = await write(session, material, outcomes, section=section, words=words)
    if draft is None or session.request.review == "never":
        return draft
    problems = uncited_problems(draft.answer, material, draft.gaps)
    if not problems:
        return draft
    again = await write(
        session, material, outcomes, section=section, words=words, problems=problems, first_version=draft.answer
    )
    return again or draft


def _joined(
    outline: OutlineAnswer,
    headings: Sequence[str],
    written: Sequence[SynthesisAnswer | None],
    material: Material,
    missing: Sequence[str],
) -> SynthesisAnswer:
    texts = [f"## {heading}\n\n{text.answer}" for heading, text in zip(headings, written, strict=True) if text]
    there = [text for text in written if text]
    found = [*named(outline.contradictions, material), *(each for text in there for each in text.contradictions)]
    return SynthesisAnswer(
        answer="\n\n".join([f"# {_line(outline.title)}", *texts]),
        gaps=[
            *(f"The section '{heading}' could not be written." for heading in missing),
            *dict.fromkeys(gap for each in (outline, *there) for gap in each.gaps),
        ],
        contradictions=list({each.about: each for each in found}.values()),
        confidence=min(each.confidence for each in (outline, *there)),
    )


def _line(text: str) -> str:
    return " ".join(text.split()).lstrip("# ")[:_LINE]
