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

from chargehand.contracts import Step, Trace, Usage
from chargehand.converter import data_converter
from chargehand.history.tree import read_trace
from tests.waiting import until

_ONCE = RetryPolicy(maximum_attempts=1)
_QUICKLY = RetryPolicy(initial_interval=timedelta(milliseconds=1), maximum_attempts=3)
_LONG = timedelta(seconds=30)


@workflow.defn(name="Supervisor")
class StandInSupervisor:
    @workflow.run
    async def run(self, request: dict[str, str]) -> str:
        await workflow.execute_activity(
            "take_turn", "plan", start_to_close_timeout=_LONG, activity_id="turn-1", summary="supervisor: plan"
        )
        if request["goal"] == "wait":
            await workflow.execute_activity("wait", start_to_close_timeout=_LONG, activity_id="wait")
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
    def __init__(self) -> None:
        self.release = asyncio.Event()

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

    @activity.defn(name="wait")
    async def wait(self) -> None:
        await self.release.wait()


@pytest.fixture
async def activities(client: Client) -> AsyncIterator[StandInActivities]:
    given = StandInActivities()
    async with Worker(
        client,
        task_queue="trace",
        identity="the-worker",
        workflows=[StandInSupervisor, StandInSubtask],
        activities=[given.take_turn, given.use_tool, given.wait],
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


async def test_every_step_is_there_with_its_parent(client: Client, activities: StandInActivities) -> None:
    """Workflows, turns and tools, with attempts, ends and typed errors; parents come before their children."""
    assert activities
    await failed_session(client, "one")

    trace = await read_trace(client, "one")

    below = "one/run/reader/1"
    assert facts(trace) == [
        ("one", None, "session", "What is new?", "supervisor", 1, "failed", "Hopeless"),
        ("one#turn-1", "one", "turn", "supervisor: plan (m-1)", "supervisor", 1, "completed", ""),
        (below, "one", "subtask", "T1 reader: read", "reader", 1, "failed", "Hopeless"),
        (f"{below}#tool-1", below, "tool", "use_tool", "reader", 2, "completed", ""),
        (f"{below}#broken", below, "tool", "use_tool", "reader", 1, "failed", "ToolUnavailable"),
        (f"{below}#slow", below, "tool", "use_tool", "reader", 1, "timed_out", "StartToCloseTimeout"),
    ]
    assert [step.usage for step in trace.steps if step.usage != Usage()] == [
        Usage(turns=1, input_tokens=7, cost_usd=trace.steps[1].usage.cost_usd),
        Usage(tool_calls=1),
    ]
    assert float(trace.steps[1].usage.cost_usd) == 0.5
    assert {step.worker for step in trace.steps} == {"the-worker"}
    assert all(step.started_at and step.ended_at and step.started_at <= step.ended_at for step in trace.steps)


async def test_a_session_is_traced_while_it_runs(client: Client, activities: StandInActivities) -> None:
    """What runs now is in the trace although its start is not in the history yet."""
    handle = await client.start_workflow("Supervisor", {"goal": "wait"}, id="two", task_queue="trace")

    async def waits() -> Step | None:
        steps = {step.id: step for step in (await read_trace(client, "two")).steps}
        step = steps.get("two#wait")
        return step if step and step.started_at else None

    async def is_waiting() -> bool:
        return await waits() is not None

    await until(is_waiting, seconds=30)
    step = await waits()
    activities.release.set()
    with pytest.raises(Exception, match="Workflow execution failed"):
        await handle.result()

    assert step is not None
    assert (step.state, step.attempts, step.worker, step.ended_at) == ("running", 1, "the-worker", None)


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
