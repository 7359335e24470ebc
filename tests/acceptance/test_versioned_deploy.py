"""Named builds, from the first one on; `chaos/deploys.py` deploys with sessions in flight."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest, SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client

from chaos.deploys import builds_of, session_histories
from chargehand.contracts import SessionRequest
from chargehand.session import Session
from tests.acceptance.workers import answered
from tests.conftest import local_server
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Held, Script, answer, topics
from tests.waiting import eventually
from worker import workers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
async def server() -> AsyncGenerator[Client]:
    """A separate server, because the current version of a deployment belongs to the server."""
    async with local_server() as client:
        yield client


class Deploys:
    """One deployment and its running builds."""

    def __init__(self, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.released = asyncio.Event()
        self.task_queue = f"deploys-{uuid4().hex[:8]}"
        self.name = f"crew-{uuid4().hex[:8]}"
        self._folder = folder
        self._monkeypatch = monkeypatch

    @asynccontextmanager
    async def build(self, build_id: str | None) -> AsyncGenerator[SessionEnvironment]:
        """Run a worker of a build, which holds every agent's answer until released."""
        with self._monkeypatch.context() as patch:
            if build_id:
                patch.setenv("CHARGEHAND_DEPLOYMENT", self.name)
                patch.setenv("CHARGEHAND_BUILD_ID", build_id)
            script = Script().plan(*topics(2)).work("", Held(answer("Known."), self.released))
            opening = open_environment(self.client, self._folder, script, task_queue=self.task_queue)
            environment = await opening.__aenter__()
        try:
            yield environment
        finally:
            await opening.__aexit__(None, None, None)

    async def make_current(self, build_id: str) -> None:
        """Make a build current, so that new sessions begin on it, once one of its workers polls."""

        build: dict[str, Any] = {"deployment_name": self.name, "build_id": build_id, "namespace": self.client.namespace}
        current = SetWorkerDeploymentCurrentVersionRequest(ignore_missing_task_queues=True, **build)
        await answered(lambda: self.client.workflow_service.set_worker_deployment_current_version(current))

    async def begin(self, environment: SessionEnvironment) -> Session:
        """Start a session and wait until an agent of it works."""
        session = await environment.chargehand.start(SessionRequest(goal="What do the topics come to?"))
        await eventually(session.status, lambda status: "running" in {each.state for each in status.subtasks})
        return session


@pytest.fixture
def deploys(server: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deploys:
    return Deploys(server, tmp_path, monkeypatch)


async def test_sessions_start_once_a_build_is_current(deploys: Deploys) -> None:
    """A session started before that waits, and then completes."""
    async with deploys.build("v1") as environment:
        deploys.released.set()
        session = await environment.chargehand.start(SessionRequest(goal="What is there to know?"))

        described = DescribeWorkerDeploymentRequest(namespace=deploys.client.namespace, deployment_name=deploys.name)
        await answered(lambda: deploys.client.workflow_service.describe_worker_deployment(described))
        waiting = await deploys.client.get_workflow_handle(session.id).describe()
        await deploys.make_current("v1")
        ended = await session.result()

    assert waiting.history_length == 2
    assert ended.stop_reason == "completed"


async def test_sessions_from_unversioned_workers_continue_on_the_current_build(
    deploys: Deploys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When workers first get a deployment name, running sessions move to the current build."""
    monkeypatch.setattr(workers, "GRACEFUL_SHUTDOWN_TIMEOUT", timedelta(0))  # the agents are held for ever
    async with deploys.build(None) as environment:
        session = await deploys.begin(environment)
    async with deploys.build("v1"):
        await deploys.make_current("v1")
        deploys.released.set()
        ended = await session.result()

    assert ended.stop_reason == "completed"
    assert builds_of(await session_histories(deploys.client, session.id)) == {"", "v1"}
