"""Environments for all workflow tests."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.history.v1 import ActivityTaskScheduledEventAttributes
from temporalio.client import Client, WorkflowHistory
from temporalio.runtime import Runtime

from chargehand import Conversation
from chargehand.contracts import ConversationMessage, PendingCall, Reply, Report, SessionRequest
from chargehand.converter import data_converter
from chargehand.messages import ConversationMessages
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.session import Session
from chargehand.wire import WorkflowType
from tests.crew_files import READS_DOCUMENTS, READS_THE_WEB, crew_folder
from tests.environment import SessionEnvironment, open_environment
from tests.in_memory_temporal import InMemoryTemporal
from tests.scripted_model import Respond
from tests.waiting import eventually
from workflows import run_end


async def connect(
    client: Client, encryption: Encryption | None = None, storage: Storage | None = None, runtime: Runtime | None = None
) -> Client:
    """Connect another client to the same server, with the converter of workers."""
    address, converter = client.service_client.config.target_host, data_converter(encryption, storage)
    return await Client.connect(address, data_converter=converter, runtime=runtime)


OpenEnvironment = Callable[..., AbstractAsyncContextManager[SessionEnvironment]]
"""Opens an environment, given what models reply and the options of `tests.environment.open_environment`."""
RunSession = Callable[..., Awaitable[tuple[Report, SessionEnvironment]]]
"""Runs a session to its report, given what models reply, the request, and those options."""


async def start_plainly(opened: SessionEnvironment, request: Any, **options: Any) -> Session:
    """Start a session by the SDK alone, with a request in any form and options of `start_workflow`."""
    session, queue = opened.chargehand.session(f"plain-{uuid4().hex[:8]}"), opened.chargehand.task_queue
    start: Callable[..., Awaitable[object]] = opened.chargehand.client.start_workflow
    await start(WorkflowType.SUPERVISOR, request, id=session.id, task_queue=queue, **options)
    return session


def server_of(opened: SessionEnvironment) -> InMemoryTemporal:
    """Return the server in memory on which sessions run here."""
    service = opened.chargehand.client.workflow_service
    assert isinstance(service, InMemoryTemporal)
    return service


@pytest.fixture
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> OpenEnvironment:
    """Open a worker whose model answers by a function: on the server in memory, or on a real one if so marked."""
    is_real = request.node.get_closest_marker("real_server") is not None
    client: Client | None = request.getfixturevalue("client") if is_real else None
    return partial(open_environment, client, tmp_path)


@pytest.fixture
def forgetful(environment: OpenEnvironment) -> OpenEnvironment:
    """Open a worker that replays every workflow from the start in each of its tasks."""
    return partial(environment, cached_workflows=0)


@pytest.fixture
def short_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run end after a subtask or two."""
    monkeypatch.setattr(run_end, "MOST_EVENTS", 20)


@pytest.fixture
def run(environment: OpenEnvironment) -> RunSession:
    """Run one session; returns its report, and the environment for what the model was asked."""

    async def run_session(
        respond: Respond, request: SessionRequest, **options: Any
    ) -> tuple[Report, SessionEnvironment]:
        async with environment(respond, **options) as opened:
            return await opened.run(request), opened

    return run_session


DESK = {
    "clerk": f'tools = ["refund", "search_documents"]\n{READS_DOCUMENTS}\napprove = ["refund"]',
    "engineer": "",
    "scout": f'tools = ["search"]\n{READS_THE_WEB}',
}

Desk = OpenEnvironment


@pytest.fixture
def desk(environment: OpenEnvironment, tmp_path: Path) -> Desk:
    """Open a worker with the crew `desk`."""
    return partial(environment, own_crews=(crew_folder(tmp_path, "desk", **DESK),), acting=("refund",))


def scheduled_in(history: WorkflowHistory) -> list[ActivityTaskScheduledEventAttributes]:
    """List the activities that a history schedules."""
    scheduled = (event.activity_task_scheduled_event_attributes for event in history.events)
    return [each for each in scheduled if each.activity_id]


async def pending(conversation: Conversation) -> PendingCall:
    """Wait until a call waits for a person."""
    return (await eventually(conversation.status, lambda status: len(status.calls) == 1)).calls[0]


async def say_once(talk: Conversation, text: str, update: str) -> Reply:
    """Say something with an update of this id."""
    return await talk.send(ConversationMessages.say, ConversationMessage(text=text), id=update)
