"""Getting one subtask done: attempts, each with a grant of its own, until the recovery table is content or gives up."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from activities.contracts import AgentCard, InputOutcome
from activities.turn_kinds.refine import RefineAnswer, RefineTask
from chargehand.contracts import Delegation, Escalation, Failure, Outcome, SessionRequest, Subtask, Tier
from workflows.budget.estimates import DECISION_OUTPUT_TOKENS, GIVEN_BYTES, least_workable, usual_turn_of
from workflows.budget.grants import lend
from workflows.budget.ledger import Amount, Reservation
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.contracts import SubtaskRequest
from workflows.rules.deduplication import child_workflow_id
from workflows.rules.information_flow import capabilities_of, carried, is_leak
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.recovery import (
    Accept,
    AskHuman,
    Attempts,
    GiveUp,
    JudgeBetween,
    Means,
    Refine,
    Split,
    UseFallback,
    UseStronger,
    accepted,
    best_of,
    has_answer,
    is_for_want_of_means,
    next_action,
    question_of,
)
from workflows.rules.report_content import USABLE, fitted, goal_below, input_for, json_bytes, usage_of
from workflows.session import Session
from workflows.steps.children import Ended, run_session_below, run_subtask
from workflows.steps.compression import condensed
from workflows.steps.judgement import judge
from workflows.steps.questions import ask, with_answer

_ABOVE: Final = {Tier.SMALL: Tier.MEDIUM, Tier.MEDIUM: Tier.LARGE}
_RETURN: Final = timedelta(seconds=5)
"""How much earlier than its own deadline a session gives the sessions below it theirs."""


def least_grant(session: Session, subtask: Subtask) -> Amount:
    """Reckon the least that is of use to a subtask: a usual turn of its agent, or a whole session below."""
    agent = session.agent(subtask.agent)
    if agent is None:
        return least_workable(session.facts)
    return usual_turn_of(session.facts.models[agent.tier], agent.prompt_bytes)


@dataclass(frozen=True)
class _Try:
    """One way of getting the subtask done."""

    subtask: Subtask
    tier: Tier | None = None
    """Tier instead of the agent's own."""


_Tried = list[tuple[_Try, Ended]]


async def pursue(session: Session, subtask: Subtask, lent: Reservation) -> Outcome:
    """Work on a subtask until its outcome is accepted or given up."""
    tried: _Tried = []
    try:
        chosen = await _chosen(session, subtask, lent, tried)
        outcome = _with_all_spend(session, subtask, chosen, tried)
        return await condensed(session, subtask, outcome)
    except (asyncio.CancelledError, ActivityError) as error:
        # Only the session itself cancels this, and it needs to know what was found and spent before.
        if not is_cancelled_exception(error):
            raise
        return _with_all_spend(session, subtask, None, tried)


async def _chosen(session: Session, subtask: Subtask, lent: Reservation, tried: _Tried) -> Outcome | None:
    """Make attempts until one is accepted; None gives up."""
    attempts = Attempts(made=0, agents=(subtask.agent,))
    following = _Try(subtask)
    reservation: Reservation | None = lent
    while reservation is not None:
        ended = await _attempt(session, following, reservation)
        tried.append((following, ended))
        step, attempts = await _decide(session, tried, attempts.again())
        if not isinstance(step, _Try):
            return step
        following = step
        reservation = await _lent_again(session, following.subtask)
    return None


async def _lent_again(session: Session, subtask: Subtask) -> Reservation | None:
    """Lend another attempt its share, waiting for it if others may give something back or the limits be raised."""
    least = least_grant(session, subtask)
    reservation = lend(session, least, 1)
    if reservation is None and session.edition >= 2:
        await session.more(least, hopeless=lambda: session.nobody_gives_back)
        reservation = lend(session, least, 1)
    return reservation


async def _decide(session: Session, tried: _Tried, attempts: Attempts) -> tuple[_Try | Outcome | None, Attempts]:
    """Follow the recovery table from the latest outcome to what is tried next, or to a decision; None gives up."""
    latest, ended = tried[-1]
    has_waited = False
    while not session.is_over:
        means = _means(session, latest.subtask, attempts)
        action = next_action(ended.outcome, attempts, means)
        if session.edition >= 2 and not has_waited and is_for_want_of_means(action, ended.outcome, attempts, means):
            has_waited = True
            await session.more(_needed(session, latest.subtask), hopeless=lambda: session.nobody_gives_back)
            continue
        attempts = attempts.after(action)
        if isinstance(action, GiveUp):
            break
        step = await _step(session, action, tried, attempts.made)
        if step is not None:
            return step, attempts
    return None, attempts


async def _step(
    session: Session,
    action: Accept | Refine | UseFallback | UseStronger | JudgeBetween | Split | AskHuman,
    tried: _Tried,
    made: int,
) -> _Try | Outcome | None:
    """Carry an action out; None if nothing came of it."""
    latest, ended = tried[-1]
    outcome = ended.outcome
    step: _Try | Outcome | None
    match action:
        case Accept():
            step = accepted(outcome)
        case Refine():
            refined = await _refined(session, latest.subtask, outcome, made)
            step = replace(latest, subtask=_changed(latest.subtask, instruction=refined)) if refined else None
        case UseFallback(agent):
            step = _Try(_for_fallback(session, latest.subtask, agent))
        case UseStronger(tier):
            step = replace(latest, tier=tier)
        case JudgeBetween():
            step = await _judged(session, tried)
        case Split():
            step = _Try(_changed(latest.subtask, agent=SUPERVISOR))
        case AskHuman():
            answer = await ask(session, latest.subtask, outcome)
            told = with_answer(latest.subtask.instruction, question_of(outcome), answer) if answer else ""
            step = replace(latest, subtask=_changed(latest.subtask, instruction=told)) if told else None
    return step


def _for_fallback(session: Session, subtask: Subtask, agent: str) -> Subtask:
    """Hand a subtask to another agent; as it was planned, if its new instruction could bring private text outside."""
    if is_leak(capabilities_of(agent, session.facts.crew), session.given(subtask)):
        subtask = session.planned(subtask)
    return _changed(subtask, agent=agent)


def _changed(subtask: Subtask, **values: str) -> Subtask:
    return subtask.model_copy(update=values)


def _with_all_spend(session: Session, subtask: Subtask, chosen: Outcome | None, tried: _Tried) -> Outcome:
    """Charge all attempts to the outcome that is handed on, and note what those cost that it does not come from."""
    outcomes = [ended.outcome for _, ended in tried]
    session.used.attempts = max(session.used.attempts, len(tried))
    if chosen is None:
        chosen = best_of(outcomes) if outcomes else Failure(reason="cancelled", message="It was asked to stop.")
    used = next((ended for _, ended in reversed(tried) if _comes_from(chosen, ended.outcome)), None)
    spend = tuple(line for outcome in outcomes for line in outcome.spend)
    unused = usage_of(line for _, ended in tried if ended is not used for line in ended.outcome.spend)
    session.progress.wasted(subtask.id, unused + used.wasted if used else unused)
    made = {artifact.uri: artifact for outcome in outcomes for artifact in outcome.artifacts}
    return chosen.model_copy(update={"spend": spend, "artifacts": tuple(made.values())})


def _comes_from(chosen: Outcome, outcome: Outcome) -> bool:
    return chosen.kind in USABLE and (chosen.content, chosen.findings) == (outcome.content, outcome.findings)


def _needed(session: Session, subtask: Subtask) -> Amount:
    """Reckon what another attempt takes; deciding what to try can itself take a turn."""
    return least_grant(session, subtask) + Amount(1)


def _means(session: Session, subtask: Subtask, attempts: Attempts) -> Means:
    agent = session.agent(subtask.agent)
    fallback = agent.fallback if agent and agent.fallback not in attempts.agents else None
    given = session.given(session.planned(subtask))
    if fallback and is_leak(capabilities_of(fallback, session.facts.crew), given):
        fallback = None
    return Means(
        max_attempts=session.request.limits.max_attempts,
        fallback=fallback,
        stronger=_ABOVE.get(agent.tier) if agent else None,
        may_nest=session.may_nest,
        may_ask=session.may_ask,
        can_pay=session.ledger.unspent.covers(_needed(session, subtask)),
    )


async def _attempt(session: Session, trying: _Try, lent: Reservation) -> Ended:
    """Run one child workflow and settle its grant."""
    subtask, tier = trying.subtask, trying.tier
    workflow_id = child_workflow_id(session.root, subtask.agent, subtask.instruction, tier.value if tier else "")
    began_at = workflow.now()
    session.progress.started(subtask.id, workflow_id, began_at)
    # A fallback can come to the work that another subtask is doing: the server refuses the second, that has no grant.
    is_duplicate = workflow_id in session.grants
    if not is_duplicate:
        session.grants[workflow_id] = lent
    session.show()
    inputs = session.inputs(subtask.depends_on)
    if session.edition >= 2 and json_bytes(inputs) > GIVEN_BYTES:
        inputs = fitted(inputs, GIVEN_BYTES)
    given, own = session.given(subtask), capabilities_of(subtask.agent, session.facts.crew)
    session.carried[subtask.id] = carried([given, session.carried.get(subtask.id, frozenset())], own)
    agent = session.agent(subtask.agent)
    if agent is None:
        ended = await run_session_below(_session_below(session, subtask, lent.amount, inputs), workflow_id, subtask.id)
    else:
        agent = agent.model_copy(update={"tier": tier or agent.tier})
        ended = await run_subtask(_subtask_request(session, subtask, agent, lent.amount, inputs), workflow_id)
    own_time = timedelta(0) if agent is None else workflow.now() - began_at - ended.waited
    session.used.note(ended.rounds, max(ended.depth, session.depth + 1), own_time)
    if is_duplicate:
        session.ledger.settle(lent, Amount())
        return ended
    return replace(ended, outcome=session.settle(workflow_id, subtask.agent, ended.outcome))


def _subtask_request(
    session: Session, subtask: Subtask, agent: AgentCard, lent: Amount, inputs: Sequence[InputOutcome]
) -> SubtaskRequest:
    return SubtaskRequest(
        session=session.root,
        goal=session.request.goal,
        crew=session.facts.crew.name,
        subtask=subtask,
        agent=agent.model_copy(update={"description": "", "fallback": None}),  # only its supervisor needs to know
        model=session.facts.models[agent.tier],
        documents=session.request.documents,
        inputs=tuple(inputs),
        turns=lent.turns,
        usd=lent.usd,
        max_rounds=session.request.limits.max_rounds,
        deadline=session.request.limits.subtask_deadline if _has_own_time(session) else None,
        urgency=session.request.urgency,
        turns_queue=session.facts.turns_queue,
        waits_for_means=session.edition >= 2 and session.request.limits.on_limit == "pause",
        has_private_inputs="reads_private" in session.given(subtask),
        goal_is_public=session.request.delegation is None,
    )


def _has_own_time(session: Session) -> bool:
    """Whether attempts have a time of their own: a provider that may take hours for a batch cannot be held to it."""
    return session.edition >= 2 and session.request.urgency == "now"


def _session_below(session: Session, subtask: Subtask, lent: Amount, inputs: Sequence[InputOutcome]) -> SessionRequest:
    limits = session.request.limits.model_copy(
        update={"max_turns": lent.turns, "budget_usd": lent.usd, "on_limit": "finish"}
    )
    delegation = Delegation(
        session=session.root,
        depth=session.depth + 1,
        ancestors=session.ancestors,
        carries=tuple(sorted(session.given(subtask))),
        deadline_at=session.writing_starts_at - min(_RETURN, (session.writing_starts_at - workflow.now()) / 5),
    )
    return session.request.model_copy(
        update={
            "goal": goal_below(subtask, inputs),
            "approval": "none",
            "questions": "none",
            "limits": limits,
            "delegation": delegation,
        }
    )


async def _refined(session: Session, subtask: Subtask, outcome: Outcome, attempts: int) -> str | None:
    """Have the instruction rewritten with the error in hand; None if that is not worth while."""
    problem = outcome.message if isinstance(outcome, Failure | Escalation) else ""
    task = RefineTask(
        goal=session.request.goal,
        agent=subtask.agent,
        instruction=subtask.instruction,
        problem=problem or outcome.kind,
        outcome=outcome.model_copy(update={"spend": ()}),
        attempts=attempts,
    )
    try:
        result = await session.turn(task, DECISION_OUTPUT_TOKENS)
    except (CannotPay, TurnLost):
        return None
    draft = result.answer_as(RefineAnswer)
    worthwhile = draft is not None and draft.worthwhile and draft.instruction.strip() != subtask.instruction
    return draft.instruction.strip()[:4_000] if draft is not None and worthwhile else None


async def _judged(session: Session, tried: _Tried) -> Outcome:
    """Have a judge decide between the answers of several attempts; the surest of them if it cannot."""
    candidates = tuple(
        input_for(_changed(trying.subtask, id=f"A{number}"), ended.outcome)
        for number, (trying, ended) in enumerate(tried, start=1)
        if has_answer(ended.outcome)
    )
    decision = await judge(session, tried[0][0].subtask.instruction, candidates)
    if decision is None:
        return best_of([ended.outcome for _, ended in tried])
    return next(accepted(given.outcome) for given in candidates if given.id == decision.chosen)
