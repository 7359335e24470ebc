"""Long reports, by section: an outline, then its sections side by side, joined."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.outline_report import OutlineAnswer, OutlineTask
from activities.turn_kinds.synthesis import Section, SynthesisAnswer
from workflows.rules.citation_checks import assign_by_words
from workflows.rules.inputs import fit_task
from workflows.rules.report_content import sections_for
from workflows.state.session import Session
from workflows.steps.turns import try_turn
from workflows.steps.writer import Draft, Material, final_instruction, name_sources, write

_LINE: Final = 200
"""Characters of a title or heading."""


@dataclass(frozen=True)
class _Part:
    """A section as it is written."""

    section: Section
    words: int
    text: SynthesisAnswer


@dataclass(frozen=True, kw_only=True)
class _SectionedDraft(Draft):
    """A report whose sections are written, and written again, each by itself."""

    outline: OutlineAnswer
    parts: tuple[_Part, ...]

    async def rewrite(self, session: Session, material: Material, problems: Sequence[str]) -> Draft | None:
        """Have the sections written again that problems quote; all of them for a problem that quotes none."""

        async def again(part: _Part, problems: Sequence[str]) -> _Part:
            if not problems:
                return part
            text = await write(
                session,
                material,
                material.outcomes,
                section=part.section,
                words=part.words,
                problems=problems,
                first_version=part.text.answer,
            )
            return replace(part, text=text) if text else part

        assigned = assign_by_words(problems, [part.text.answer for part in self.parts])
        parts = tuple(await asyncio.gather(*map(again, self.parts, assigned)))
        return None if parts == self.parts else _join(self.outline, parts)


async def write_by_section(session: Session, material: Material, outcomes: Sequence[InputOutcome]) -> Draft | None:
    """Write a long report by section; None if none is asked for, there is no time, or it cannot be outlined."""
    words = session.report_words
    if not session.is_long_report or session.clock.was_interrupted:
        return None
    session.budget.report_reserve.release()
    # One turn is kept for the report in one piece, should the outline fail.
    most = min(sections_for(words), session.budget.unspent.turns - 1)
    before = session.budget.spending.mark()
    outline = await _outline(session, material, outcomes, words, most) if most > 1 else None
    if outline is None or len(outline.sections) < 2:
        session.budget.spending.waste_since(before)
        session.progress.add_gaps(["The limits or the outline left no room for a report by section; it is shorter."])
        return None
    headings = tuple(_line(each.heading) for each in outline.sections[:most])
    usual = words // len(headings)
    planned = [
        (
            Section(heading=heading, brief=each.brief, outline=headings),
            each.words if 0 < each.words < 2 * usual else usual,
        )
        for heading, each in zip(headings, outline.sections, strict=False)
    ]
    texts = await asyncio.gather(
        *(write(session, material, outcomes, section=section, words=words) for section, words in planned)
    )
    parts = [_Part(section, words, text) for (section, words), text in zip(planned, texts, strict=True) if text]
    if not parts:
        session.budget.spending.waste_since(before)
        return None
    lost = [heading for heading, text in zip(headings, texts, strict=True) if text is None]
    gaps = [*(f"The section '{heading}' could not be written." for heading in lost), *outline.gaps]
    found = name_sources(outline.contradictions, material)
    return _join(outline.model_copy(update={"gaps": gaps, "contradictions": found}), tuple(parts))


async def _outline(
    session: Session, material: Material, outcomes: Sequence[InputOutcome], words: int, most: int
) -> OutlineAnswer | None:
    task = OutlineTask(
        goal=session.request.goal,
        final_instruction=final_instruction(session),
        length_words=words,
        most_sections=most,
        outcomes=(),
    )
    task = fit_task(task, outcomes, material.numbering)
    return await try_turn(session, task, OutlineAnswer, until=session.clock.deadline_at)


def _join(outline: OutlineAnswer, parts: tuple[_Part, ...]) -> Draft:
    texts = [part.text for part in parts]
    found = [*outline.contradictions, *(each for text in texts for each in text.contradictions)]
    whole = SynthesisAnswer(
        answer="\n\n".join(
            [f"# {_line(outline.title)}", *(f"## {p.section.heading}\n\n{p.text.answer}" for p in parts)]
        ),
        gaps=list(dict.fromkeys(gap for each in (outline, *texts) for gap in each.gaps)),
        contradictions=list({each.about: each for each in found}.values()),
        confidence=min(each.confidence for each in (outline, *texts)),
    )
    return _SectionedDraft(text=whole, outline=outline, parts=parts)


def _line(text: str) -> str:
    return " ".join(text.split()).lstrip("# ")[:_LINE]
