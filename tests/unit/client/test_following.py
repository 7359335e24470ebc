"""Following a session on a server that is just being started, and no longer than one likes."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryResponse,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import Event
from chargehand.converter import data_converter
from chargehand.history.follow import follow
from chargehand.wire import WorkflowType

STARTING = RPCError("Namespace default is not found.", RPCStatusCode.NOT_FOUND, b"")
GONE = RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
CHILD = "s/run/reader/0123456789abcdef"


def history() -> list[HistoryEvent]:
    """A session that starts a subtask, and is terminated."""
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
    """A server that gives the history in pages of one event; the subtask is at work without end."""

    namespace = "default"
    data_converter = data_converter()

    def __init__(self, refusals: dict[int, RPCError]) -> None:
        self.workflow_service = self
        self._refusals = refusals
        """Each is made once, instead of the page of that number."""

    def get_workflow_handle(self, _: str, *, run_id: str) -> "Server":  # noqa: ARG002  # as the client has it
        return self

    async def fetch_history_events(self, **_: object) -> AsyncIterator[HistoryEvent]:
        yield history()[0]

    async def describe_workflow_execution(self, *_: object, **__: object) -> DescribeWorkflowExecutionResponse:
        described = DescribeWorkflowExecutionResponse()
        described.workflow_execution_info.execution.run_id = "r"
        return described

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
    client = cast("Client", cast("Any", Server(refusals)))
    return [event async for event in follow(client, "s", None)]


async def test_a_server_that_starts_is_waited_for() -> None:
    """One that does not know its namespace yet, at the first page or later, is asked again: no event is lost or given
    twice."""
    assert await followed({0: STARTING, 2: STARTING}) == await followed({})


async def test_a_session_that_is_gone_ends_the_events() -> None:
    """What the server does not find in its namespace is an error at once."""
    with pytest.raises(RPCError, match="workflow execution not found"):
        await followed({2: GONE})


async def test_a_follower_may_leave_at_any_event() -> None:
    """Also where a subtask begins, which is not followed yet: no coroutine is left that is not awaited."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        kinds = await asyncio.create_task(leave_with_the_subtask())
        gc.collect()

    assert kinds == ["state", "subtask"]
    assert [str(each.message) for each in warned] == []


async def leave_with_the_subtask() -> list[str]:
    kinds: list[str] = []
    async with aclosing(follow(cast("Client", cast("Any", Server({}))), "s", None)) as events:
        async for event in events:
            kinds.append(event.kind)
            if event.kind == "subtask":
                break
    return kinds
