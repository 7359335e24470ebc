"""The last step of a session: the report, whatever happened before, and how the session ends."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final, cast

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

from activities.contracts.rounds import InputOutcome
from activities.contracts.session import SessionFacts
from activities.turn_kinds.judgements import CritiqueAnswer, CritiqueTask
from activities.turn_kinds.synthesis import OutputAnswer, OutputTask, RejectedOutput, SynthesisAnswer
from chargehand.contracts import CrewVersion, FailureCause, Grade, LimitUse, Report, SpendLine, StopReason
from chargehand.contracts.report import ended_records
from chargehand.failure_causes import failure_cause
from chargehand.plugins import Hook
from chargehand.state_words import EndReason
from workflows import options
from workflows.budget.estimates import OUTPUT
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.citation_checks import is_code, most_confidence, weakest
from workflows.rules.citations import inert_links
from workflows.rules.claim_words import language_of
from workflows.rules.evidence import percentage
from workflows.rules.graph import USABLE
from workflows.rules.inputs import DECISION_TOKENS, fit, fit_task
from workflows.rules.output_figures import claims_without_source
from workflows.rules.plugin_results import hook_functions, optional
from workflows.rules.report_content import (
    artifacts_of,
    bound_report,
    brain_of,
    draft_from,
    draft_without_writer,
    gaps_of,
    issues_of,
    merge_spend,
    stop_reason_of,
    timing_of,
    usage_of,
)
from workflows.state.progress import Progress
from workflows.state.session import Session
from workflows.steps.claims import CheckedText, check_claims, grade
from workflows.steps.effects import finish, is_settled, list_state, publish, take_turn, try_turn, write_memo
from workflows.steps.open import Place, list_end
from workflows.steps.review import (
    DOUBTFUL,
    any_doubtful,
    settle_contradictions,
    state_contradiction,
    state_disagreements,
)
from workflows.steps.synthesis import STRATEGIES, write_by_section
from workflows.steps.writer import Draft, Material, PluginReport, material_of, uncited_problems

_TELLING_CHARACTERS: Final = 5_000
"""Number of characters at the start of an answer from which its language is detected."""
_DISPUTED: Final = "Outcomes disagree, and nothing decided which is right:"
_SILENT: Final = "The report states nothing."
"""Verification of an answer that greets, refuses or asks."""
_COMPATIBLE: Final = "A judge decided that all that is said about {0} can be right; do not write of a contradiction."
_DECIDED: Final = "A judge decided what was open about {0}: {1} Write it so, and name both sides."
_ATTEMPTS: Final = 3
"""The first output, and two corrections."""
_MOST_DATA_PROBLEMS: Final = 20
_PROBLEM_CHARACTERS: Final = 500


@dataclass(frozen=True)
class _Written:
    """A report's text after writing, checking and grading."""

    draft: Draft
    text: CheckedText
    grades: tuple[Grade, ...] = ()
    by_plugin: PluginReport | None = None


async def write_report(session: Session, *, by_models: bool = True) -> Report:
    """Write the report from the outcomes; without `by_models`, no further turns are taken."""
    state_disagreements(session)
    outcomes, progress = session.progress.inputs(), session.progress
    end_of_work = stop_reason_of(list(progress.outcomes.values()), stopped=session.clock.stop_reason)
    material = material_of(outcomes, end_of_work, session.earlier)
    written = await _write(session, material, by_models=by_models)
    draft, gaps = written.draft, _all_gaps(session, written.draft)
    if not (written.text.claims or written.by_plugin or draft.notice or is_code(written.text.answer)):
        gaps = (*gaps, _SILENT)
    output, problems = await fill_output(session, written.text.answer, gaps, material, why_not=draft.notice)
    request = session.request
    known = (written.text.answer, request.goal, *request.documents, f"{session.clock.started_at:%Y-%m-%d}")
    unknown = claims_without_source(output, known, material.sources)
    text = replace(written.text, claims=(*written.text.claims, *unknown))
    # The report's figures include the cost of the output.
    report = _state(session, replace(written, text=text), gaps)
    ended = _stop_reason(material, draft, problems, gaps)
    confidence = 0 if ended == "nothing_succeeded" else report.confidence
    ending = {"output_problems": problems, "stop_reason": ended, "confidence": confidence}
    return bound_report(report.replace(output=output, **ending))


async def _write(session: Session, material: Material, *, by_models: bool) -> _Written:
    grades: tuple[Grade, ...] = ()
    by_plugin = await _write_by_plugin(session, material.outcomes) if by_models else None
    if by_models:
        draft = by_plugin.draft if by_plugin else await _draft(session, material)
        draft, grades = await grade(session, draft, material)
    else:
        draft = _unwritten(material, "The session was stopped before its report was written.")
    session.budget.report_reserve.release()
    session.budget.judge_reserve.release()
    if by_plugin:
        # A plug-in's report is checked by the plug-in and cites no sources.
        return _Written(draft, CheckedText(draft.text.answer, (), ()), grades, by_plugin)
    draft, text = await check_claims(
        session, draft, material, lambda draft: _all_gaps(session, draft), is_judged=by_models
    )
    return _Written(draft, text, grades)


def _state(session: Session, written: _Written, gaps: tuple[str, ...]) -> Report:
    """Build the report from its text and figures; output and end time are filled in later."""
    progress, clock, claims = session.progress, session.clock, written.text.claims
    spend, ended_at = _spend(session), workflow.now()
    issues, artifacts = issues_of(progress.outcomes.values()), artifacts_of(progress.outcomes.values())
    if written.by_plugin:
        issues, artifacts = written.by_plugin.issues, (*artifacts, *written.by_plugin.artifacts)
    return Report(
        session=workflow.info().workflow_id,
        follows=session.original.follows or "",
        thread=session.facts.earlier.thread if session.facts.earlier else (),
        goal=session.request.goal,
        answer=inert_links(written.text.answer, written.text.sources),
        language=language_of(written.text.answer[:_TELLING_CHARACTERS]) or "",
        notice=written.draft.notice,
        disclaimer=session.facts.crew.disclaimer,
        verification=weakest(claims),
        claims=claims,
        reads=tuple(sorted(session.reads)),
        sources=written.text.sources,
        gaps=gaps,
        contradictions=tuple(progress.contradictions),
        grades=written.grades,
        confidence=min(percentage(written.draft.text.confidence), most_confidence(claims)),
        stop_reason="completed",
        crew=_crew_version(session.facts),
        brain=brain_of(spend),
        usage=usage_of(spend),
        spend=spend,
        reserved_usd=session.budget.ledger.reserved.usd,
        wasted=sum(
            (record.wasted for record in progress.records),
            usage_of(session.budget.grants.lost_spend) + session.budget.spending.wasted,
        ),
        limits=_limit_use(session, ended_at),
        timing=timing_of(progress.plan, progress.records, clock.started_at, ended_at).replace(
            at_work=session.places.at_work if session.request.delegation else ()
        ),
        subtasks=ended_records(progress.records),
        routes=tuple(progress.routes),
        edits=tuple(progress.edits),
        decisions=tuple(progress.waits.decisions),
        issues=issues,
        artifacts=artifacts,
    )


async def _write_by_plugin(session: Session, outcomes: Sequence[InputOutcome]) -> PluginReport | None:
    for write in hook_functions(Hook.REPORT, optional(PluginReport)):
        if written := await write(session, outcomes):
            return written
    return None


def with_late_messages(session: Session, report: Report) -> Report:
    """Add messages that arrived after the gaps of a report were collected."""
    late = tuple(gap for gap in session.progress.steering.gaps() if gap not in report.gaps)
    if not late:
        return report
    ended: StopReason = "partial" if report.stop_reason == "completed" else report.stop_reason
    return report.replace(gaps=(*report.gaps, *late), stop_reason=ended)


def _crew_version(facts: SessionFacts) -> CrewVersion:
    models = {tier: model.name for tier, model in facts.models.items()}
    return CrewVersion(name=facts.crew.name, version=facts.crew.version, digest=facts.crew.digest, models=models)


def _stop_reason(material: Material, draft: Draft, output_problems: Sequence[str], gaps: Sequence[str]) -> StopReason:
    if material.stop_reason != "completed":
        return material.stop_reason
    if draft.notice:
        return "unwritten"
    if output_problems:
        return "invalid_output"
    if _SILENT in gaps:
        return "unanswered"
    return "partial" if gaps else "completed"


def _spend(session: Session) -> tuple[SpendLine, ...]:
    below = (line for outcome in session.progress.outcomes.values() for line in outcome.spend)
    return merge_spend([*session.budget.spending.lines, *session.budget.grants.lost_spend, *below])


def _all_gaps(session: Session, draft: Draft) -> tuple[str, ...]:
    progress = session.progress
    waiting = [subtask for subtask in progress.subtasks if subtask.id not in progress.outcomes]
    not_started = [f"{subtask.id} ({subtask.agent}) was not started." for subtask in waiting]
    disputed = [f"{_DISPUTED} {each.about}" for each in progress.contradictions if not each.resolution]
    own = [*progress.gaps, *not_started, *disputed, *progress.steering.gaps()]
    return gaps_of(progress.inputs(), [*draft.text.gaps, *own])


async def _draft(session: Session, material: Material) -> Draft:
    outcomes, plan = material.outcomes, session.progress.plan
    draft: Draft | None
    if len(outcomes) == 1 and outcomes[0].outcome.content:
        by_section = await write_by_section(session, material, outcomes)
        draft = by_section or Draft(draft_from(outcomes[0].outcome, material.sources))
    elif plan is None or not any(entry.outcome.kind in USABLE for entry in outcomes):
        return _unwritten(material, "No subtask produced a usable outcome.")
    else:
        draft = await STRATEGIES[plan.strategy](session, material)
    if draft is None:
        return _unwritten(material, "No model could write this report.")
    session.budget.report_reserve.release()
    return await _revise(session, draft, material)


def _unwritten(material: Material, why: str) -> Draft:
    has_content = any(entry.outcome.content for entry in material.outcomes)
    rest = " What the agents finished is set out below as they wrote it." if has_content else ""
    return Draft(draft_without_writer(material.outcomes, material.sources, f"{why}{rest}"), f"{why}{rest}")


async def _revise(session: Session, draft: Draft, material: Material) -> Draft:
    progress, outcomes, text = session.progress, material.outcomes, draft.text
    new = [conflict for conflict in text.contradictions if conflict.about not in progress.known_differences]
    if session.clock.was_interrupted:
        progress.add_contradictions(state_contradiction(conflict, outcomes) for conflict in new)
        return draft
    settled = await settle_contradictions(session, new, outcomes)
    progress.add_contradictions(settled)
    problems = [_DECIDED.format(conflict.about, conflict.resolution) for conflict in settled if conflict.confidence]
    problems += [_COMPATIBLE.format(conflict.about) for conflict in new if conflict.about in progress.compatible]
    if _wants_critic(session, text):
        problems += await _criticise(session, text, material)
    if draft.has_to_cite and session.request.review != "never":
        problems += uncited_problems(text.answer, material, gaps_of(outcomes, text.gaps))
    return (await draft.rewrite(session, material, problems) if problems else None) or draft


def _wants_critic(session: Session, draft: SynthesisAnswer) -> bool:
    wanted, outcomes = session.request.review, session.progress.outcomes
    doubtful = draft.confidence < DOUBTFUL or any_doubtful(outcomes.values()) or bool(session.progress.contradictions)
    return wanted == "always" or (wanted == "auto" and doubtful and len(outcomes) > 1)


async def _criticise(session: Session, draft: SynthesisAnswer, material: Material) -> list[str]:
    """List a critic's problems with a draft; empty if no critic can be asked."""
    task = CritiqueTask(goal=session.request.goal, draft=draft, outcomes=())
    task = fit_task(task, material.outcomes, material.numbering)
    critique = await try_turn(session, task, CritiqueAnswer, until=session.clock.deadline_at)
    return [] if critique is None or critique.acceptable else list(critique.problems)


def _limit_use(session: Session, ended_at: datetime) -> tuple[LimitUse, ...]:
    limits, use, clock = session.request.limits, session.progress.limit_usage, session.clock
    spent, granted = session.budget.ledger.spent, session.budget.ledger.granted
    uses: tuple[tuple[str, float, float], ...] = (
        ("max_turns", spent.turns, granted.turns),
        ("budget_usd", float(spent.usd), float(granted.usd)),
        ("max_depth", max(use.depth, session.depth + bool(session.progress.outcomes)), limits.max_depth),
        ("max_parallel", session.places.peak, limits.max_parallel),
        ("max_attempts", use.attempts, limits.max_attempts),
        ("max_rounds", use.rounds, limits.max_rounds),
        ("max_reviews", session.progress.reviews, limits.max_reviews),
        ("deadline_seconds", (ended_at - clock.started_at - clock.waited).total_seconds(), clock.time.total_seconds()),
        ("subtask_deadline_seconds", use.longest_attempt.total_seconds(), limits.subtask_deadline.total_seconds()),
    )
    return tuple(LimitUse(limit=limit, used=amount, allowed=allowed) for limit, amount, allowed in uses)


async def fill_output(
    session: Session, answer: str, gaps: Sequence[str], material: Material, why_not: str
) -> tuple[JsonValue, tuple[str, ...]]:
    """Have a model fill the request's output schema from a report; return the output, or why there is none.

    `why_not` is the reason not to ask a model, if any.
    """
    schema = session.request.output_schema
    if schema is None:
        return None, ()
    session.budget.output_reserve.release()
    if why_not:
        return None, (why_not,)
    goal = session.request.goal
    rejected: list[RejectedOutput] = []

    def reading(outcomes: tuple[InputOutcome, ...]) -> OutputTask:
        return OutputTask(
            goal=goal, data_schema=schema, answer=answer, gaps=tuple(gaps), outcomes=outcomes, rejected=tuple(rejected)
        )

    while len(rejected) < _ATTEMPTS:
        task = fit(material.outcomes, reading, DECISION_TOKENS)
        try:
            until = max(session.clock.deadline_at, workflow.now() + options.LEAST_REPORT_TIME)
            if not session.budget.can_pay(task, OUTPUT.least_output):
                task = task.replace(outcomes=())
            result = await take_turn(session, task, until=until)
        except CannotPay:
            return None, _problems(["The limits left nothing to pay for it.", *(each.errors for each in rejected)])
        except TurnLost as error:
            return None, _problems([error.message])
        reply = result.answer_as(OutputAnswer)
        if reply and not result.data_problems:
            return (None if reply.missing else reply.data), _problems(reply.missing)
        rejected.append(
            RejectedOutput(output=result.text, errors=result.data_problems or result.problem or f"it was {result.stop}")
        )
    return None, _problems([rejected[-1].errors])


def _problems(problems: Sequence[str]) -> tuple[str, ...]:
    return tuple(problem[:_PROBLEM_CHARACTERS] for problem in problems[:_MOST_DATA_PROBLEMS])


async def close(session: Session, report: Report, place: Place) -> Report:
    """Close a settled session with its report."""
    await workflow.wait_condition(lambda: is_settled(session))
    report = with_late_messages(session, report)
    finish(session, report.stop_reason, report)
    await place.leave(session.budget.close())
    await _announce(session, stop_reason=report.stop_reason)
    return report


async def close_conversation(session: Session, place: Place, reason: EndReason) -> None:
    """Close a settled conversation."""
    await workflow.wait_condition(lambda: is_settled(session))
    finish(session, reason)
    await place.leave(session.budget.close())
    await _announce(session, stop_reason=reason)


async def close_early(error: BaseException, session: Session | None, progress: Progress, place: Place) -> None:
    """Close a session that failed or was cancelled, possibly before it was opened."""
    if is_cancelled_exception(error):
        progress.enter("cancelled")
    else:
        progress.fail(cause_of(error))
    if session is not None:
        session.clock.stop()
    settled = partial(is_settled, session) if session else workflow.all_handlers_finished
    if not settled():
        with suppress(TimeoutError):
            await workflow.wait_condition(settled, timeout=options.HANDLER_TIMEOUT)
    if session is None:
        list_end(progress.state)
    else:
        publish(session)
        list_state(session)
    if progress.failure is not None and workflow.info().parent is None:
        write_memo({"state": progress.state, "failure": progress.failure.model_dump(mode="json")})
    if workflow.in_workflow():
        await place.leave(session.budget.close() if session else Decimal(0))
    if session is not None and session.request.delegation is None:
        await _announce(session, error=(error.type or "") if isinstance(error, ApplicationError) else "")


def cause_of(error: BaseException) -> FailureCause:
    """Return the cause of a session's failure."""
    details: Sequence[Any] = error.details if isinstance(error, ApplicationError) else ()
    faults = [cast("dict[str, Any]", each) for each in details if isinstance(each, dict)]
    known = {name: value for name, value in (faults or [{}])[0].items() if name in {"status", "provider", "model"}}
    kind = (error.type or "") if isinstance(error, ApplicationError) else type(error).__name__
    return failure_cause(kind, **known)


async def report_after(error: BaseException, session: Session) -> Report:
    """Report to the parent what a nested session spent and found before it failed or was cancelled."""
    if is_cancelled_exception(error):
        session.clock.finish_now()
        session.clock.interrupt()
    else:
        session.progress.add_gaps([error.message if isinstance(error, ApplicationError) else str(error)])
    return await write_report(session, by_models=False)


async def _announce(session: Session, *, stop_reason: str = "", error: str = "") -> None:
    for announce in hook_functions(Hook.SESSION_ENDED):
        await announce(session, stop_reason, error)
