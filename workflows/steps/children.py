"""Child workflows: run a subtask as a child, and turn any way in which it ends into an outcome."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

from activities.contracts.cards import AgentCard, OutputCaps
from activities.contracts.rounds import InputOutcome, Note
from activities.contracts.session import RunningDuplicate, RunningDuplicateRequest
from activities.tools.recall import RECALL
from activities.turn.discarded_runs import RunningDuplicateActivities
from chargehand.contracts import Contract, Delegation, Failure, Report, SpendLine, Subtask, Tiers, Usage
from chargehand.contracts.problems import one_line
from chargehand.wire import ErrorType, WorkflowType
from workflows import options
from workflows.budget.ledger import Amount
from workflows.contracts import LimitUsage, SubtaskRequest, SubtaskResult, SubtaskState
from workflows.mailbox.contracts import PlacesNotice
from workflows.mailbox.signals import notify
from workflows.rules.authority import delegate_authority
from workflows.rules.evidence import nested_outcome, with_quotes
from workflows.rules.information_flow import Reads
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.report_content import nested_goal
from workflows.rules.tool_policy import MOST_UNASKED
from workflows.run_end import on_exit
from workflows.state.session import Session
from workflows.state.steering import Delivery
from workflows.steps.effects import list_state

_RECALLABLE_BYTES: Final = 800_000
"""Total of full outcomes: together with a long conversation, they fit into one payload."""
_REFUSED_UNPAID: Final = frozenset({ErrorType.LIMIT_TOO_SMALL, ErrorType.INVALID_INPUT})
"""Errors of a nested session that ended before its first turn."""
_CANCELLED: Final = Failure(reason="cancelled", message="It was cancelled before it had anything to return.")
_TERMINATED: Final = Failure(reason="terminated", message="Its workflow was terminated by an operator.")
DUPLICATE: Final = Failure(
    reason="duplicate", message="This agent already has the same task in this session; it is not repeated."
)

_Result = TypeVar("_Result", bound=Contract)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work of a child workflow."""

    subtask: Subtask
    inputs: tuple[InputOutcome, ...]
    notes: tuple[Note, ...]
    """Notes of earlier attempts."""
    outgoing: int
    """Calls that reach out, of earlier attempts."""
    reads: Reads
    """Kinds of text behind inputs and notes."""
    grant: Amount
    way: Delivery
    """The path of the child."""
    state: SubtaskState | None = None
    """The state of the conversation whose next message it answers."""


async def run_subtask(session: Session, job: Job, agent: AgentCard) -> SubtaskResult:
    """Run an agent's subtask as a child workflow."""
    request = _subtask_request(session, job, agent)
    result = await _run(session, job, WorkflowType.SUBTASK, request, SubtaskResult, text=job.subtask.instruction)
    if isinstance(result, Failure):
        # The number of calls it had made by then is unknown.
        return SubtaskResult(outcome=result, outgoing=MOST_UNASKED if agent.outward else 0)
    session.budget.spending.learn(result.overcharges)
    return result.replace(outcome=with_quotes(result.outcome))


def _subtask_request(session: Session, job: Job, agent: AgentCard) -> SubtaskRequest:
    subtask = job.subtask
    limits, planned, plan = session.request.limits, session.progress.planned_version(subtask), session.progress.plan
    is_final = plan is not None and (
        plan.deliver == subtask.id or (len(plan.subtasks) == 1 and not session.is_long_report)
    )
    return session.request.make(
        SubtaskRequest,
        session=session.root,
        crew=session.facts.crew.reference,
        subtask=subtask,
        path=f"{above.path}/{subtask.id}" if (above := session.request.delegation) else "",
        # Only its supervisor needs these fields.
        agent=agent.replace(fallback=None, input=None),
        model=session.budget.model_of(agent),
        output_caps=_caps(session.facts.output_caps, subtask),
        documents_may_leave=session.request.vouches_for_documents,
        inputs=job.inputs,
        recallable=_recallable(session, subtask) if RECALL in agent.tools else (),
        recallable_until={
            record.id: record.ended_at + session.facts.recall_for
            for record in session.progress.records
            if RECALL in agent.tools and record.ended_at is not None
        },
        final_instruction=plan.final_instruction if is_final and plan else "",
        length_words=session.report_words if is_final else 0,
        messages=session.progress.steering.messages_for(subtask.id),
        notes=job.notes,
        outgoing=job.outgoing,
        grant=job.grant,
        spare=session.budget.spare,
        max_rounds=min(limits.max_rounds, agent.rounds or limits.max_rounds),
        # With a batch provider, which may take hours, attempts have no deadline.
        deadline=min(limits.subtask_deadline, subtask.deadline or limits.subtask_deadline)
        if session.request.urgency == "now"
        else None,
        turns_queue=session.facts.turns_queue,
        tool_queues=session.facts.tool_queues,
        reads=tuple(sorted(job.reads)),
        is_approved=session.request.approval == "plan" and session.provenance.is_as_planned(subtask, planned),
        others_act=session.may_act,
        said=session.said if agent.outward or "reaches_out" in agent.capabilities else (),
        state=job.state,
        converses=job.state is not None,
    )


def _recallable(session: Session, subtask: Subtask) -> tuple[InputOutcome, ...]:
    """Collect the full outcomes that a subtask depends on, nearest first, as many as fit into a payload."""
    needs = {each.id: each.depends_on for each in session.progress.subtasks}
    known: dict[str, None] = {}
    nearest = list(subtask.depends_on)
    while nearest:
        known |= dict.fromkeys(nearest)
        nearest = [each for needed in nearest for each in needs.get(needed, ()) if each not in known]
    chosen: list[InputOutcome] = []
    room = _RECALLABLE_BYTES
    for entry in session.progress.inputs(known):
        room -= len(entry.model_dump_json().encode())
        if room >= 0:
            chosen.append(entry)
    return tuple(chosen)


def _caps(caps: OutputCaps, subtask: Subtask) -> OutputCaps:
    if subtask.max_output_tokens is None:
        return caps
    return caps.replace(work=min(caps.work, subtask.max_output_tokens))


async def run_nested_session(session: Session, job: Job) -> SubtaskResult:
    """Run a subtask as a nested session; its report becomes the outcome."""
    subtask, crew = job.subtask, session.facts.crew.nested or session.request.crew
    planned = session.facts.crew.agent(session.progress.planned_version(subtask).agent)
    limits = session.request.limits.replace(max_turns=job.grant.turns, budget_usd=job.grant.usd, on_limit="finish")
    messages = [item.text for item in session.progress.steering.messages_for(subtask.id)]
    goal = nested_goal(subtask, job.inputs, job.notes, messages)
    request = session.request.replace(
        goal=goal,
        follows=None,  # the goal already states what is known
        crew=crew,
        # Per-agent tiers refer to this session's crew.
        tiers=Tiers() if session.facts.crew.nested else session.request.tiers,
        criteria=(),
        # A subtask with an output schema keeps it as a nested session.
        output_schema=planned.output if planned else None,
        approval="none",
        questions="none",
        limits=limits,
        delegation=_delegation(session, subtask, planned, job.reads),
    )
    with _places_lent(session, job.way):
        report = await _run(session, job, WorkflowType.SUPERVISOR, request, Report, text=goal)
    if isinstance(report, Failure):
        return SubtaskResult(outcome=report)
    session.places.record(report.timing.at_work)
    deepest = next((int(use.used) for use in report.limits if use.limit == "max_depth"), 0)
    session.progress.count_use(LimitUsage(depth=deepest))
    # The nested report names its own unread messages.
    return SubtaskResult(
        outcome=nested_outcome(report, subtask.id),
        is_private="reads_private" in report.reads,
        wasted=report.wasted,
        messages_read=tuple(job.way.given),
    )


@contextmanager
def _places_lent(session: Session, way: Delivery) -> Generator[None]:
    """Keep a nested session informed of its number of places and whether a person is being waited for."""
    known = PlacesNotice(total=1)

    def now() -> PlacesNotice:
        return PlacesNotice(total=max(session.places.of(way.address), known.total), is_paused=session.clock.is_paused)

    async def tell() -> None:
        nonlocal known
        # By then, sessions that start at the same time are also open and get their share.
        await workflow.wait_condition(lambda: way.is_started)
        session.places.lend()
        while True:
            await workflow.wait_condition(lambda before=known: now() != before)
            known = now()
            await notify(session.mailbox, way, known)

    session.places.open(way.address)
    telling = asyncio.create_task(tell())
    with on_exit(lambda: (telling.cancel(), session.places.close(way.address))):
        yield


def _delegation(session: Session, subtask: Subtask, planned: AgentCard | None, reads: Reads) -> Delegation:
    """Build what a nested session inherits from the tree."""
    now, ends_at = workflow.now(), session.clock.report_starts_at
    deadline_at = ends_at - options.nested_margin(ends_at - now)
    if session.dialogue is not None:  # which waits for its jobs
        deadline_at = now + session.request.limits.deadline
    return Delegation(
        session=session.root,
        run=session.run,
        depth=session.depth + 1,
        path=f"{above.path}/{subtask.id}" if (above := session.request.delegation) else subtask.id,
        ancestors=session.ancestors,
        goal_reads=tuple(sorted(reads)),
        said=session.said,
        deadline_at=deadline_at,
        authority=delegate_authority(session.authority, planned, is_approved=session.request.approval == "plan"),
        others_act=session.may_act,
        crew_changes=session.facts.crew.nested is not None,
        overcharges=session.budget.spending.overcharges,
        crew_version=session.facts.crew.reference.rpartition("@")[2],
    )


async def _run(
    session: Session, job: Job, workflow_type: WorkflowType, request: Contract, result_type: type[_Result], *, text: str
) -> _Result | Failure:
    child, subtask = job.way.address, job.subtask
    is_repeated = not session.progress.record_child(child)
    list_state(session)
    try:
        handle = await workflow.start_child_workflow(
            workflow_type,
            request,
            id=child,
            result_type=result_type,
            # The request has its text.
            static_summary=f"{subtask.id} {subtask.agent}: {one_line(text, 120)}",
            priority=options.priority_of(session.request, session.facts.weight),
            # Not retried as a whole; its activities are.
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        )
        job.way.start()
        return await _end_of(handle)
    except ChildWorkflowError as error:
        return _failure(error)
    except WorkflowAlreadyStartedError:
        if is_repeated or not session.was_reset:
            return DUPLICATE
        job.way.start()
        duplicate = await _await_duplicate(child)
        if duplicate.ended == "completed":
            return result_type.model_validate(duplicate.result)
        return _failure_of_duplicate(duplicate)


async def _end_of(child: workflow.ChildWorkflowHandle[Any, _Result]) -> _Result:
    """Wait for a child to end; a cancellation of this wait cancels the child and still waits for its end."""
    try:
        return await asyncio.shield(child)
    except asyncio.CancelledError:
        # By id only: the SDK would cancel the child's first run, but it may have continued as new.
        stopping = asyncio.create_task(_cancel(child.id))
        await workflow.wait([child, stopping])
        return await child


async def _cancel(workflow_id: str) -> None:
    # It may have ended in the meantime.
    with suppress(FailureError):
        await workflow.get_external_workflow_handle(workflow_id).cancel()


async def _await_duplicate(child: str) -> RunningDuplicate:
    """Wait for a child of the same id started before a reset; for any other, return `duplicate`."""
    try:
        return await workflow.execute_activity_method(
            RunningDuplicateActivities.await_duplicate,
            RunningDuplicateRequest(workflow_id=child),
            summary="wait for a child from before the reset",
            **options.RUNNING_DUPLICATE,
        )
    except ActivityError as error:
        if isinstance(error.cause, ApplicationError):
            return RunningDuplicate(ended="failed", message=error.cause.message)
        raise


def _failure_of_duplicate(duplicate: RunningDuplicate) -> Failure:
    failed = Failure(reason="internal", message=duplicate.message)
    return {"cancelled": _CANCELLED, "terminated": _TERMINATED, "failed": failed}.get(duplicate.ended, DUPLICATE)


def _failure(error: ChildWorkflowError) -> Failure:
    if is_cancelled_exception(error):
        return _CANCELLED
    match error.cause:
        case TerminatedError():
            return _TERMINATED
        case ApplicationError(type=kind) as cause if kind in _REFUSED_UNPAID:
            nothing = SpendLine(agent=SUPERVISOR, model="", purpose="plan", usage=Usage())
            return Failure(reason="internal", message=cause.message, spend=(nothing,))
        case ApplicationError() as cause:
            return Failure(reason="internal", message=cause.message)
        case cause:
            return Failure(reason="internal", message=str(cause))
