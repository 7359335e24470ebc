"""Deciding between answers: of several attempts, of several candidates, of agents that contradict each other."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from activities.contracts import ContradictionDraft, InputOutcome
from activities.turn_kinds.judge import JudgeAnswer, JudgeTask
from chargehand.contracts import Contradiction
from workflows.budget.estimates import DECISION_INPUT_BYTES, DECISION_OUTPUT_TOKENS
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.evidence import percentage
from workflows.rules.report_content import USABLE, fitted
from workflows.session import Session

_MOST_DECISIONS: Final = 3
"""Contradictions that a judge is asked about in one session; more are stated as they are."""


async def judge(session: Session, question: str, candidates: Sequence[InputOutcome]) -> JudgeAnswer | None:
    """Have a judge decide between candidates; None if nothing was decided."""
    task = JudgeTask(question=question, candidates=fitted(candidates, DECISION_INPUT_BYTES))
    try:
        result = await session.turn(task, DECISION_OUTPUT_TOKENS, until=session.deadline_at)
    except (CannotPay, TurnLost):
        return None
    decision = result.answer_as(JudgeAnswer)
    return decision if decision and decision.chosen in {given.id for given in candidates} else None


async def settle_contradictions(
    session: Session, drafts: Iterable[ContradictionDraft], outcomes: Sequence[InputOutcome]
) -> list[Contradiction]:
    """Have a judge decide what agents disagree on; what it cannot decide is stated with the confidence of each side."""
    settled: list[Contradiction] = []
    asked = len(session.contradictions)
    for draft in drafts:
        found = stated(draft, outcomes)
        asked += 1
        if not found.resolution and asked <= _MOST_DECISIONS:
            found = await _decided(session, found, outcomes)
        settled.append(found)
    return settled


def stated(draft: ContradictionDraft, outcomes: Sequence[InputOutcome]) -> Contradiction:
    """Take a contradiction over as it was found, each position with the confidence of the agents that it names."""
    positions = tuple(_with_confidence(position, outcomes) for position in draft.positions)
    return Contradiction(about=draft.about, positions=positions, resolution=draft.resolution)


async def _decided(session: Session, found: Contradiction, outcomes: Sequence[InputOutcome]) -> Contradiction:
    sides = [given for given in outcomes if any(_names(position, given) for position in found.positions)]
    candidates = sides if len(sides) > 1 else [given for given in outcomes if given.outcome.kind in USABLE]
    if len(candidates) < 2:
        return found
    positions = "\n".join(f"- {position}" for position in found.positions)
    decision = await judge(session, f"Outcomes disagree about {found.about}:\n{positions}\nWhich is right?", candidates)
    if decision is None:
        return found
    return found.model_copy(
        update={
            "resolution": f"{decision.chosen} is followed: {decision.reason}",
            "confidence": percentage(decision.confidence),
        }
    )


def _with_confidence(position: str, outcomes: Sequence[InputOutcome]) -> str:
    named = [f"{given.id}: {given.outcome.confidence}" for given in outcomes if _names(position, given)]
    return f"{position} (confidence {', '.join(named)})" if named else position


def _names(position: str, given: InputOutcome) -> bool:
    if re.search(rf"\b{re.escape(given.id)}\b", position):
        return True
    return any(f"[{source.ref}]" in position for source in given.outcome.sources)
