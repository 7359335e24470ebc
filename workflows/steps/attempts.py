"""The attempts at one subtask, each with its own grant, until the recovery table accepts or gives up."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from activities.contracts.rounds import InputOutcome, Note
from activities.contracts.tool import READS_DOCUMENTS
from activities.turn_kinds.plan import RefineAnswer, RefineTask
from chargehand.contracts import AgentsAtWork, Capability, Escalation, Failure, Outcome, Subtask, Tier
from chargehand.contracts.plan import LONGEST_INSTRUCTION
from chargehand.contracts.problems import UNSEEN
from chargehand.plugins import Hook, require
from workflows.budget.ledger import Amount, Reservation
from workflows.contracts import LimitUsage, SubtaskResult, SubtaskState
from workflows.metrics import count_lost_grant, count_outcome
from workflows.rules.authority import in_place_of
from workflows.rules.graph import USABLE
from workflows.rules.information_flow import capabilities_of, is_leak
from workflows.rules.inputs import DECISION_TOKENS, fit, fit_inputs, prior_knowledge, unread_issues
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.plugin_results import hook_functions
from workflows.rules.recovery import (
    Action,
    Attempts,
    Means,
    accept,
    best_of,
    has_answer,
    lacks_budget,
    next_action,
    question_of,
)
from workflows.rules.report_content import input_for, usage_of
from workflows.rules.task_deduplication import child_workflow_id, task_text
from workflows.run_end import on_exit
from workflows.state.session import Session
from workflows.steps.children import DUPLICATE, Job, run_nested_session, run_subtask
from workflows.steps.decisions import ask_person
from workflows.steps.effects import publish, try_turn, wait_for_budget
from workflows.steps.review import judge

_ABOVE: Final = {Tier.SMALL: Tier.MEDIUM, Tier.MEDIUM: Tier.LARGE}


@dataclass(frozen=True)
class Try:
    """How one attempt differs from the plan."""

    subtask: Subtask
    tier: Tier | None = None
    """Replaces the agent's own tier."""

    def change(self, **values: str) -> "Try":
        return replace(self, subtask=self.subtask.replace(**values))


_Tried = list[tuple[Try, SubtaskResult]]


async def attempt(session: Session, subtask: Subtask, reservation: Reservation) -> Outcome:
    """Attempt a subtask until its outcome is accepted or given up."""
    tried: _Tried = []
    try:
        chosen = await _attempt_until_decided(session, subtask, reservation, tried)
        return _settle(session, subtask, chosen, tried)
    except (asyncio.CancelledError, ActivityError) as error:
        # Only the session itself cancels this, and it needs the results and spend so far.
        if not is_cancelled_exception(error):
            raise
        return _settle(session, subtask, None, tried)


async def _attempt_until_decided(
    session: Session, subtask: Subtask, first: Reservation, tried: _Tried
) -> Outcome | None:
    """Make attempts until an outcome is accepted; None if the subtask is given up."""
    following = Try(subtask)
    for backup in hook_functions(Hook.BACKUP, _plugin_retry):
        following = Try(*await backup(session, following.subtask))
    done: set[Action] = set()
    reservation: Reservation | None = first
    while reservation is not None:
        tried.append((following, await attempt_once(session, following, reservation, tried)))
        step = await _decide(session, tried, done)
        if not isinstance(step, Try):
            return step
        following = step
        reservation = await reserve_in_time(session, following.subtask)
    return None


def _plugin_retry(result: Any) -> tuple[Subtask, Tier | None]:
    subtask, tier = result
    return require(Subtask, subtask), None if tier is None else require(Tier, tier)


async def reserve_in_time(
    session: Session, subtask: Subtask, sharers: int = 1, most_usd: Decimal | None = None
) -> Reservation | None:
    """Reserve an attempt's share; if necessary, wait for returned grants or higher limits."""
    budget = session.budget
    reservation = budget.reserve(subtask, sharers, most_usd)
    if reservation is None:
        await wait_for_budget(session, budget.least_grant(subtask.agent), lambda: budget.grants.all_wait)
        reservation = budget.reserve(subtask, sharers, most_usd)
    return reservation


def _notes_for(session: Session, subtask: Subtask, tried: Sequence[tuple[Try, SubtaskResult]]) -> tuple[Note, ...]:
    """Return the notes of the latest attempt whose notes the next agent may read."""
    own = capabilities_of(subtask.agent, session.facts.crew)
    for trying, ended in reversed(tried):
        before = trying.subtask
        reads = _input_reads(session, before) | capabilities_of(before.agent, session.facts.crew)
        if before.agent == subtask.agent or "reaches_out" not in own or "reads_private" not in reads:
            return ended.notes
    return ()


async def attempt_once(
    session: Session,
    trying: Try,
    reservation: Reservation,
    tried: Sequence[tuple[Try, SubtaskResult]] = (),
    state: SubtaskState | None = None,
) -> SubtaskResult:
    """Run one child workflow and settle its grant; for a conversation's message, it starts from a state."""
    subtask, tier = trying.subtask, trying.tier
    text = task_text(subtask) if state is None else f"{subtask.id} {task_text(subtask)}"  # people may repeat themselves
    child = child_workflow_id(session.root, session.run, subtask.agent, text, tier.value if tier else "")
    began_at = workflow.now()
    session.progress.start(subtask, child, began_at)
    # A fallback can get the same work as another subtask that is running.
    is_granted = session.budget.grants.open(child, reservation)
    publish(session)
    inputs = _inputs(session, subtask)
    own, reads = capabilities_of(subtask.agent, session.facts.crew), _input_reads(session, subtask)
    if notes := _notes_for(session, subtask, tried):
        reads |= session.provenance.of_attempts(subtask.id)
    session.provenance.record_attempt(subtask.id, reads, own)
    way = session.progress.steering.open(subtask.id, child, is_session=session.facts.crew.agent(subtask.agent) is None)
    read: tuple[int, ...] = ()
    with on_exit(lambda: session.progress.steering.close(way, read)):
        job = Job(
            subtask=subtask,
            inputs=inputs,
            notes=notes,
            outgoing=max((before.outgoing for _, before in tried), default=0),
            reads=reads,
            grant=reservation.amount,
            way=way,
            state=state,
        )
        ended = await _run(session, job, tier) if is_granted else SubtaskResult(outcome=DUPLICATE)
        read = ended.messages_read
    if ended.is_private:
        session.provenance.record_attempt(subtask.id, reads | READS_DOCUMENTS, own)
    session.approvals.abandon(child, "its agent has ended")
    _count_use(session, subtask, ended, began_at)
    if not is_granted:
        session.budget.grants.release(reservation)
    else:
        closed = session.budget.grants.close(child, subtask.agent, ended.outcome)
        if closed is not ended.outcome:
            count_lost_grant(usage_of(closed.spend).cost_usd)
        ended = ended.replace(outcome=closed)
    count_outcome(ended.outcome)
    return ended


def _count_use(session: Session, subtask: Subtask, ended: SubtaskResult, began_at: datetime) -> None:
    own_time = timedelta(0)
    if session.facts.crew.agent(subtask.agent):
        own_time = workflow.now() - began_at - ended.waited
        session.places.record([AgentsAtWork(at=began_at, change=1), AgentsAtWork(at=workflow.now(), change=-1)])
    session.progress.count_use(LimitUsage(rounds=ended.rounds, depth=session.depth + 1, longest_attempt=own_time))


def _inputs(session: Session, subtask: Subtask) -> tuple[InputOutcome, ...]:
    inputs = session.progress.inputs(subtask.depends_on)
    if inputs:
        whole = inputs
        inputs = fit_inputs(whole)
        session.progress.add_gaps(unread_issues(whole, inputs, subtask.agent))
    return (*prior_knowledge(session.earlier), *inputs)


async def _run(session: Session, job: Job, tier: Tier | None) -> SubtaskResult:
    agent = session.facts.crew.agent(job.subtask.agent)
    if agent is None:
        return await run_nested_session(session, job)
    agent = in_place_of(agent, session.facts.crew.agent(session.progress.planned_version(job.subtask).agent))
    agent = session.budget.card_for(job.subtask, agent)
    agent = agent.replace(tier=tier, model=None) if tier else agent
    return await run_subtask(session, job, agent)


async def _decide(session: Session, tried: _Tried, done: set[Action]) -> Try | Outcome | None:
    """Apply the recovery table to the latest outcome: the next attempt, an outcome, or None to give up."""
    latest, ended = tried[-1]
    agents = tuple(trying.subtask.agent for trying, _ in tried)
    has_waited = False
    while not session.clock.work_is_over:
        means, attempts = _means(session, latest.subtask), Attempts(len(tried), agents, frozenset(done))
        action = next_action(ended.outcome, attempts, means)
        if not has_waited and lacks_budget(action, ended.outcome, attempts, means):
            has_waited = True
            await wait_for_budget(
                session, _least_needed(session, latest.subtask), lambda: session.budget.grants.all_wait
            )
            continue
        done.add(action)
        if action is Action.GIVE_UP:
            break
        step = await _apply(session, action, means, tried)
        if step is not None:
            return step
    return None


async def _apply(session: Session, action: Action, means: Means, tried: _Tried) -> Try | Outcome | None:
    """Turn an action into the next attempt or an outcome; None if it leads to neither."""
    latest, ended = tried[-1]
    step: Try | Outcome | None = None
    match action:
        case Action.ACCEPT:
            step = accept(ended.outcome)
        case Action.REFINE:
            refined = await _refine(session, latest.subtask, ended.outcome, len(tried))
            step = latest.change(instruction=refined) if refined else None
        case Action.FALLBACK:
            step = _for_fallback(session, latest.subtask, means.fallback or "")
        case Action.STRONGER:
            step = replace(latest, tier=means.stronger)
        case Action.JUDGE:
            step = await _judge_attempts(session, tried)
        case Action.SPLIT:
            step = Try(latest.subtask).change(agent=SUPERVISOR)
        case Action.ASK:
            answered = await _ask(session, latest.subtask, question_of(ended.outcome))
            step = latest.change(instruction=answered) if answered else None
        case Action.GIVE_UP:
            pass
    return step


def _input_reads(session: Session, subtask: Subtask) -> frozenset[Capability]:
    """Return the kinds of text behind an attempt's inputs; a planner could hide private text from the approver."""
    plan = session.progress.plan
    known = session.provenance.of_inputs(subtask, session.progress.planned_version(subtask))
    written = f"{subtask.instruction}{subtask.input}{plan.final_instruction if plan else ''}"
    is_hidden = session.request.approval == "plan" and session.request.documents and UNSEEN.search(written)
    return known | READS_DOCUMENTS if is_hidden else known


def _for_fallback(session: Session, subtask: Subtask, agent: str) -> Try:
    """Give a subtask to another agent, with its planned instruction if that agent could leak private text."""
    if is_leak(capabilities_of(agent, session.facts.crew), _input_reads(session, subtask)):
        subtask = session.progress.planned_version(subtask)
    return Try(subtask).change(agent=agent)


def _least_needed(session: Session, subtask: Subtask) -> Amount:
    return session.budget.least_grant(subtask.agent) + Amount(1)


def is_unapproved(session: Session, able: frozenset[Capability], planned: Subtask) -> bool:
    """Return whether a person approved a plan in which the old agent does not reach out, and the new one does."""
    approved = capabilities_of(planned.agent, session.facts.crew)
    return session.request.approval == "plan" and "reaches_out" in able and "reaches_out" not in approved


def _means(session: Session, subtask: Subtask) -> Means:
    agent = session.facts.crew.agent(subtask.agent)
    fallback = agent.fallback if agent else None
    planned = session.progress.planned_version(subtask)
    if fallback:
        able = capabilities_of(fallback, session.facts.crew)
        # Without documents, an agent that reads nothing else would find nothing.
        is_idle = able == READS_DOCUMENTS and not session.request.documents
        if is_idle or is_unapproved(session, able, planned) or is_leak(able, _input_reads(session, planned)):
            fallback = None
    return Means(
        max_attempts=session.request.limits.max_attempts,
        fallback=fallback,
        stronger=_ABOVE.get(session.budget.card_for(subtask, agent).tier) if agent else None,
        may_nest=session.may_nest,
        may_ask=session.may_ask,
        can_pay=session.budget.unspent.covers(_least_needed(session, subtask)),
    )


async def _refine(session: Session, subtask: Subtask, outcome: Outcome, attempts: int) -> str | None:
    """Let a model rewrite the instruction based on the error; None if it expects no improvement."""
    problem = outcome.message if isinstance(outcome, Failure | Escalation) else ""
    task = fit(
        [input_for(subtask, outcome)],
        lambda entries: RefineTask(
            goal=session.request.goal,
            agent=subtask.agent,
            instruction=subtask.instruction,
            problem=problem or outcome.kind,
            outcome=entries[0].outcome,
            attempts=attempts,
        ),
        DECISION_TOKENS,
    )
    draft = await try_turn(session, task, RefineAnswer)
    if draft is None or not draft.worthwhile or draft.instruction.strip() == subtask.instruction:
        return None
    return draft.instruction.strip()[:LONGEST_INSTRUCTION]


async def _ask(session: Session, subtask: Subtask, question: str) -> str | None:
    """Ask a person, and rewrite the instruction with the answer; None if no answer arrives in time."""
    answer = await ask_person(session, subtask.id, subtask.agent, question)
    if answer is None or answer.text is None:
        return None
    return f"{subtask.instruction}\n\nA person was asked: {question}\nThe answer, which decides: {answer.text}"


async def _judge_attempts(session: Session, tried: _Tried) -> Outcome:
    """Let a judge choose between the answers of several attempts; the most confident one if it cannot."""
    candidates = tuple(
        input_for(trying.change(id=f"A{number}").subtask, ended.outcome)
        for number, (trying, ended) in enumerate(tried, start=1)
        if has_answer(ended.outcome)
    )
    decision = await judge(session, tried[0][0].subtask.instruction, candidates)
    if decision is None:
        return best_of([ended.outcome for _, ended in tried])
    return next(accept(candidate.outcome) for candidate in candidates if candidate.id == decision.chosen)


def _settle(session: Session, subtask: Subtask, chosen: Outcome | None, tried: _Tried) -> Outcome:
    """Charge all attempts to the chosen outcome, and record the cost of the others as wasted."""
    outcomes = [ended.outcome for _, ended in tried]
    session.progress.count_use(LimitUsage(attempts=len(tried)))
    if chosen is None:
        chosen = best_of(outcomes) if outcomes else Failure(reason="cancelled", message="It was asked to stop.")
    used = next((each for each in reversed(tried) if _comes_from(chosen, each[1].outcome)), None)
    spend = tuple(line for outcome in outcomes for line in outcome.spend)
    wasted = usage_of(line for each in tried if each is not used for line in each[1].outcome.spend)
    if used:
        session.progress.settle(subtask.id, wasted + used[1].wasted, used[0].subtask.agent)
    else:
        session.progress.settle(subtask.id, wasted)
    artifacts = {artifact.uri: artifact for outcome in outcomes for artifact in outcome.artifacts}
    return chosen.replace(spend=spend, artifacts=tuple(artifacts.values()))


def _comes_from(chosen: Outcome, outcome: Outcome) -> bool:
    return chosen.kind in USABLE and (chosen.content, chosen.findings) == (outcome.content, outcome.findings)
