"""The strategies that turn outcomes into a draft of the report; the sections of a long one are written concurrently.

A strategy is a function of a session and its `Material`, listed by name in `STRATEGIES`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.synthesis import (
    CompressAnswer,
    CompressTask,
    OutlineAnswer,
    OutlineTask,
    Section,
    SynthesisAnswer,
    SynthesisTask,
)
from chargehand.contracts import Partial, Strategy, Tier
from workflows.rules.citation_checks import assign_by_words
from workflows.rules.citations import name_refs, number_more_refs, number_refs
from workflows.rules.evidence import percentage
from workflows.rules.graph import USABLE
from workflows.rules.inputs import WRITER_TOKENS, fit_task, rendered_tokens, tokens_of, with_outcomes
from workflows.rules.report_content import draft_from, numbered_sources, sections_for
from workflows.state.session import Session
from workflows.steps.effects import try_turn
from workflows.steps.review import judge
from workflows.steps.writer import Draft, Material, final_instruction, name_sources, write

_LONG_TOKENS: Final = 2_000
"""Outcomes with more prose are shortened if there is too much for one writer."""
_SHORT_WORDS: Final = 600
_SHORT_TOKENS: Final = 1_000
_SPARE_TOKENS: Final = WRITER_TOKENS // 10
"""Reserved in the writer's input for everything but prose."""
_GROUP_OUTCOMES: Final = 5
"""Number of outcomes that `reduce` summarises together."""
_PART: Final = (
    "Summarise this part of the outcomes for the writer of the report: every figure, name, date, condition and doubt "
    "that the request asks for, with its citation."
)
_LINE: Final = 200
"""Maximum characters of a title or heading."""


async def merge(session: Session, material: Material) -> Draft | None:
    """Write one text from all outcomes, shortening the longest if there is too much for one writer."""
    outcomes = material.outcomes
    if is_too_long(session, material, outcomes) and not session.clock.was_interrupted:
        outcomes = await _shorten_longest(session, outcomes)
    return await _write(session, material, outcomes)


async def reduce(session: Session, material: Material) -> Draft | None:
    """Summarise outcomes in groups until one writer can read them, and write the report from the summaries."""
    outcomes = material.outcomes
    while len(outcomes) > 1 and is_too_long(session, material, outcomes) and not session.clock.was_interrupted:
        groups = [outcomes[start : start + _GROUP_OUTCOMES] for start in range(0, len(outcomes), _GROUP_OUTCOMES)]
        before = session.budget.spending.mark()
        parts = await asyncio.gather(*(_summarise(session, material, group) for group in groups))
        summaries = [part for part in parts if part is not None]
        if len(summaries) < len(groups):
            session.budget.spending.waste_since(before)
            break
        outcomes = summaries
    return await _write(session, material, outcomes)


async def select(session: Session, material: Material) -> Draft | None:
    """Have a judge choose between candidate answers; merge them if it does not."""
    candidates = [entry for entry in material.outcomes if entry.outcome.kind in USABLE]
    decision = None
    if len(candidates) > 1:
        plan = session.progress.plan
        question = f"{session.request.goal}\n{plan.final_instruction if plan else ''}".strip()
        decision = await judge(session, question, candidates)
    if decision is None:
        return await merge(session, material)
    chosen = next(candidate for candidate in candidates if candidate.id == decision.chosen)
    draft = draft_from(chosen.outcome, material.sources)
    others = ", ".join(candidate.id for candidate in candidates if candidate.id != chosen.id)
    why = number_refs(decision.reason, material.numbering.numbers)
    answer = f"{draft.answer}\n\n*{chosen.id} ({chosen.agent}) was chosen over {others}: {why}*"
    confidence = min(draft.confidence, percentage(decision.confidence))
    return Draft(draft.replace(answer=answer, confidence=confidence))


async def deliver(session: Session, material: Material) -> Draft | None:
    """Deliver the text of one subtask unchanged; merge all outcomes if it has none."""
    plan = session.progress.plan
    for entry in material.outcomes:
        if plan and entry.id == plan.deliver and entry.outcome.kind in USABLE and entry.outcome.content:
            text = SynthesisAnswer(
                answer=number_refs(entry.outcome.content, material.numbering.numbers),
                gaps=[],
                contradictions=[],
                confidence=entry.outcome.confidence,
            )
            return Draft(text, is_delivered=True)
    session.progress.add_gaps(["The text that was to be delivered is missing; the report is written from the rest."])
    return await merge(session, material)


def is_too_long(session: Session, material: Material, outcomes: Sequence[InputOutcome]) -> bool:
    """Whether outcomes are too long to be read in full by one writer."""
    if sum(len(entry.outcome.content) for entry in outcomes) > WRITER_TOKENS * 6:
        return True
    task = SynthesisTask(goal=session.request.goal, outcomes=())
    return rendered_tokens(with_outcomes(task, outcomes, material.numbering)) > WRITER_TOKENS


async def _write(session: Session, material: Material, outcomes: Sequence[InputOutcome]) -> Draft | None:
    by_section = await write_by_section(session, material, outcomes)
    if by_section is not None:
        return by_section
    text = await write(session, material, outcomes)
    return Draft(text) if text else None


async def _shorten_longest(session: Session, outcomes: Sequence[InputOutcome]) -> Sequence[InputOutcome]:
    """Shorten the prose of as few of the longest outcomes as needed; findings and sources stay untouched."""
    lengths = {entry.id: tokens_of(entry.outcome.content) for entry in outcomes}
    excess = sum(lengths.values()) - WRITER_TOKENS
    chosen: list[InputOutcome] = []
    for entry in sorted(outcomes, key=lambda entry: -lengths[entry.id]):
        if lengths[entry.id] <= _LONG_TOKENS:
            break
        chosen.append(entry)
        excess -= lengths[entry.id] - _SHORT_TOKENS
        if excess <= -_SPARE_TOKENS:
            break
    shorter = dict(await asyncio.gather(*(_shorten(session, entry) for entry in chosen)))
    return [shorter.get(entry.id, entry) for entry in outcomes]


async def _shorten(session: Session, entry: InputOutcome) -> tuple[str, InputOutcome]:
    task = CompressTask(
        instruction=entry.instruction,
        content=entry.outcome.content,
        sources=tuple(source.ref for source in entry.outcome.sources),
        most_words=_SHORT_WORDS,
    )
    draft = await try_turn(session, task, CompressAnswer, tier=Tier.SMALL, until=session.clock.deadline_at)
    shorter = draft.content.strip() if draft else ""
    if not shorter or len(shorter) >= len(entry.outcome.content):
        return entry.id, entry
    return entry.id, entry.replace(outcome=entry.outcome.replace(content=shorter))


async def _summarise(session: Session, material: Material, group: Sequence[InputOutcome]) -> InputOutcome | None:
    """Have one group summarised, keeping all its findings; None if no model can."""
    if len(group) == 1:
        return group[0]
    task = SynthesisTask(goal=session.request.goal, final_instruction=_PART, is_part=True, outcomes=())
    task = fit_task(task, group, material.numbering)
    draft = await try_turn(session, task, SynthesisAnswer, until=session.clock.deadline_at)
    if draft is None:
        return None
    numbering = material.numbering
    content = name_refs(number_more_refs(draft.answer, numbering.numbers), [source.ref for source in numbering.sources])
    return InputOutcome(
        id=f"{group[0].id}..{group[-1].id}",
        agent="supervisor",
        instruction=f"Summary of {', '.join(entry.id for entry in group)}",
        outcome=Partial(
            content=content,
            findings=tuple(finding for entry in group for finding in entry.outcome.findings),
            sources=numbered_sources(group),
            confidence=percentage(draft.confidence),
            gaps=tuple(dict.fromkeys([*draft.gaps, *(gap for entry in group for gap in entry.outcome.gaps)])),
            issues=tuple(issue for entry in group for issue in entry.outcome.issues),
            reason="summarised",
        ),
    )


STRATEGIES: Final[Mapping[Strategy, Callable[[Session, Material], Awaitable[Draft | None]]]] = {
    "merge": merge,
    "select": select,
    "reduce": reduce,
    "deliver": deliver,
}
"""Synthesis strategies by their name in plans."""


@dataclass(frozen=True)
class _Part:
    """A section being written."""

    section: Section
    words: int
    text: SynthesisAnswer


@dataclass(frozen=True, kw_only=True)
class _SectionedDraft(Draft):
    """A report whose sections are written and rewritten independently."""

    outline: OutlineAnswer
    parts: tuple[_Part, ...]

    async def rewrite(self, session: Session, material: Material, problems: Sequence[str]) -> Draft | None:
        """Rewrite the sections quoted by problems; all sections for a problem that quotes none."""

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
    """Write a long report by section; None if it is not long, there is no time, or outlining fails."""
    words = session.report_words
    if not session.is_long_report or session.clock.was_interrupted:
        return None
    session.budget.report_reserve.release()
    # Keep one turn for writing the report in one piece if the outline fails.
    most = min(sections_for(words), session.budget.unspent.turns - 1)
    before = session.budget.spending.mark()
    outline = await _outline(session, material, outcomes, words, most) if most > 1 else None
    if outline is None or len(outline.sections) < 2:
        session.budget.spending.waste_since(before)
        session.progress.add_gaps(
            ["The report could not be outlined in sections; in one piece it may be shorter than asked."]
        )
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
    conflicts = name_sources(outline.contradictions, material)
    return _join(outline.replace(gaps=gaps, contradictions=conflicts), tuple(parts))


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
    conflicts = [*outline.contradictions, *(each for text in texts for each in text.contradictions)]
    whole = SynthesisAnswer(
        answer="\n\n".join(
            [f"# {_line(outline.title)}", *(f"## {p.section.heading}\n\n{p.text.answer}" for p in parts)]
        ),
        gaps=list(dict.fromkeys(gap for each in (outline, *texts) for gap in each.gaps)),
        contradictions=list({each.about: each for each in conflicts}.values()),
        confidence=min(each.confidence for each in (outline, *texts)),
    )
    return _SectionedDraft(text=whole, outline=outline, parts=parts)


def _line(text: str) -> str:
    return " ".join(text.split()).lstrip("# ")[:_LINE]
