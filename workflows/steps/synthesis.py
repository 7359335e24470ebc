"""The strategies that turn outcomes into a draft of the report, and the writer that they share.

A strategy is a function of a session and its `Material`; `STRATEGIES` in `steps/report.py` lists them by name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from temporalio import workflow

from activities.contracts import InputOutcome
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from chargehand.contracts import Partial, Source, StopReason, Strategy
from workflows import options
from workflows.budget.estimates import SYNTHESIS_INPUT_BYTES
from workflows.rules.citations import name_refs, number_refs
from workflows.rules.evidence import percentage
from workflows.rules.report_content import USABLE, draft_from, fitted, json_bytes, numbered_sources
from workflows.session import Session
from workflows.steps.review import judge

_LONGEST_SUMMARY: Final = 8_000
_GROUP_OUTCOMES: Final = 5
"""Outcomes that `reduce` summarises together."""
_GROUP_BYTES: Final = SYNTHESIS_INPUT_BYTES
_OUTCOME_BYTES: Final = SYNTHESIS_INPUT_BYTES // 3
"""Bytes of one outcome in a group, so that a group always holds several."""
_PART: Final = (
    "Summarise this part of the outcomes for whoever writes the report: every figure, name, date, condition and doubt "
    "that the request asks for, with its citation."
)


@dataclass(frozen=True)
class Material:
    """What a report is made of."""

    outcomes: Sequence[InputOutcome]
    """All of them, in the order of the plan."""
    sources: Sequence[Source]
    """All that was read, in citation order."""
    stop_reason: StopReason

    @property
    def numbers(self) -> dict[str, int]:
        """The number by which the report cites each source."""
        return {source.ref: number for number, source in enumerate(self.sources, start=1)}


async def merge(session: Session, material: Material) -> SynthesisAnswer | None:
    """Write one text from all outcomes; they are summarised in groups first if they are too long for one writer."""
    outcomes = material.outcomes
    if json_bytes(outcomes) > SYNTHESIS_INPUT_BYTES and not session.clock.was_interrupted:
        outcomes = await _summarise_in_groups(session, outcomes, most=len(outcomes))
    return await write(session, material, outcomes)


async def reduce(session: Session, material: Material) -> SynthesisAnswer | None:
    """Summarise outcomes group by group until one group is left, and write the report from that."""
    outcomes = material.outcomes
    while len(outcomes) > _GROUP_OUTCOMES and not session.clock.was_interrupted:
        fewer = await _summarise_in_groups(session, outcomes, most=_GROUP_OUTCOMES)
        if len(fewer) == len(outcomes):
            break
        outcomes = fewer
    return await write(session, material, outcomes)


async def select(session: Session, material: Material) -> SynthesisAnswer | None:
    """Have a judge choose between candidates for the same answer; they are merged if it does not decide."""
    candidates = [given for given in material.outcomes if given.outcome.kind in USABLE]
    decision = None
    if len(candidates) > 1:
        plan = session.progress.plan
        question = f"{session.request.goal}\n{plan.final_instruction if plan else ''}".strip()
        decision = await judge(session, question, candidates)
    if decision is None:
        return await write(session, material, material.outcomes)
    chosen = next(candidate for candidate in candidates if candidate.id == decision.chosen)
    draft = draft_from(chosen.outcome, material.sources)
    others = ", ".join(candidate.id for candidate in candidates if candidate.id != chosen.id)
    why = number_refs(decision.reason, material.numbers)
    answer = f"{draft.answer}\n\n*{chosen.id} ({chosen.agent}) was chosen over {others}: {why}*"
    return draft.model_copy(
        update={"answer": answer, "confidence": min(draft.confidence, percentage(decision.confidence))}
    )


async def write(
    session: Session, material: Material, outcomes: Sequence[InputOutcome], problems: Sequence[str] = ()
) -> SynthesisAnswer | None:
    """Have a model write the report from outcomes; None if it cannot, or not before the deadline."""
    plan = session.progress.plan
    outcomes = fitted(outcomes, SYNTHESIS_INPUT_BYTES)
    task = SynthesisTask(
        goal=session.request.goal,
        final_instruction=plan.final_instruction if plan else "",
        strategy=plan.strategy if plan else "merge",
        outcomes=outcomes,
        sources=tuple(source.ref for source in numbered_sources(outcomes)),
        stopped_because="" if material.stop_reason == "completed" else material.stop_reason.replace("_", " "),
        contradictions=tuple(session.progress.contradictions),
        problems=tuple(problems),
    )
    session.report_reserve.release()
    until = max(session.clock.deadline_at, workflow.now() + options.LEAST_REPORT_TIME)
    draft = await session.try_turn(task, SynthesisAnswer, until=until)
    if draft is None:
        return None
    # The writer numbers what it reads; the report numbers everything that was read.
    answer = number_refs(name_refs(draft.answer, task.sources), material.numbers)
    contradictions = [
        found.model_copy(
            update={
                "positions": [name_refs(position, task.sources) for position in found.positions],
                "resolution": name_refs(found.resolution, task.sources),
            }
        )
        for found in draft.contradictions
    ]
    return draft.model_copy(update={"answer": answer, "contradictions": contradictions})


async def _summarise_in_groups(
    session: Session, outcomes: Sequence[InputOutcome], *, most: int
) -> Sequence[InputOutcome]:
    """Replace each group of at most `most` outcomes by its summary, until all fit one writer; as is if that fails."""
    left = outcomes
    while True:
        groups = _grouped(left, most)
        if len(groups) == len(left):
            return left
        parts = await asyncio.gather(*(_summarise(session, group) for group in groups))
        if any(part is None for part in parts):
            return left
        left = [part for part in parts if part is not None]
        if json_bytes(left) <= SYNTHESIS_INPUT_BYTES:
            return left


def _grouped(outcomes: Sequence[InputOutcome], most: int) -> list[list[InputOutcome]]:
    groups: list[list[InputOutcome]] = []
    for given in (fitted((given,), _OUTCOME_BYTES)[0] for given in outcomes):
        if groups and len(groups[-1]) < most and json_bytes([*groups[-1], given]) <= _GROUP_BYTES:
            groups[-1].append(given)
        else:
            groups.append([given])
    return groups


async def _summarise(session: Session, group: Sequence[InputOutcome]) -> InputOutcome | None:
    """Have one group summarised; None if no model can."""
    if len(group) == 1:
        return group[0]
    sources = numbered_sources(group)
    refs = tuple(source.ref for source in sources)
    task = SynthesisTask(
        goal=session.request.goal,
        final_instruction=_PART,
        strategy="reduce",
        outcomes=tuple(group),
        sources=refs,
        is_part=True,
    )
    draft = await session.try_turn(task, SynthesisAnswer, until=session.clock.deadline_at)
    if draft is None:
        return None
    content = name_refs(draft.answer, refs)[:_LONGEST_SUMMARY]
    return InputOutcome(
        id=f"{group[0].id}..{group[-1].id}",
        agent="supervisor",
        instruction=f"Summary of {', '.join(given.id for given in group)}",
        outcome=Partial(
            content=content,
            sources=tuple(source for source in sources if f"[{source.ref}]" in content),
            confidence=percentage(draft.confidence),
            gaps=tuple(draft.gaps),
            reason="summarised",
        ),
    )


STRATEGIES: Final[Mapping[Strategy, Callable[[Session, Material], Awaitable[SynthesisAnswer | None]]]] = {
    "merge": merge,
    "select": select,
    "reduce": reduce,
}
"""How outcomes become one report, by the name that a plan gives it."""
