"""The last step of a session: the report, whatever happened before."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from temporalio import workflow

from activities.contracts import InputOutcome, ReportDraft, SynthesisTask
from chargehand.contracts import LimitUse, Report, Source, StopReason
from workflows.bounds import REPORT_OUTPUT_TOKENS, SYNTHESIS_INPUT_BYTES
from workflows.grounding import percentage
from workflows.reporting import (
    USABLE,
    brain_of,
    checked_citations,
    contradictions_of,
    draft_from,
    draft_without_writer,
    fitted,
    gaps_of,
    merged_spend,
    numbered_sources,
    only_cited,
    stop_reason_of,
    timing_of,
    usage_of,
)
from workflows.session import Session
from workflows.spending import CannotPay, TurnLost

_LEAST_WRITING: Final = timedelta(seconds=1)
"""What the writer gets even when the deadline is here."""


async def write_report(session: Session) -> Report:
    """Write the report from what is there."""
    session.release_report_reserve()
    plan = session.progress.plan
    outcomes = session.inputs(subtask.id for subtask in plan.subtasks) if plan else ()
    sources = numbered_sources(outcomes)
    stop_reason = stop_reason_of(list(session.outcomes.values()), stopped=session.stopped)
    draft = await _draft(session, outcomes, sources, stop_reason)
    answer, cited = only_cited(checked_citations(draft.answer, sources), sources)
    spend = merged_spend(
        [
            *session.spender.spend,
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
        gaps=gaps_of(outcomes, draft.gaps),
        contradictions=contradictions_of(draft),
        confidence=percentage(draft.confidence),
        stop_reason=stop_reason,
        brain=brain_of(spend),
        usage=usage_of(spend),
        spend=spend,
        limits=_limit_use(session, ended_at),
        timing=timing_of(plan, session.progress.records, session.started_at, ended_at),
        subtasks=tuple(session.progress.records),
    )


async def _draft(
    session: Session, outcomes: Sequence[InputOutcome], sources: Sequence[Source], stop_reason: StopReason
) -> ReportDraft:
    if len(outcomes) == 1 and outcomes[0].outcome.content:
        return draft_from(outcomes[0].outcome, sources)
    if not any(given.outcome.kind in USABLE for given in outcomes):
        return draft_without_writer(outcomes, sources, "No subtask came to a usable outcome.")
    written = await _written(session, outcomes, sources, stop_reason)
    return written or draft_without_writer(outcomes, sources, "No model could write this report.")


async def _written(
    session: Session, outcomes: Sequence[InputOutcome], sources: Sequence[Source], stop_reason: StopReason
) -> ReportDraft | None:
    """Have a model write the report; None if it cannot, or not before the deadline."""
    plan = session.progress.plan
    task = SynthesisTask(
        goal=session.request.goal,
        final_instruction=plan.final_instruction if plan else "",
        strategy=plan.strategy if plan else "merge",
        outcomes=fitted(outcomes, SYNTHESIS_INPUT_BYTES),
        sources=tuple(source.ref for source in sources),
        stopped_because="" if stop_reason == "completed" else stop_reason.replace("_", " "),
    )
    left = max(session.deadline_at - workflow.now(), _LEAST_WRITING)
    try:
        result = await session.turn(task, REPORT_OUTPUT_TOKENS, patience=left)
    except (CannotPay, TurnLost):
        return None
    return result.report


def _limit_use(session: Session, ended_at: datetime) -> tuple[LimitUse, ...]:
    limits = session.request.limits
    spent = session.purse.spent
    used: tuple[tuple[str, float, float], ...] = (
        ("max_turns", spent.turns, limits.max_turns),
        ("budget_usd", float(spent.usd), float(limits.budget_usd)),
        ("max_depth", session.depth + bool(session.outcomes), limits.max_depth),
        ("max_parallel", session.most_at_once, limits.max_parallel),
        ("deadline_seconds", (ended_at - session.started_at).total_seconds(), limits.deadline.total_seconds()),
    )
    return tuple(LimitUse(limit=limit, used=amount, allowed=allowed) for limit, amount, allowed in used)
