"""Getting one subtask done: attempts, each with a lease of its own, until the recovery table is content or gives up."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from temporalio import workflow

from activities.contracts import AgentCard, InputOutcome, JudgeTask, RefineTask
from chargehand.contracts import Delegation, Failure, Outcome, SessionRequest, Subtask, Tier
from workflows.bounds import DECISION_OUTPUT_TOKENS, least_workable, usual_turn_of
from workflows.contracts import SubtaskRequest
from workflows.delegating import run_session_below, run_subtask
from workflows.guard import child_workflow_id
from workflows.lending import lend
from workflows.plan_check import SUPERVISOR
from workflows.purse import Amount, Reservation
from workflows.recovery import (
    Accept,
    Attempts,
    GiveUp,
    JudgeBetween,
    Means,
    Refine,
    Split,
    UseFallback,
    UseStronger,
    next_action,
)
from workflows.reporting import USABLE, goal_below, input_for
from workflows.session import Session
from workflows.spending import CannotPay, TurnLost

_ABOVE: Final = {Tier.SMALL: Tier.MEDIUM, Tier.MEDIUM: Tier.LARGE}
_RETURN: Final = timedelta(seconds=5)
"""How much earlier than its own deadline a session gives the sessions below it theirs."""


def least_lease(session: Session, subtask: Subtask) -> Amount:
    """Reckon the least that is of use to a subtask: a usual turn of its agent, or a whole session below."""
    agent = session.agent(subtask.agent)
    if agent is None:
        return least_workable(session.facts)
    return usual_turn_of(session.facts.models[agent.tier], agent.prompt_bytes)


async def pursue(session: Session, subtask: Subtask, lent: Reservation) -> Outcome:
    """Work on a subtask until its outcome is accepted or given up."""
    attempts = Attempts(made=0, agents=(), refined=0, raised=0, split=False, asked=False)
    tried: list[tuple[Subtask, Outcome]] = []
    current, tier = subtask, None
    reservation: Reservation | None = lent
    while reservation is not None:
        outcome = await _attempt(session, current, tier, reservation)
        tried.append((current, outcome))
        attempts = replace(attempts, made=attempts.made + 1, agents=(*attempts.agents, current.agent))
        if session.is_over:
            break
        match next_action(outcome, attempts, _means(session, current, attempts)):
            case Accept() | GiveUp():
                break
            case Refine():
                refined = await _refined(session, current, outcome, attempts.made)
                if refined is None:
                    break
                current = current.model_copy(update={"instruction": refined})
                attempts = replace(attempts, refined=attempts.refined + 1)
            case UseFallback(agent):
                current, tier = current.model_copy(update={"agent": agent}), None
            case UseStronger(stronger):
                tier = stronger
                attempts = replace(attempts, raised=attempts.raised + 1)
            case Split():
                current, tier = current.model_copy(update={"agent": SUPERVISOR}), None
                attempts = replace(attempts, split=True)
            case JudgeBetween():
                return _with_all_spend(await _judged(session, tried), tried)
            case _:
                break
        reservation = lend(session, least_lease(session, current), 1)
    return _with_all_spend(_best([outcome for _, outcome in tried]), tried)


def _best(outcomes: Sequence[Outcome]) -> Outcome:
    """Choose what to go on with: the latest usable outcome, or else the latest."""
    usable = [outcome for outcome in outcomes if outcome.kind in USABLE]
    with_content = [outcome for outcome in outcomes if outcome.content]
    return (usable or with_content or list(outcomes))[-1]


def _with_all_spend(chosen: Outcome, tried: Sequence[tuple[Subtask, Outcome]]) -> Outcome:
    spend = tuple(line for _, outcome in tried for line in outcome.spend)
    return chosen.model_copy(update={"spend": spend})


def _means(session: Session, subtask: Subtask, attempts: Attempts) -> Means:
    agent = session.agent(subtask.agent)
    fallback = agent.fallback if agent and agent.fallback not in attempts.agents else None
    turn = least_lease(session, subtask)
    return Means(
        max_attempts=session.request.limits.max_attempts,
        fallback=fallback,
        stronger=_ABOVE.get(agent.tier) if agent else None,
        may_nest=session.may_nest,
        may_ask=False,
        can_pay=session.purse.unspent.covers(turn + Amount(1)),
    )


async def _attempt(session: Session, subtask: Subtask, tier: Tier | None, lent: Reservation) -> Outcome:
    """Run one child workflow and settle its lease."""
    workflow_id = child_workflow_id(session.root, subtask.agent, subtask.instruction, tier.value if tier else "")
    session.progress.started(subtask.id, workflow_id, workflow.now())
    session.leases[workflow_id] = lent
    session.show()
    inputs = session.inputs(subtask.depends_on)
    agent = session.agent(subtask.agent)
    if agent is None:
        outcome = await run_session_below(
            _session_below(session, subtask, lent.amount, inputs), workflow_id, subtask.id
        )
    else:
        agent = agent.model_copy(update={"tier": tier or agent.tier})
        outcome = await run_subtask(_subtask_request(session, subtask, agent, lent.amount, inputs), workflow_id)
    return session.settle(workflow_id, subtask.agent, outcome)


def _subtask_request(
    session: Session, subtask: Subtask, agent: AgentCard, lent: Amount, inputs: Sequence[InputOutcome]
) -> SubtaskRequest:
    return SubtaskRequest(
        session=session.root,
        goal=session.request.goal,
        crew=session.facts.crew.name,
        subtask=subtask,
        agent=agent,
        model=session.facts.models[agent.tier],
        documents=session.request.documents,
        inputs=tuple(inputs),
        turns=lent.turns,
        usd=lent.usd,
        max_rounds=session.request.limits.max_rounds,
    )


def _session_below(session: Session, subtask: Subtask, lent: Amount, inputs: Sequence[InputOutcome]) -> SessionRequest:
    limits = session.request.limits.model_copy(
        update={"max_turns": lent.turns, "budget_usd": lent.usd, "on_limit": "finish"}
    )
    delegation = Delegation(
        session=session.root,
        depth=session.depth + 1,
        ancestors=session.ancestors,
        deadline_at=session.writing_starts_at - _RETURN,
    )
    return session.request.model_copy(
        update={
            "goal": goal_below(subtask, inputs),
            "approval": "none",
            "limits": limits,
            "delegation": delegation,
        }
    )


async def _refined(session: Session, subtask: Subtask, outcome: Outcome, attempts: int) -> str | None:
    """Have the instruction rewritten with the error in hand; None if that is not worth while."""
    problem = outcome.message if isinstance(outcome, Failure) else ""
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
    draft = result.refine
    worthwhile = draft is not None and draft.worthwhile and draft.instruction.strip() != subtask.instruction
    return draft.instruction.strip()[:4_000] if draft is not None and worthwhile else None


async def _judged(session: Session, tried: Sequence[tuple[Subtask, Outcome]]) -> Outcome:
    """Have a judge decide between the answers of several attempts; the latest if it cannot."""
    candidates = tuple(
        input_for(subtask.model_copy(update={"id": f"A{number}"}), outcome)
        for number, (subtask, outcome) in enumerate(tried, start=1)
        if outcome.content
    )
    latest = _best([outcome for _, outcome in tried])
    try:
        result = await session.turn(
            JudgeTask(question=tried[0][0].instruction, candidates=candidates), DECISION_OUTPUT_TOKENS
        )
    except (CannotPay, TurnLost):
        return latest
    chosen = result.judge.chosen if result.judge else ""
    return next((given.outcome for given in candidates if given.id == chosen), latest)
