"""Traces read from a real server that has only some of the histories."""

from pathlib import Path

from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowHistoryEventAsyncIterator,
)
from temporalio.service import RPCError, RPCStatusCode

from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest, Step
from chargehand.converter import data_converter
from chargehand.history.tree import read_trace
from tests.environment import open_environment
from tests.scripted_model import Script, subtask

GOAL = SessionRequest(goal="What do the documents say?", review="never")


class Forgetful(Interceptor):
    """A server whose retention for children has expired, which takes a day on a real one."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # its name in the SDK
        class Forgets(OutboundInterceptor):
            def fetch_workflow_history_events(
                self,
                input: FetchWorkflowHistoryEventsInput,  # noqa: A002  # as above
            ) -> WorkflowHistoryEventAsyncIterator:
                if "/reader/" in input.id:
                    raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
                return super().fetch_workflow_history_events(input)

        return Forgets(next)


def facts(step: Step) -> tuple[object, ...]:
    return step.id, step.parent, step.kind, step.name, step.agent, step.attempts, step.state, step.error


async def test_trace_shows_deleted_child_workflows_from_the_parents_history(client: Client, tmp_path: Path) -> None:
    """If the server no longer has a child, the parent's history still shows that it ran and how it ended."""
    async with open_environment(client, tmp_path, Script().plan(subtask("T1"))) as opened:
        session = (await opened.run(GOAL)).session
    forgetful = await Client.connect(
        client.service_client.config.target_host, data_converter=data_converter(), interceptors=[Forgetful()]
    )

    before, after = [(await read_trace(each, session)).steps for each in (client, forgetful)]

    known = [step for step in before if step.parent in {None, session}]
    assert "subtask" in {step.kind for step in known}
    assert len(known) < len(before)
    assert [facts(step) for step in after] == [facts(step) for step in known]


async def test_a_trace_needs_no_worker(client: Client) -> None:
    """The trace of a session that no worker has picked up is one step that has not started."""
    session = await Chargehand(client, "nobody").start(GOAL)

    trace = await read_trace(client, session.id)

    assert facts(trace.steps[0])[1:7] == (None, "session", GOAL.goal, "supervisor", 1, "running")
    assert (len(trace.steps), trace.steps[0].started_at) == (1, None)
