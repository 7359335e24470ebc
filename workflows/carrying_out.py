"""The middle step of a session: every subtask is started the moment its inputs are there, and its outcome taken in."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Final

from temporalio import workflow

from activities.contracts import InputOutcome
from chargehand.contracts import (
    Delegation,
    Failure,
    FailureReason,
    Outcome,
    Plan,
    SessionRequest,
    SpendLine,
    Subtask,
    Usage,
)
from workflows.contracts import SubtaskRequest
from workflows.delegating import run_session_below, run_subtask
from workflows.graph import ready
from workflows.guard import child_workflow_id
from workflows.plan_check import SUPERVISOR
from workflows.purse import Amount, Reservation
from workflows.reporting import USABLE, goal_below, usage_of
from workflows.session import Session

_GRACE: Final = timedelta(seconds=5)
"""How long a subtask that is asked to stop may take to hand back what it has."""
_LEAST_TURNS: Final = 2
"""A smaller share would let an agent look but not answer."""
_FATE_UNKNOWN: Final[frozenset[FailureReason]] = frozenset({"terminated", "internal"})
"""Ends after which a child cannot say what it spent."""


@dataclass(frozen=True)
class _Running:
    """A subtask that runs, and what it was lent."""

    subtask: Subtask
    lent: Reservation


async def carry_out(session: Session, plan: Plan) -> None:
    """Run the plan to its end, or until it is time to write the report."""
    if len(plan.subtasks) == 1:
        session.release_report_reserve()
    running: dict[asyncio.Task[Outcome], _Running] = {}
    try:
        while not session.deadline_passed:
            _start_what_is_ready(session, plan, running)
            if not running:
                break
            done, _ = await workflow.wait([*running, session.clock], return_when=asyncio.FIRST_COMPLETED)
            session.deadline_passed = session.clock.done()
            _take_in(session, [task for task in running if task in done], running)
    finally:
        await _stop(session, running)


def _start_what_is_ready(session: Session, plan: Plan, running: "dict[asyncio.Task[Outcome], _Running]") -> None:
    while len(running) < session.request.limits.max_parallel:
        started = {*session.outcomes, *(child.subtask.id for child in running.values())}
        waiting = ready(plan, started, session.outcomes)
        if not waiting:
            break
        subtask = waiting[0]
        refusal = _skipped(session, subtask)
        lent = None if refusal else _lend(session, len(plan.subtasks) - len(started))
        if lent is None:
            _end(session, subtask, refusal or _used_up(session))
        else:
            running[_delegate(session, subtask, lent.amount)] = _Running(subtask, lent)
    session.most_at_once = max(session.most_at_once, len(running))
    session.show()


def _skipped(session: Session, subtask: Subtask) -> Failure | None:
    lost = [needed for needed in subtask.required if session.outcomes[needed].kind not in USABLE]
    if not lost:
        return None
    return Failure(reason="skipped", message=f"It needs {', '.join(lost)}, which came to nothing.")


def _used_up(session: Session) -> Failure:
    reason: FailureReason = "out_of_turns" if session.purse.unspent.turns < 1 else "out_of_budget"
    return Failure(reason=reason, message="The session's limits were used up before it could start.")


def _lend(session: Session, not_started: int) -> Reservation | None:
    """Set a fair share of what is left aside for a subtask; None if not even a turn is left."""
    left = session.purse.unspent
    turns = min(left.turns, max(_LEAST_TURNS, left.turns // not_started))
    usd = (left.usd / not_started).quantize(Decimal("0.000001"), rounding=ROUND_DOWN)
    return session.purse.reserve(Amount(turns, usd)) if turns and usd else None


def _delegate(session: Session, subtask: Subtask, lent: Amount) -> "asyncio.Task[Outcome]":
    workflow_id = child_workflow_id(session.root, subtask.agent, subtask.instruction)
    session.progress.started(subtask.id, workflow_id, workflow.now())
    inputs = session.inputs(subtask.depends_on)
    if subtask.agent == SUPERVISOR:
        request = _session_below(session, subtask, lent, inputs)
        return asyncio.create_task(run_session_below(request, workflow_id, subtask.id))
    return asyncio.create_task(run_subtask(_subtask_request(session, subtask, lent, inputs), workflow_id))


def _subtask_request(
    session: Session, subtask: Subtask, lent: Amount, inputs: Sequence[InputOutcome]
) -> SubtaskRequest:
    agent = next(agent for agent in session.facts.crew.agents if agent.name == subtask.agent)
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
    limits = session.request.limits.model_copy(update={"max_turns": lent.turns, "budget_usd": lent.usd})
    delegation = Delegation(
        session=session.root,
        depth=session.depth + 1,
        ancestors=session.ancestors,
        deadline_at=session.deadline_at - _GRACE,
    )
    return session.request.model_copy(
        update={
            "goal": goal_below(subtask, inputs),
            "approval": "none",
            "limits": limits,
            "delegation": delegation,
        }
    )


def _take_in(
    session: Session,
    ended: "Iterable[asyncio.Task[Outcome]]",
    running: "dict[asyncio.Task[Outcome], _Running]",
) -> None:
    for task in ended:
        child = running.pop(task)
        outcome = task.result()
        used = usage_of(outcome.spend)
        if isinstance(outcome, Failure) and outcome.reason in _FATE_UNKNOWN and not outcome.spend:
            used = _charge_in_full(session, child)
        session.purse.settle(child.lent, Amount(used.turns, used.cost_usd))
        _end(session, child.subtask, outcome)


def _charge_in_full(session: Session, child: _Running) -> Usage:
    """Book the whole lease of a child that could not say what it spent."""
    amount = child.lent.amount
    usage = Usage(turns=amount.turns, cost_usd=amount.usd, possibly_billed_twice_usd=amount.usd)
    session.lost_spend.append(SpendLine(agent=child.subtask.agent, model="unknown", purpose="lost", usage=usage))
    return usage


def _end(session: Session, subtask: Subtask, outcome: Outcome) -> None:
    session.outcomes[subtask.id] = outcome
    session.progress.ended(subtask.id, outcome, workflow.now())
    session.show()


async def _stop(session: Session, running: "dict[asyncio.Task[Outcome], _Running]") -> None:
    """Ask what still runs to hand back what it has; what does not answer in time is given up."""
    if not running:
        return
    for task in running:
        task.cancel()
    done, late = await workflow.wait([*running], timeout=_GRACE.total_seconds())
    _take_in(session, [task for task in running if task in done], running)
    for task in late:
        child = running.pop(task)
        usage = _charge_in_full(session, child)
        session.purse.settle(child.lent, Amount(usage.turns, usage.cost_usd))
        _end(session, child.subtask, Failure(reason="deadline", message="It did not stop in time."))
