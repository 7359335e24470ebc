"""Review of outcomes: which answer is right, what is contradictory, and whether to extend the plan."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.judgements import JudgeAnswer, JudgeTask
from activities.turn_kinds.plan import PlanAnswer, ReviewAnswer, ReviewTask
from activities.turn_kinds.protocol import ContradictionDraft, SubtaskDraft
from chargehand.contracts import Contradiction, Outcome, Plan, Success
from chargehand.plugins import Hook
from workflows.budget.ledger import Amount
from workflows.rules.evidence import percentage
from workflows.rules.graph import USABLE
from workflows.rules.information_flow import leaks
from workflows.rules.inputs import DECISION_TOKENS, REVIEW_TOKENS, fit, prior_knowledge
from workflows.rules.plan_validation import InvalidPlan
from workflows.rules.plugin_results import each_of, hook_functions
from workflows.state.session import Session
from workflows.steps.effects import try_turn
from workflows.steps.plan import validate

_MOST_DECISIONS: Final = 3
"""Maximum contradictions put to a judge in one session; further ones are stated as found."""
DOUBTFUL: Final = 50
"""Confidence below which an answer is reviewed."""


def is_look_due(session: Session) -> bool:
    """Whether a wave has brought news that the plan could not foresee, while subtasks have yet to start.

    The last review is reserved for the end of the plan.
    """
    progress, wanted = session.progress, session.request.review
    recent = [*progress.outcomes.values()][progress.outcomes_read :]
    is_possible = wanted != "never" and progress.reviews + 1 < session.request.limits.max_reviews
    if not (is_possible and recent and progress.waiting):
        return False
    is_new = any_doubtful(recent) or any(outcome.gaps for outcome in recent)
    return wanted == "always" or is_new or bool(_new_disagreements(session))


async def review(session: Session) -> Plan | None:
    """Review whether the outcomes meet the goal; adopt and return an extended plan, or None if nothing is added.

    Disagreements found by code are given to the review, and those it leaves open to a judge.
    """
    progress, outcomes = session.progress, session.progress.inputs()
    wanted, differences = session.request.review, _new_disagreements(session)
    is_look, is_read = is_look_due(session), progress.outcomes_read == len(progress.outcomes)
    progress.mark_outcomes_read()
    if wanted == "never" or session.clock.work_is_over:
        return None  # the report states the disagreements
    is_payable = progress.reviews < session.request.limits.max_reviews and not is_read
    verdict = None
    if is_payable and (is_look or wanted == "always" or differences or any_doubtful(progress.outcomes.values())):
        verdict = await _look(session, differences)
    progress.add_compatible(each.about for each in differences if verdict and each.about in verdict.compatible)
    named = [draft for draft in (verdict.contradictions if verdict else []) if draft.about not in progress.compatible]
    settled = {*progress.compatible, *(draft.about for draft in named)}
    open_differences = [each for each in differences if each.about not in settled]
    progress.add_contradictions(await settle_contradictions(session, [*named, *open_differences], outcomes))
    if verdict is None or verdict.enough:
        return None
    larger = _enlarge(session, verdict)
    if larger is None:
        progress.add_gaps(verdict.missing)
    else:
        progress.adopt(larger)
    return larger


def state_disagreements(session: Session) -> None:
    """Record disagreements between outcomes that could not be put to a review or a judge."""
    outcomes = session.progress.inputs()
    session.progress.add_contradictions(state_contradiction(each, outcomes) for each in _new_disagreements(session))


def any_doubtful(outcomes: Iterable[Outcome]) -> bool:
    """Whether an outcome is missing, incomplete or uncertain; gaps named by a successful agent do not count."""
    return any(not isinstance(outcome, Success) or outcome.confidence < DOUBTFUL for outcome in outcomes)


async def judge(session: Session, question: str, candidates: Sequence[InputOutcome]) -> JudgeAnswer | None:
    """Have a judge choose between candidates; None if it does not."""
    decision = await _ask_judge(session, question, candidates)
    return decision if decision and decision.chosen in {candidate.id for candidate in candidates} else None


async def settle_contradictions(
    session: Session, drafts: Iterable[ContradictionDraft], outcomes: Sequence[InputOutcome]
) -> list[Contradiction]:
    """Have a judge settle contradictions between agents; those left open are stated with each side's confidence.

    Compatible statements are not contradictions.
    """
    settled: list[Contradiction] = []
    for draft in drafts:
        conflict = state_contradiction(draft, outcomes)
        is_within_limit = len(session.progress.known_differences) + len(settled) < _MOST_DECISIONS
        decided = conflict if conflict.resolution or not is_within_limit else await _decide(session, conflict, outcomes)
        settled += [decided] if decided else []
    return settled


def state_contradiction(draft: ContradictionDraft, outcomes: Sequence[InputOutcome]) -> Contradiction:
    """State a contradiction as found, with the confidence of the agents named by each position."""
    positions = tuple(_with_confidence(position, outcomes) for position in draft.positions)
    return Contradiction(about=draft.about, positions=positions, resolution=draft.resolution)


def _new_disagreements(session: Session) -> list[ContradictionDraft]:
    known, outcomes = session.progress.known_differences, session.progress.inputs()
    drafts = (
        each for find in hook_functions(Hook.DISAGREEMENTS, each_of(ContradictionDraft)) for each in find(outcomes)
    )
    return [each for each in drafts if each.about not in known]


async def _ask_judge(session: Session, question: str, candidates: Sequence[InputOutcome]) -> JudgeAnswer | None:
    task = fit(candidates, lambda read: JudgeTask(question=question, candidates=read), DECISION_TOKENS)
    return await try_turn(session, task, JudgeAnswer, until=session.clock.deadline_at)


async def _look(session: Session, differences: Sequence[ContradictionDraft]) -> ReviewAnswer | None:
    progress, goal, may_nest = session.progress, session.request.goal, session.may_nest
    progress.count_review()
    waiting = progress.waiting
    unspent = session.budget.unspent
    turns = unspent.turns - 2  # excluding this turn and the report's
    is_possible = session.budget.report_reserve.is_payable and turns > 0
    # Subtasks that have yet to start need their part.
    most = max(session.budget.agents_within(Amount(turns, unspent.usd)) - len(waiting), 0) if is_possible else 0

    def reading(outcomes: tuple[InputOutcome, ...]) -> ReviewTask:
        return ReviewTask(
            goal=goal,
            outcomes=outcomes,
            waiting=tuple(f"{subtask.id} ({subtask.agent}): {subtask.instruction}" for subtask in waiting),
            disagreements=tuple(differences),
            max_subtasks=most,
            may_nest=may_nest,
        )

    read = (*prior_knowledge(session.earlier), *progress.inputs())
    return await try_turn(session, fit(read, reading, REVIEW_TOKENS), ReviewAnswer)


def _enlarge(session: Session, found: ReviewAnswer) -> Plan | None:
    """Add the subtasks requested by a review to the plan; None if none can be executed."""
    plan = session.progress.plan
    if plan is None or not found.subtasks or not session.budget.report_reserve.hold():
        return None
    present = [
        SubtaskDraft.model_validate(subtask.model_dump(mode="json") | {"for_each": subtask.for_each or ""})
        for subtask in plan.subtasks
    ]
    draft = PlanAnswer(
        subtasks=[*present, *found.subtasks],
        strategy=plan.strategy,
        final_instruction=plan.final_instruction,
        deliver=plan.deliver or "",
        length_words=plan.length_words or 0,
        omitted=[],
    )
    try:
        larger = validate(session, draft, begun=session.progress.begun)
    except InvalidPlan:
        return None
    # The reviewer has read all outcomes, and no person approves the subtasks it adds.
    reads = session.provenance.everything
    if leaks(found.subtasks, session.facts.crew, reads):
        return None
    session.provenance.record_instructions((added.id for added in found.subtasks), reads)
    return larger


async def _decide(session: Session, found: Contradiction, outcomes: Sequence[InputOutcome]) -> Contradiction | None:
    sides = [entry for entry in outcomes if any(_names(position, entry) for position in found.positions)]
    candidates = sides if len(sides) > 1 else [entry for entry in outcomes if entry.outcome.kind in USABLE]
    if len(candidates) < 2:
        return found
    positions = "\n".join(f"- {position}" for position in found.positions)
    question = f"Outcomes disagree about {found.about.rstrip('.')}:\n{positions}\nWhich is right?"
    decision = await _ask_judge(session, question, candidates)
    if decision and decision.compatible:
        session.progress.add_compatible([found.about])
        return None
    if decision is None or decision.chosen not in {candidate.id for candidate in candidates}:
        return found
    return found.replace(
        resolution=f"{decision.chosen} is followed: {decision.reason}", confidence=percentage(decision.confidence)
    )


def _with_confidence(position: str, outcomes: Sequence[InputOutcome]) -> str:
    named = [f"{entry.id}: {entry.outcome.confidence}" for entry in outcomes if _names(position, entry)]
    return f"{position} (confidence {', '.join(named)})" if named else position


def _names(position: str, entry: InputOutcome) -> bool:
    if re.search(rf"\b{re.escape(entry.id)}\b", position):
        return True
    return any(f"[{source.ref}]" in position for source in entry.outcome.sources)
