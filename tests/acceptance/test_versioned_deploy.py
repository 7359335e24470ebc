"""Deploys while sessions are in flight: builds with names, and what happens without."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError

import worker_main
from activities.contracts import WorkTask
from activities.models.protocol import ModelCall, ModelReply
from chargehand.client import Session
from chargehand.contracts import SessionRequest
from tests.acceptance.later_build import LATER_WORKFLOWS
from tests.conftest import local_server
from tests.scripted_model import Held, answer, plan, reply, report, subtask
from tests.stage import Stage, open_stage
from tests.waiting import until

_IN_FLIGHT = 4


@pytest.fixture(scope="module")
async def server() -> AsyncGenerator[Client]:
    """A server of its own: a deployment's current version is the server's business."""
    async with local_server() as client:
        yield client


class Deploys:
    """One deployment and the builds of it that run."""

    def __init__(self, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.released = asyncio.Event()
        self.task_queue = f"deploys-{uuid4().hex[:8]}"
        self.name = f"crew-{uuid4().hex[:8]}"
        self._folder = folder
        self._monkeypatch = monkeypatch

    @asynccontextmanager
    async def build(
        self, build_id: str | None, workflows: Sequence[type] = worker_main.WORKFLOWS
    ) -> AsyncGenerator[Stage]:
        """Run a worker of a build, which holds every agent's answer until released."""
        with self._monkeypatch.context() as patch:
            patch.setattr(worker_main, "WORKFLOWS", workflows)
            if build_id:
                patch.setenv("CHARGEHAND_DEPLOYMENT", self.name)
                patch.setenv("CHARGEHAND_BUILD_ID", build_id)
            opening = open_stage(self.client, self._folder, self._respond, task_queue=self.task_queue)
            stage = await opening.__aenter__()
        try:
            yield stage
        finally:
            await opening.__aexit__(None, None, None)

    async def make_current(self, build_id: str) -> None:
        """Let new sessions begin on a build, once a worker of it polls."""

        async def is_known() -> bool:
            try:
                await self.client.workflow_service.set_worker_deployment_current_version(
                    SetWorkerDeploymentCurrentVersionRequest(
                        namespace=self.client.namespace,
                        deployment_name=self.name,
                        build_id=build_id,
                        ignore_missing_task_queues=True,
                    )
                )
            except RPCError:
                return False
            return True

        await until(is_known, 60)

    async def begin(self, stage: Stage, about: str, most: int = _IN_FLIGHT) -> list[Session]:
        """Start sessions and wait until an agent of each works."""
        sessions = [
            await stage.chargehand.start(SessionRequest(goal=f"What do {about} {number} come to?"))
            for number in range(most)
        ]
        for session in sessions:

            async def agents_work(session: Session = session) -> bool:
                status = await session.status()
                return any(each.state == "running" for each in status.subtasks)

            await until(agents_work, 60)
        return sessions

    def _respond(self, call: ModelCall) -> ModelReply | Held:
        if isinstance(call.task, WorkTask):
            return Held(reply(answer("Known.")), self.released)
        return reply(plan(subtask("T1"), subtask("T2")) if call.task.kind == "plan" else report("What is known."))


@pytest.fixture
def deploys(server: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deploys:
    return Deploys(server, tmp_path, monkeypatch)


async def _histories(client: Client, session: Session) -> list[WorkflowHistory]:
    own = await client.get_workflow_handle(session.id).fetch_history()
    below = [
        event.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id
        for event in own.events
        if event.HasField("child_workflow_execution_started_event_attributes")
    ]
    return [own, *[await client.get_workflow_handle(child).fetch_history() for child in below]]


async def _builds(client: Client, session: Session) -> set[str]:
    """Name the builds that a session's workflows, its children's included, ran on."""
    return {
        event.workflow_task_completed_event_attributes.deployment_version.build_id
        for history in await _histories(client, session)
        for event in history.events
        if event.HasField("workflow_task_completed_event_attributes")
    }


async def _failed_tasks(client: Client, session: Session) -> list[WorkflowTaskFailedCause.ValueType]:
    return [
        event.workflow_task_failed_event_attributes.cause
        for history in await _histories(client, session)
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]


async def test_sessions_stay_on_their_build_through_a_deploy_and_its_rollback(deploys: Deploys) -> None:
    """From v1 to v2 and back: what is in flight ends on the build that it began on, children included (F27)."""
    client = deploys.client
    async with AsyncExitStack() as running:
        stage = await running.enter_async_context(deploys.build("v1"))
        await running.enter_async_context(deploys.build("v2", LATER_WORKFLOWS))
        await deploys.make_current("v1")
        first = await deploys.begin(stage, "the first")
        await deploys.make_current("v2")
        second = await deploys.begin(stage, "the second")
        await deploys.make_current("v1")
        third = await deploys.begin(stage, "the third")
        deploys.released.set()
        reports = await asyncio.gather(*(session.result() for session in (*first, *second, *third)))

    assert {each.stop_reason for each in reports} == {"completed"}
    for sessions, build in ((first, "v1"), (second, "v2"), (third, "v1")):
        assert [await _builds(client, session) for session in sessions] == [{build}] * _IN_FLIGHT
    assert [await _failed_tasks(client, session) for session in (*first, *second, *third)] == [[]] * _IN_FLIGHT * 3


async def test_sessions_begin_once_a_build_is_current(deploys: Deploys) -> None:
    """Before any build is current a session waits, and nothing of it is lost."""
    async with deploys.build("v1") as stage:
        deploys.released.set()
        session = await stage.chargehand.start(SessionRequest(goal="What is there to know?"))

        async def is_registered() -> bool:
            try:
                await deploys.client.workflow_service.describe_worker_deployment(
                    DescribeWorkerDeploymentRequest(namespace=deploys.client.namespace, deployment_name=deploys.name)
                )
            except RPCError:
                return False
            return True

        await until(is_registered, 60)
        waiting = await deploys.client.get_workflow_handle(session.id).describe()
        await deploys.make_current("v1")
        ended = await session.result()

    assert waiting.history_length == 2
    assert ended.stop_reason == "completed"


async def test_sessions_from_before_builds_had_names_go_on(deploys: Deploys, monkeypatch: pytest.MonkeyPatch) -> None:
    """When workers are given names for the first time, what is in flight goes to the current build."""
    monkeypatch.setattr(worker_main, "_GRACE", timedelta(0))  # the agents are held for ever
    async with deploys.build(None) as stage:
        (session,) = await deploys.begin(stage, "the topics", most=1)
    async with deploys.build("v1"):
        await deploys.make_current("v1")
        deploys.released.set()
        ended = await session.result()

    assert ended.stop_reason == "completed"
    assert await _builds(deploys.client, session) == {"", "v1"}


async def test_without_builds_an_unguarded_change_parks_sessions_until_it_is_rolled_back(
    deploys: Deploys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that decides otherwise fails workflow tasks, not sessions; the earlier code carries them on (F27)."""
    client = deploys.client
    monkeypatch.setattr(worker_main, "_GRACE", timedelta(0))  # the agents are held for ever
    async with deploys.build(None) as stage:
        sessions = await deploys.begin(stage, "the topics", most=2)
    async with deploys.build(None, LATER_WORKFLOWS):
        deploys.released.set()

        async def all_parked() -> bool:
            return all([await _failed_tasks(client, session) for session in sessions])

        await until(all_parked, 60)
    async with deploys.build(None):
        reports = await asyncio.gather(*(session.result() for session in sessions))

    causes = {cause for session in sessions for cause in await _failed_tasks(client, session)}
    assert causes == {WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR}
    assert {each.stop_reason for each in reports} == {"completed"}
