"""The status of a session as a view of its histories, and what its running children add to what it knows itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import PlannedSubtask, Status, SubtaskRecord, Usage
from chargehand.history.projection import Child, Projection
from chargehand.history.records import SessionResult
from chargehand.history.steps import Draft, kind_of
from chargehand.history.tree import TreeReader
from chargehand.visibility import describe

_MOST_TRIES: Final = 3


Ask = Callable[[], Awaitable[Status]]


async def with_running(client: Client, session_id: str, ask: Ask, again: Ask) -> Status:
    """Ask a session for its status, and add what its running children have spent by now.

    The session learns that when they end. To count none twice, the children are listed before and after it answers,
    and it is asked `again` if one has ended in between: two descriptions beside the answer, and one history for each
    workflow that runs below.
    """
    tries = 0
    while True:
        tries += 1
        before = await _running(client, session_id)
        status = await (ask if tries == 1 else again)()
        after = await _running(client, session_id) if before else before
        if before.keys() <= after.keys() or tries == _MOST_TRIES:
            break
    reader = TreeReader(client, session_id, is_whole=False)
    spent = sum(await asyncio.gather(*(_spent(reader, *child) for child in after.values())), Usage())
    return status.model_copy(
        update={
            "turns": status.turns + spent.turns,
            "spent_usd": status.spent_usd + spent.cost_usd,
            # Their grants are reserved until they end.
            "reserved_usd": max(status.reserved_usd - spent.cost_usd, Decimal(0)),
        }
    )


async def _running(client: Client, workflow_id: str) -> Mapping[str, tuple[Draft, str]]:
    """List the children that run, each with its first run."""
    described = await describe(client, workflow_id)
    return {
        child.workflow_id: (Draft.below(workflow_id, child.workflow_id, child.workflow_type_name), child.run_id)
        for child in described.pending_children
        if child.run_id and kind_of(child.workflow_type_name) in {"session", "subtask"}
    }


async def _spent(reader: TreeReader, child: Draft, run_id: str) -> Usage:
    try:
        return (await reader.read(child, run_id)).spent
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return Usage()


async def read_status(client: Client, session_id: str, goal: str) -> Status:
    """Read a session's status from its histories, without a worker: all but its limits and the whole plan."""
    return status_of(await TreeReader(client, session_id, is_whole=False).read(Draft.of(session_id), None), goal)


def status_of(session: Projection, goal: str = "") -> Status:
    """Return what the histories say of a session's status; instructions are cut."""
    scope, spent = session.scope, session.spent
    latest = {child.draft.subtask: child for child in session.children if child.is_work}
    subtasks = tuple(_record(planned, latest.get(planned.id)) for planned in scope.draft.plan)
    if isinstance(session.result, SessionResult):
        subtasks = session.result.subtasks
    return Status(
        session=scope.session,
        goal=goal,
        state=scope.state or "planning",
        subtasks=subtasks,
        questions=tuple(session.requests.questions.values()),
        calls=tuple(session.requests.calls.values()),
        failure=scope.failure,
        turns=spent.turns,
        spent_usd=spent.cost_usd,
        started_at=scope.draft.started_at,
    )


def _record(planned: PlannedSubtask, child: Child | None) -> SubtaskRecord:
    about: dict[str, Any] = planned.model_dump(exclude={"title"}) | {"instruction": planned.title}
    if child is None:
        return SubtaskRecord(**about)
    how = child.how
    is_stopped = how.state in {"cancelled", "terminated", "timed_out"}
    about |= {"state": "failure", "reason": how.state} if is_stopped else {"state": how.state, "reason": how.reason}
    return SubtaskRecord(
        **about,
        confidence=how.confidence,
        attempts=child.attempt,
        workflow_id=child.draft.id,
        started_at=child.draft.started_at,
        ended_at=child.draft.ended_at,
        usage=child.spent,
    )
