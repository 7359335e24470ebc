"""What is read from histories: events, whatever the server does, and what running subtasks have spent."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from decimal import Decimal
from typing import Any, cast

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingChildExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryResponse,
)
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import Event, Status, Usage
from chargehand.converter import data_converter
from chargehand.history.follow import follow
from chargehand.history.tree import with_running
from chargehand.wire import ActivityType, WorkflowType

CHILD = "s/run/reader/0123456789abcdef"
STARTING = RPCError("Namespace default is not found.", RPCStatusCode.NOT_FOUND, b"")
GONE = RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
SETTLED = Status(session="s", goal="g", state="executing", turns=5, spent_usd=Decimal("0.5"))
"""The session's status after its child has ended."""
UNSETTLED = SETTLED.model_copy(update={"turns": 1, "spent_usd": Decimal("0.1"), "reserved_usd": Decimal(1)})


def history() -> list[HistoryEvent]:
    """Return the history of a session that starts a subtask and is terminated."""
    events = [HistoryEvent(event_id=number) for number in range(1, 5)]
    started, initiated, running, ended = events
    started.workflow_execution_started_event_attributes.workflow_type.name = WorkflowType.SUPERVISOR
    initiated.start_child_workflow_execution_initiated_event_attributes.workflow_id = CHILD
    initiated.start_child_workflow_execution_initiated_event_attributes.workflow_type.name = WorkflowType.SUBTASK
    running.child_workflow_execution_started_event_attributes.initiated_event_id = 2
    running.child_workflow_execution_started_event_attributes.workflow_execution.run_id = "r1"
    ended.workflow_execution_terminated_event_attributes.reason = "Enough."
    return events


class Server:
    """A server that returns a session's history one event per page; its child has taken one turn and continues."""

    namespace = "default"
    data_converter = data_converter()

    def __init__(self, runs: Iterable[bool] = (), refusals: Mapping[int, RPCError] | None = None) -> None:
        """Set whether the child runs at each description of the session, and which pages are refused once."""
        self._runs = iter(runs)
        self._refusals = dict(refusals or {})
        self.workflow_service = self
        self.client = cast("Client", cast("Any", self))
        self.read: list[str] = []

    async def describe_workflow_execution(
        self, request: DescribeWorkflowExecutionRequest, **_: object
    ) -> DescribeWorkflowExecutionResponse:
        described = DescribeWorkflowExecutionResponse()
        described.workflow_execution_info.execution.run_id = "r"
        if request.execution.workflow_id == "s" and next(self._runs, False):
            child = PendingChildExecutionInfo(
                workflow_id=CHILD, run_id="r", workflow_type_name=WorkflowType.SUBTASK, initiated_id=5
            )
            described.pending_children.append(child)
        return described

    def get_workflow_handle(self, workflow_id: str, *, run_id: str) -> "Server":
        self.read.append(f"{workflow_id} {run_id}")
        return self

    async def fetch_history_events(self, **_: object) -> AsyncIterator[HistoryEvent]:
        yield history()[0]

    async def fetch_history(self) -> WorkflowHistory:
        if self.read[-1].startswith("s "):
            return WorkflowHistory("s", history())
        started, scheduled, completed = (HistoryEvent(event_id=number) for number in (1, 2, 3))
        started.workflow_execution_started_event_attributes.workflow_type.name = WorkflowType.SUBTASK
        scheduled.activity_task_scheduled_event_attributes.activity_id = "turn-1"
        scheduled.activity_task_scheduled_event_attributes.activity_type.name = ActivityType.TAKE_TURN
        completed.activity_task_completed_event_attributes.scheduled_event_id = 2
        turn = {"model": "m", "usage": Usage(turns=1, cost_usd=Decimal("0.25"))}
        payloads = await self.data_converter.encode([turn])
        completed.activity_task_completed_event_attributes.result.payloads.extend(payloads)
        return WorkflowHistory(CHILD, [started, scheduled, completed])

    async def get_workflow_execution_history(
        self, request: GetWorkflowExecutionHistoryRequest, **_: object
    ) -> GetWorkflowExecutionHistoryResponse:
        page = int(request.next_page_token or 0)
        if request.execution.workflow_id == CHILD:
            await asyncio.Event().wait()
        if refusal := self._refusals.pop(page, None):
            raise refusal
        answer = GetWorkflowExecutionHistoryResponse(next_page_token=str(page + 1).encode() if page < 3 else b"")
        answer.history.events.append(history()[page])
        return answer


async def followed(refusals: dict[int, RPCError]) -> list[Event]:
    """Follow to the end; the subtask is left where it is."""
    return [event async for event in follow(Server(refusals=refusals).client, "s", None)]


async def test_following_waits_for_a_server_that_is_starting() -> None:
    """A server that does not know its namespace yet is asked again, without losing or repeating events."""
    assert await followed({0: STARTING, 2: STARTING}) == await followed({})


async def test_following_a_missing_session_fails_at_once() -> None:
    with pytest.raises(RPCError, match="workflow execution not found"):
        await followed({2: GONE})


async def test_a_follower_can_stop_at_any_event() -> None:
    """Even where a subtask starts that is not followed yet, no coroutine is left unawaited."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        kinds = await asyncio.create_task(leave_with_the_subtask())
        gc.collect()

    assert kinds == ["state", "subtask"]
    assert [str(each.message) for each in warned] == []


async def leave_with_the_subtask() -> list[str]:
    kinds: list[str] = []
    async with aclosing(follow(Server().client, "s", None)) as events:
        async for event in events:
            kinds.append(event.kind)
            if event.kind == "subtask":
                break
    return kinds


async def ask(server: Server, answers: Sequence[Status]) -> tuple[Status, list[str]]:
    """Request a status with these answers; return it and the calls that were made."""
    remaining, calls = iter(answers), list[str]()

    async def first() -> Status:
        calls.append("first")
        return next(remaining)

    async def again() -> Status:
        calls.append("again")
        return next(remaining)

    return await with_running(server.client, "s", first, again, again), calls


async def test_status_includes_the_spend_of_running_children() -> None:
    server = Server([True, True])
    status, calls = await ask(server, [UNSETTLED])

    assert (status.turns, status.spent_usd, status.reserved_usd) == (2, Decimal("0.35"), Decimal("0.75"))
    assert (calls, server.read) == (["first"], [f"{CHILD} r"])


async def test_a_child_that_ends_during_the_query_counts_once() -> None:
    """The session may already include it, so it is asked again, without repeating an update."""
    server = Server([True, False, False])
    status, calls = await ask(server, [UNSETTLED, SETTLED])

    assert (status, calls, server.read) == (SETTLED, ["first", "again"], [])
