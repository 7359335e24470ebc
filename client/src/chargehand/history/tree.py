"""Reads a session and everything below it from its histories: as a trace, a status, or its spend."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from temporalio.client import Client

from chargehand.contracts import PlannedSubtask, Status, Step, SubtaskRecord, Trace, Usage
from chargehand.contracts.report import awaiting_records, ended_records
from chargehand.errors import NotReachable, ServerRefused
from chargehand.failure_causes import failure_cause
from chargehand.history.projection import Child, Projection
from chargehand.history.records import RUNNING, Decoder, SessionResult
from chargehand.history.runs import histories
from chargehand.history.steps import Draft, Scope, kind_of
from chargehand.visibility import UnlessGone, describe, is_open

_MAX_PARALLEL_READS: Final = 8
_SLOW: Final = timedelta(seconds=5)
_MOST_TRIES: Final = 3

Ask = Callable[[], Awaitable[Status]]


async def read_trace(client: Client, session_id: str) -> Trace:
    """Read every step of a session, running or closed; needs a server, but no worker."""
    return trace_of(await TreeReader(client, session_id).read(Draft.of(session_id), None))


def trace_of(root: Projection) -> Trace:
    """Return the trace of a completely read session."""
    scope = root.scope
    return Trace(session=scope.session, run=scope.first_run, exported_at=datetime.now(UTC), steps=tuple(_steps(root)))


def _steps(projection: Projection) -> Iterable[Step]:
    yield projection.scope.draft.step()
    yield from (draft.step() for draft in projection.scope.steps)
    for child in projection.children:
        yield from _steps(child.projection) if child.projection else (child.draft.step(),)


@dataclass
class TreeReader:
    """Reads a workflow of a session and everything below it."""

    client: Client
    session: str
    is_whole: bool = True
    """Whether to read everything, or only what is needed for the spend; parents know the spend of ended children."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_PARALLEL_READS), init=False)

    async def read(self, draft: Draft, run_id: str | None, subtask: str = "") -> Projection:
        """Read all runs of a workflow, from `run_id` or else back from the newest, and everything below."""
        async with self._slots:
            runs = await histories(self.client, draft.id, run_id)
        scope = Scope(Decoder(self.client.data_converter), self.session, draft, subtask, has_contents=self.is_whole)
        projection = Projection(scope)
        for run in runs:
            for event in run.events:
                await projection.read(event)
        if self.is_whole and draft.state == "running":
            await _add_pending(self.client, scope)
        below = [child for child in projection.children if self.is_whole or (child.is_work and child.cost is None)]
        await asyncio.gather(*map(self._read_child, below))
        projection.settle()
        return projection

    async def _read_child(self, child: Child) -> None:
        with UnlessGone():
            child.projection = await self.read(child.draft.unread(), child.run, child.subtask)
            child.stop()
            return
        # The namespace no longer retains it; use what its parent recorded.
        child.draft.usage = child.cost or Usage()


def under_way(work: Projection) -> Iterable[tuple[str, Draft]]:
    """List the running turns and tool calls of a session with their subtask's path, the session's own first."""
    yield from ((work.scope.subtask, step) for step in work.scope.calls if step.state == "running")
    for child in work.children:
        yield from under_way(child.projection) if child.projection else ()


async def describe_running(client: Client, root: Projection) -> None:
    """Describe pending work in a session and below it, such as calls being retried."""
    long_ago = datetime.now(UTC) - _SLOW
    below = [child.projection for child in root.children if child.projection and child.draft.state == "running"]
    if any(step.state == "running" and step.scheduled_at and step.scheduled_at < long_ago for step in root.scope.steps):
        await _add_pending(client, root.scope)
    await asyncio.gather(*(describe_running(client, each) for each in below))


async def _add_pending(client: Client, scope: Scope) -> None:
    """Describe pending activities, whose start is not yet in the history."""
    description = await describe(client, scope.draft.id)
    pending = {each.activity_id: each for each in description.pending_activities}
    for draft in scope.steps:
        if draft.state == "running" and (now := pending.get(draft.activity_id)):
            draft.describe_pending(now)


async def with_running(client: Client, session_id: str, ask: Ask, again: Ask, recorded: Ask) -> Status:
    """Query a session's status, and add the spend of its running children, or how it has ended.

    The session only learns this when they end. So that none is counted twice, children are listed before and after it
    answers, and it is queried `again` if one has ended in between: this takes two more requests, and one history per
    running workflow below. An ended session is read from its histories (`recorded`) if no worker can answer.
    """
    tries = 0
    while True:
        tries += 1
        before = await _running(client, session_id)
        try:
            status = await (ask if tries == 1 else again)()
        except (NotReachable, ServerRefused):
            if before is not None:
                raise
            return await recorded()
        if before is None:
            return await _as_ended(client, status)
        after = (await _running(client, session_id) or {}) if before else before
        if before.keys() <= after.keys() or tries == _MOST_TRIES:
            break
    reader = TreeReader(client, session_id, is_whole=False)
    spent = sum(await asyncio.gather(*(_spent(reader, *child) for child in after.values())), Usage())
    return status.replace(
        turns=status.turns + spent.turns,
        spent_usd=status.spent_usd + spent.cost_usd,
        # Their grants are reserved until they end.
        reserved_usd=max(status.reserved_usd - spent.cost_usd, Decimal(0)),
    )


async def _as_ended(client: Client, status: Status) -> Status:
    """Add how a session ended, which it does not know itself if the server stopped it."""
    whole = {each.id: each.instruction for each in status.subtasks}
    ended = await read_status(client, status.session, status.goal)
    subtasks = (each.replace(instruction=whole.get(each.id, each.instruction)) for each in ended.subtasks)
    fields = {name: getattr(ended, name) for name in ended.model_fields_set}
    own = {"subtasks": tuple(subtasks), "waits": (), "failure": ended.failure or status.failure}
    return status.replace(**(fields | own))


async def _running(client: Client, workflow_id: str) -> Mapping[str, tuple[Draft, str]] | None:
    """List the running children with their first runs; None if the workflow itself has ended."""
    described = await describe(client, workflow_id)
    if not is_open(described.workflow_execution_info):
        return None
    return {
        child.workflow_id: (Draft.below(workflow_id, child.workflow_id, child.workflow_type_name), child.run_id)
        for child in described.pending_children
        if child.run_id and kind_of(child.workflow_type_name) in {"session", "subtask"}
    }


async def _spent(reader: TreeReader, child: Draft, run_id: str) -> Usage:
    with UnlessGone():
        return (await reader.read(child, run_id)).spent
    return Usage()


async def read_status(client: Client, session_id: str, goal: str) -> Status:
    """Read a session's status from its histories, without a worker: all but its limits and the full plan."""
    return status_of(await TreeReader(client, session_id, is_whole=False).read(Draft.of(session_id), None), goal)


def status_of(session: Projection, goal: str = "") -> Status:
    """Return a session's status as far as its histories show it; instructions are truncated."""
    scope, spent = session.scope, session.spent
    asking = session.requests.questions
    subtasks = tuple(
        _record(planned, session.attempts(planned.id), is_asking=planned.id in asking) for planned in scope.draft.plan
    )
    waits = (*session.requests.questions.values(), *session.requests.calls.values())
    subtasks = ended_records(subtasks) if scope.draft.ended_at else awaiting_records(subtasks, waits)
    report = session.result if isinstance(session.result, SessionResult) else None
    if report and report.subtasks:
        subtasks = report.subtasks
    return Status(
        session=scope.session,
        goal=goal,
        state=scope.state or "planning",
        stop_reason=report and report.stop_reason,
        verification=report and report.verification,
        subtasks=subtasks,
        questions=tuple(session.requests.questions.values()),
        calls=tuple(session.requests.calls.values()),
        failure=scope.failure or (failure_cause(scope.draft.error) if scope.state == "failed" else None),
        turns=spent.turns,
        spent_usd=spent.cost_usd,
        started_at=scope.draft.started_at,
        ended_at=scope.draft.ended_at,
    )


def _record(planned: PlannedSubtask, attempts: Sequence[Child], *, is_asking: bool) -> SubtaskRecord:
    about: dict[str, Any] = planned.model_dump(exclude={"title"}) | {"instruction": planned.title}
    if not attempts:
        return SubtaskRecord(**about)
    child = attempts[-1]
    how = RUNNING if is_asking else child.how
    is_stopped = how.state in {"cancelled", "terminated", "timed_out"}
    about |= {"state": "failure", "reason": how.state} if is_stopped else {"state": how.state, "reason": how.reason}
    return SubtaskRecord(
        **about,
        confidence=how.confidence,
        attempts=child.attempt,
        workflow_id=child.draft.id,
        started_at=attempts[0].draft.started_at,
        ended_at=None if is_asking else child.draft.ended_at,
        usage=sum((each.spent for each in attempts), Usage()),
    )
