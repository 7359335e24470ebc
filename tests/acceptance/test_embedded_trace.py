"""Traces read from the histories of a real server, of stand-in workflows whose steps are known."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowHistoryEventAsyncIterator,
)
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from chargehand.contracts import Trace
from chargehand.converter import data_converter
from chargehand.history.tree import read_trace

_ONCE = RetryPolicy(maximum_attempts=1)
_QUICKLY = RetryPolicy(initial_interval=timedelta(milliseconds=1), maximum_attempts=3)
_LONG = timedelta(seconds=30)


@workflow.defn(name="Supervisor")
class StandInSupervisor:
    @workflow.run
    async def run(self, _: dict[str, str]) -> str:
        await workflow.execute_activity(
            "take_turn", "plan", start_to_close_timeout=_LONG, activity_id="turn-1", summary="supervisor: plan"
        )
        await workflow.execute_child_workflow(
            "Subtask", id=f"{workflow.info().workflow_id}/run/reader/1", static_summary="T1 reader: read"
        )
        return "done"


@workflow.defn(name="Subtask")
class StandInSubtask:
    @workflow.run
    async def run(self) -> str:
        await workflow.execute_activity(
            "use_tool", "late", start_to_close_timeout=_LONG, retry_policy=_QUICKLY, activity_id="tool-1"
        )
        for tool, timeout in (("broken", _LONG), ("slow", timedelta(milliseconds=50))):
            try:
                await workflow.execute_activity(
                    "use_tool", tool, start_to_close_timeout=timeout, retry_policy=_ONCE, activity_id=tool
                )
            except ActivityError:
                continue
        raise ApplicationError("nothing works", type="Hopeless", non_retryable=True)


class StandInActivities:
    @activity.defn(name="take_turn")
    async def take_turn(self, what: str) -> dict[str, object]:
        return {
            "stop": "answer",
            "text": what,
            "model": "m-1",
            "usage": {"turns": 1, "input_tokens": 7, "cost_usd": 0.5},
        }

    @activity.defn(name="use_tool")
    async def use_tool(self, tool: str) -> str:
        if tool == "slow":
            await asyncio.sleep(30)
        if tool == "broken" or activity.info().attempt < 2:
            raise ApplicationError("it is broken", type="ToolUnavailable")
        return tool


@pytest.fixture
async def activities(client: Client) -> AsyncIterator[StandInActivities]:
    given = StandInActivities()
    async with Worker(
        client,
        task_queue="trace",
        identity="the-worker",
        workflows=[StandInSupervisor, StandInSubtask],
        activities=[given.take_turn, given.use_tool],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield given


def facts(trace: Trace) -> list[tuple[object, ...]]:
    return [(step.id, step.parent, step.kind, step.name, step.agent, step.attempts, step.state, step.error)
            for step in trace.steps]  # fmt: skip


async def failed_session(client: Client, session_id: str) -> None:
    handle = await client.start_workflow(
        "Supervisor", {"goal": "fail"}, id=session_id, task_queue="trace", static_summary="What is new?"
    )
    with pytest.raises(Exception, match="Workflow execution failed"):
        await handle.result()


class Forgetful(Interceptor):
    """A server whose retention has ended for one workflow; the real one takes a day for that."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # its name in the SDK
        class Forgets(OutboundInterceptor):
            def fetch_workflow_history_events(
                self,
                input: FetchWorkflowHistoryEventsInput,  # noqa: A002  # as above
            ) -> WorkflowHistoryEventAsyncIterator:
                if input.id.endswith("/reader/1"):
                    raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
                return super().fetch_workflow_history_events(input)

        return Forgets(next)


async def test_a_forgotten_child_is_told_by_its_parent(client: Client, activities: StandInActivities) -> None:
    """When the server no longer has a child, the parent's history still says that it ran and how it ended."""
    assert activities
    await failed_session(client, "three")
    forgetful = await Client.connect(
        client.service_client.config.target_host, data_converter=data_converter(), interceptors=[Forgetful()]
    )

    before = await read_trace(client, "three")
    after = await read_trace(forgetful, "three")

    assert facts(after) == facts(before)[:3]


async def test_a_trace_needs_no_worker(client: Client, activities: StandInActivities) -> None:
    """A session that nobody has taken up is a trace of one step that has not begun."""
    assert activities
    await client.start_workflow("Supervisor", {"goal": "fail"}, id="four", task_queue="nobody")

    trace = await read_trace(client, "four")

    assert facts(trace) == [("four", None, "session", "Supervisor", "supervisor", 1, "running", "")]
    assert trace.steps[0].started_at is None
