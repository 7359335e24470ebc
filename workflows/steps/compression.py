"""Making outcomes short enough for whoever reads them next, by models where that pays, by cutting where it does not."""

import asyncio
from collections.abc import Sequence
from typing import Final

from activities.contracts import InputOutcome
from activities.turn_kinds.compress import CompressAnswer, CompressTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from chargehand.contracts import Outcome, Partial, Source, Subtask, Tier
from workflows.budget.estimates import DECISION_OUTPUT_TOKENS, SYNTHESIS_INPUT_BYTES
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.citations import name_refs
from workflows.rules.evidence import percentage
from workflows.rules.report_content import fitted, json_bytes, numbered_sources
from workflows.session import Session

LONGEST_CONTENT: Final = 8_000
"""Characters of an outcome, about 2,000 tokens, above which it is compressed before others read it."""
_COMPRESSED_WORDS: Final = 600
_CUT: Final = "\n\n*(Cut here: it was longer than 2,000 tokens.)*"
_OF_ONE: Final = SYNTHESIS_INPUT_BYTES // 3
"""Bytes of one outcome in a group, so that a group always holds several."""
_PART: Final = (
    "Summarise this part of the outcomes for whoever writes the report: every figure, name, date, condition and doubt "
    "that the request asks for, with its citation."
)


async def condensed(session: Session, subtask: Subtask, outcome: Outcome) -> Outcome:
    """Shorten the prose of a long outcome; its findings, sources and gaps stay as they are."""
    if len(outcome.content) <= LONGEST_CONTENT or _is_the_report(session):
        return outcome
    shorter = await _compressed(session, subtask, outcome.content) if session.edition >= 2 else ""
    return outcome.model_copy(update={"content": shorter or outcome.content[: LONGEST_CONTENT - len(_CUT)] + _CUT})


def _is_the_report(session: Session) -> bool:
    """Whether an outcome is handed to the user as it is, since nothing else was planned."""
    return session.edition >= 2 and session.progress.plan is not None and len(session.progress.plan.subtasks) == 1


async def _compressed(session: Session, subtask: Subtask, content: str) -> str:
    if session.is_over:
        return ""
    task = CompressTask(instruction=subtask.instruction, content=content, most_words=_COMPRESSED_WORDS)
    try:
        result = await session.turn(task, DECISION_OUTPUT_TOKENS, tier=Tier.SMALL)
    except (CannotPay, TurnLost):
        return ""
    answer = result.answer_as(CompressAnswer)
    shorter = answer.content.strip() if answer else ""
    return shorter if len(shorter) <= LONGEST_CONTENT else ""


async def reduced(session: Session, outcomes: Sequence[InputOutcome]) -> tuple[InputOutcome, ...]:
    """Summarise outcomes in a tree, group by group, until all of them together can be shown to one writer."""
    left = tuple(outcomes)
    while json_bytes(left) > SYNTHESIS_INPUT_BYTES:
        groups = _grouped(left)
        if len(groups) == len(left):
            break
        parts = await asyncio.gather(*(_summarised(session, group) for group in groups))
        if any(part is None for part in parts):
            break
        left = tuple(part for part in parts if part is not None)
    return fitted(left, SYNTHESIS_INPUT_BYTES)


def _grouped(outcomes: Sequence[InputOutcome]) -> list[tuple[InputOutcome, ...]]:
    groups: list[tuple[InputOutcome, ...]] = []
    for given in (fitted((given,), _OF_ONE)[0] for given in outcomes):
        if groups and json_bytes((*groups[-1], given)) <= SYNTHESIS_INPUT_BYTES:
            groups[-1] = (*groups[-1], given)
        else:
            groups.append((given,))
    return groups


async def _summarised(session: Session, group: tuple[InputOutcome, ...]) -> InputOutcome | None:
    """Have one group summarised; None if no model can."""
    if len(group) == 1:
        return group[0]
    sources = numbered_sources(group)
    task = SynthesisTask(
        goal=session.request.goal,
        final_instruction=_PART,
        strategy="reduce",
        outcomes=group,
        sources=tuple(source.ref for source in sources),
        is_part=True,
    )
    try:
        result = await session.turn(task, DECISION_OUTPUT_TOKENS, until=session.deadline_at)
    except (CannotPay, TurnLost):
        return None
    summary = result.answer_as(SynthesisAnswer)
    return _part(group, sources, summary) if summary else None


def _part(group: Sequence[InputOutcome], sources: Sequence[Source], draft: SynthesisAnswer) -> InputOutcome:
    """Make of a summary an outcome that stands for all of a group."""
    content = name_refs(draft.answer, [source.ref for source in sources])
    return InputOutcome(
        id=f"{group[0].id}..{group[-1].id}",
        agent="supervisor",
        instruction=f"Summary of {', '.join(given.id for given in group)}",
        outcome=Partial(
            content=content[:LONGEST_CONTENT],
            sources=tuple(source for source in sources if f"[{source.ref}]" in content),
            confidence=percentage(draft.confidence),
            gaps=tuple(draft.gaps),
            reason="summarised",
        ),
    )
