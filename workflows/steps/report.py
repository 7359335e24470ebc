"""The last step of a session: the report, whatever happened before."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from temporalio import workflow

from activities.contracts import InputOutcome
from activities.turn_kinds.critique import CritiqueAnswer, CritiqueTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from chargehand.contracts import Contradiction, LimitUse, Report, Source, StopReason
from workflows.budget.estimates import (
    DECISION_INPUT_BYTES,
    DECISION_OUTPUT_TOKENS,
    REPORT_OUTPUT_TOKENS,
    SYNTHESIS_INPUT_BYTES,
)
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.citations import name_refs, number_refs
from workflows.rules.evidence import percentage
from workflows.rules.report_content import (
    USABLE,
    artifacts_of,
    brain_of,
    checked_citations,
    draft_from,
    draft_without_writer,
    fitted,
    gaps_of,
    issues_of,
    merged_spend,
    numbered_sources,
    only_cited,
    stop_reason_of,
    timing_of,
    usage_of,
    wasted_of,
    with_missing_citations,
)
from workflows.session import Session
from workflows.steps.compression import reduced
from workflows.steps.judgement import judge, settle_contradictions, stated
from workflows.steps.review import any_doubtful

_LEAST_WRITING: Final = timedelta(seconds=1)
"""What the writer gets even when the deadline is here."""
_DOUBTFUL: Final = 50
"""Confidence of a draft below which a critic reads it."""


async def write_report(session: Session, *, by_models: bool = True) -> Report:
    """Write the report from what is there; without `by_models` nothing is paid for it any more."""
    plan = session.progress.plan
    outcomes = session.inputs(subtask.id for subtask in plan.subtasks) if plan else ()
    sources = numbered_sources(outcomes)
    stop_reason = stop_reason_of(list(session.outcomes.values()), stopped=session.stopped)
    if by_models:
        draft = await _draft(session, outcomes, sources, stop_reason)
    else:
        session.release_report_reserve()
        draft = draft_without_writer(outcomes, sources, "The session was stopped before its report was written.")
    checked = with_missing_citations(checked_citations(draft.answer, sources), outcomes, sources)
    answer, cited = only_cited(checked, sources)
    spend = merged_spend(
        [
            *session.model_calls.spend,
            *session.lost_spend,
            *(line for outcome in session.outcomes.values() for line in outcome.spend),
        ]
    )
    ended_at = workflow.now()
    return Report(
        session=workflow.info().workflow_id,
        goal=session.request.goal,
        answer=answer,
        sources=cited,
        gaps=gaps_of(outcomes, [*draft.gaps, *session.missing, *_never_started(session)]),
        contradictions=tuple(session.contradictions),
        confidence=percentage(draft.confidence),
        stop_reason=stop_reason,
        brain=brain_of(spend),
        usage=usage_of(spend),
        spend=spend,
        reserved_usd=session.ledger.reserved.usd,
        wasted=wasted_of(session.progress.records, session.lost_spend) + session.model_calls.wasted,
        limits=_limit_use(session, ended_at),
        timing=timing_of(plan, session.progress.records, session.started_at, ended_at),
        subtasks=tuple(session.progress.records),
        issues=issues_of(session.outcomes.values()),
        artifacts=artifacts_of(session.outcomes.values()),
    )


def _never_started(session: Session) -> list[str]:
    plan = session.progress.plan
    subtasks = plan.subtasks if plan else ()
    return [
        f"{subtask.id} ({subtask.agent}) was not started." for subtask in subtasks if subtask.id not in session.outcomes
    ]


async def _draft(
    session: Session, outcomes: Sequence[InputOutcome], sources: Sequence[Source], stop_reason: StopReason
) -> SynthesisAnswer:
    usable = [given for given in outcomes if given.outcome.kind in USABLE]
    if len(outcomes) == 1 and outcomes[0].outcome.content:
        draft = draft_from(outcomes[0].outcome, sources)
    elif not usable:
        session.release_report_reserve()
        return draft_without_writer(outcomes, sources, "No subtask came to a usable outcome.")
    elif (selected := await _selected(session, usable, sources)) is not None:
        draft = selected
    else:
        shown = await _shown(session, outcomes)
        session.release_report_reserve()
        written = await _written(session, _task(session, shown, stop_reason), sources)
        if written is None:
            return draft_without_writer(outcomes, sources, "No model could write this report.")
        draft = written
    session.release_report_reserve()
    return await _second_look(session, draft, outcomes, sources, stop_reason)


async def _selected(
    session: Session, candidates: Sequence[InputOutcome], sources: Sequence[Source]
) -> SynthesisAnswer | None:
    """Have a judge choose between candidates for the same answer; None if that is not planned, or undecided."""
    plan = session.progress.plan
    if session.edition < 2 or plan is None or plan.strategy != "select" or len(candidates) < 2:
        return None
    decision = await judge(session, f"{session.request.goal}\n{plan.final_instruction}".strip(), candidates)
    if decision is None:
        return None
    chosen = next(given for given in candidates if given.id == decision.chosen)
    draft = draft_from(chosen.outcome, sources)
    others = ", ".join(given.id for given in candidates if given.id != chosen.id)
    why = number_refs(decision.reason, {source.ref: number for number, source in enumerate(sources, start=1)})
    answer = f"{draft.answer}\n\n*{chosen.id} ({chosen.agent}) was chosen over {others}: {why}*"
    return draft.model_copy(
        update={"answer": answer, "confidence": min(draft.confidence, percentage(decision.confidence))}
    )


async def _shown(session: Session, outcomes: Sequence[InputOutcome]) -> tuple[InputOutcome, ...]:
    """Make outcomes fit what one writer may be shown."""
    plan = session.progress.plan
    if session.edition < 2 or session.cut_short or (plan and plan.strategy == "select"):
        return fitted(outcomes, SYNTHESIS_INPUT_BYTES)
    return await reduced(session, outcomes)


def _task(session: Session, shown: tuple[InputOutcome, ...], stop_reason: StopReason) -> SynthesisTask:
    plan = session.progress.plan
    return SynthesisTask(
        goal=session.request.goal,
        final_instruction=plan.final_instruction if plan else "",
        strategy=plan.strategy if plan else "merge",
        outcomes=shown,
        sources=tuple(source.ref for source in numbered_sources(shown)),
        stopped_because="" if stop_reason == "completed" else stop_reason.replace("_", " "),
        contradictions=tuple(session.contradictions),
    )


async def _written(session: Session, task: SynthesisTask, sources: Sequence[Source]) -> SynthesisAnswer | None:
    """Have a model write the report; None if it cannot, or not before the deadline."""
    until = max(session.deadline_at, workflow.now() + _LEAST_WRITING)
    try:
        result = await session.turn(task, REPORT_OUTPUT_TOKENS, until=until)
    except (CannotPay, TurnLost):
        return None
    written = result.answer_as(SynthesisAnswer)
    if written is None:
        return None
    # The writer numbers what it was shown; the report numbers everything that was read.
    numbers = {source.ref: number for number, source in enumerate(sources, start=1)}
    answer = number_refs(name_refs(written.answer, task.sources), numbers)
    contradictions = [
        found.model_copy(
            update={
                "positions": [name_refs(position, task.sources) for position in found.positions],
                "resolution": name_refs(found.resolution, task.sources),
            }
        )
        for found in written.contradictions
    ]
    return written.model_copy(update={"answer": answer, "contradictions": contradictions})


async def _second_look(
    session: Session,
    draft: SynthesisAnswer,
    outcomes: Sequence[InputOutcome],
    sources: Sequence[Source],
    stop_reason: StopReason,
) -> SynthesisAnswer:
    """Have contradictions decided and a critic read the draft; it is written anew once if either finds cause."""
    if session.edition < 2 or session.cut_short:
        session.contradictions += [stated(found, outcomes) for found in draft.contradictions]
        return draft
    known = {found.about for found in session.contradictions}
    new = [found for found in draft.contradictions if found.about not in known]
    settled = await settle_contradictions(session, new, outcomes)
    session.contradictions += settled
    problems = [_decision(found) for found in settled if found.confidence]
    if _wants_critic(session, draft):
        problems += await _criticised(session, draft, outcomes, sources)
    if not problems:
        return draft
    shown = fitted(outcomes, SYNTHESIS_INPUT_BYTES)
    task = _task(session, shown, stop_reason).model_copy(update={"problems": tuple(problems)})
    again = await _written(session, task, sources)
    return again or draft


def _decision(found: Contradiction) -> str:
    return (
        f"A judge decided what was left open about {found.about}: {found.resolution} Write it so, and name both sides."
    )


def _wants_critic(session: Session, draft: SynthesisAnswer) -> bool:
    wanted = session.request.review
    doubtful = draft.confidence < _DOUBTFUL or any_doubtful(session.outcomes.values()) or bool(session.contradictions)
    return wanted == "always" or (wanted == "auto" and doubtful and len(session.outcomes) > 1)


async def _criticised(
    session: Session, draft: SynthesisAnswer, outcomes: Sequence[InputOutcome], sources: Sequence[Source]
) -> list[str]:
    """List what a critic finds wrong with a draft; nothing if none can be asked."""
    task = CritiqueTask(
        goal=session.request.goal,
        draft=draft,
        outcomes=fitted(outcomes, DECISION_INPUT_BYTES),
        sources=tuple(source.ref for source in sources),
    )
    try:
        result = await session.turn(task, DECISION_OUTPUT_TOKENS, until=session.deadline_at)
    except (CannotPay, TurnLost):
        return []
    critique = result.answer_as(CritiqueAnswer)
    return [] if critique is None or critique.acceptable else list(critique.problems)


def _limit_use(session: Session, ended_at: datetime) -> tuple[LimitUse, ...]:
    limits, used = session.request.limits, session.used
    spent = session.ledger.spent
    uses: tuple[tuple[str, float, float], ...] = (
        ("max_turns", spent.turns, session.ledger.granted.turns),
        ("budget_usd", float(spent.usd), float(session.ledger.granted.usd)),
        ("max_depth", max(used.depth, session.depth + bool(session.outcomes)), limits.max_depth),
        ("max_parallel", used.at_once, limits.max_parallel),
        ("max_attempts", used.attempts, limits.max_attempts),
        ("max_rounds", used.rounds, limits.max_rounds),
        (
            "deadline_seconds",
            (ended_at - session.started_at).total_seconds(),
            (session.deadline_at - session.started_at).total_seconds(),
        ),
        ("subtask_deadline_seconds", used.longest_attempt.total_seconds(), limits.subtask_deadline.total_seconds()),
    )
    return tuple(LimitUse(limit=limit, used=amount, allowed=allowed) for limit, amount, allowed in uses)
