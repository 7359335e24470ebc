"""Sessions with encryption and external storage on a real server: what lies there, and what if a key is away."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.models.failures import ProviderError, ProviderFault
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.errors import SessionFailed
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import StorageNotSet
from chargehand.payloads.storage import PayloadDirectory, Storage
from chargehand.session import Session
from chargehand.wire import ErrorType, SignalName, WorkflowType
from chargehand_plugins.operations.clean import clean_folders
from chargehand_plugins.operations.replay import histories_of_tree
from tests.conftest import local_server
from tests.environment import open_environment
from tests.parameters import first_fast
from tests.scripted_model import Held, Script, cite, report, subtask, use
from tests.waiting import eventually, until, until_state
from tests.workflows.conftest import connect, start_plainly

OLD, NEW = {"old": bytes(range(32))}, {"new": bytes(range(32, 64))}
CANARY = "canary-7f3a"


@pytest.fixture
async def encrypted(client: Client) -> Client:
    """A client of the same server that encrypts."""
    return await connect(client, Encryption(OLD, "old"))


SINGING = (
    Script()
    .plan(*(subtask(name, instruction=f"{name}: {CANARY}") for name in ("T1", "T2")))
    .work("", lambda call: use(call.tools[0].name), cite(f"The {CANARY} is here [{{ref}}]."))
    .synthesis(report(f"The {CANARY} sings [S1]."))
)
"""Puts the canary into everything that a model says."""


async def everything_stored(client: Client, session_id: str) -> str:
    """Return everything the server keeps of a session and its subtasks, as read without keys."""
    kept: list[str] = []
    async for history in histories_of_tree(client, session_id):
        kept += [repr(event) for event in history.events]
        kept.append(str((await client.get_workflow_handle(history.workflow_id).describe()).raw_description))
    return "\n".join(kept)


async def test_session_text_cannot_be_read_on_the_server(client: Client, encrypted: Client, tmp_path: Path) -> None:
    """This covers goal, plan, instructions, tool output, answers, summaries and errors."""
    async with open_environment(encrypted, tmp_path, SINGING) as opened:
        for tool in opened.tools.values():
            tool.answer = tool.answer.model_copy(update={"output": {"text": f"a tool read {CANARY}"}})
        session = await opened.chargehand.start(SessionRequest(goal=f"Where is the {CANARY}?"))
        result = await session.result()
        trace = await session.trace()

    kept = await everything_stored(client, session.id)

    assert result.stop_reason == "completed"
    assert CANARY in result.answer
    assert CANARY in trace.model_dump_json()
    assert kept.count("EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED") == 2
    assert kept.count("binary/encrypted") > 20
    assert CANARY not in kept


async def test_error_messages_cannot_be_read_on_the_server(client: Client, encrypted: Client, tmp_path: Path) -> None:
    """The client gets the reason; the server gets only the error type."""
    message = f"the key of {CANARY} was refused"
    fault = ProviderFault(provider="scripted", code=CANARY)
    refused = ProviderError(message, fault, ErrorType.PROVIDER_REFUSED, is_final=True)
    async with open_environment(encrypted, tmp_path, Script().plans(refused)) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is it?"))
        with pytest.raises(SessionFailed, match=CANARY):
            await session.result()

    kept = await everything_stored(client, session.id)

    assert "ProviderRefused" in kept
    assert CANARY not in kept


async def test_heartbeat_details_are_encrypted(client: Client, encrypted: Client, tmp_path: Path) -> None:
    """They keep the state of a running model call on the server."""
    held = Held(SINGING)
    script = SINGING.on("plan", held)
    async with open_environment(encrypted, tmp_path, script) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is it?"))
        handle = client.get_workflow_handle(session.id)

        async def beats() -> list[Payload]:
            pending = (await handle.describe()).raw_description.pending_activities
            return [each for one in pending for each in one.heartbeat_details.payloads]

        kept = await eventually(beats)
        held.released.set()
        await session.result()

    assert {each.metadata["encoding"] for each in kept} == {b"binary/encrypted"}


@pytest.mark.parametrize(
    ("protection", "problem"),
    [("encryption", r"is not encrypted.*--codec-endpoint"), ("storage", "written to another storage")],
)
async def test_unreadable_session_input_is_refused_with_the_reason(
    client: Client, encrypted: Client, tmp_path: Path, protection: str, problem: str
) -> None:
    """Plain input, or input in a storage that the worker does not use, ends the session at once."""
    elsewhere, storing = [
        await connect(client, storage=Storage(PayloadDirectory(tmp_path / name, "default"), 200)) for name in "ab"
    ]
    starter, taking = (client, encrypted) if protection == "encryption" else (elsewhere, storing)
    async with open_environment(taking, tmp_path, SINGING) as opened:
        session = await Chargehand(starter, opened.chargehand.task_queue).start(SessionRequest(goal="x" * 1_000))
        with pytest.raises(SessionFailed, match=problem) as refusal:
            await Chargehand(taking if protection == "encryption" else starter).session(session.id).result()

    assert refusal.value.error_type is ErrorType.INVALID_INPUT


async def test_plain_input_can_be_accepted_while_switching_to_encryption(client: Client, tmp_path: Path) -> None:
    """Older sessions are continued, and answered encrypted."""
    willing = await connect(client, Encryption(OLD, "old", accept_plain=True))

    async with open_environment(willing, tmp_path, SINGING) as opened:
        session = await Chargehand(client, opened.chargehand.task_queue).start(SessionRequest(goal="What is it?"))
        result = await Chargehand(willing).session(session.id).result()

    assert result.stop_reason == "completed"


async def _is_failing(client: Client, session: Session) -> bool:
    description = await client.get_workflow_handle(session.id).describe()
    return description.raw_description.pending_workflow_task.attempt > 1


async def _start_held(starter: Client, folder: Path) -> tuple[Session, str]:
    """Start a session that waits for approval without a worker; return it and its task queue."""
    async with open_environment(starter, folder, SINGING) as opened:
        request = SessionRequest(goal="What is it? " + "x" * 1_000, approval="plan")
        # Retry failed workflow tasks after one second instead of ten.
        session = await start_plainly(opened, request, task_timeout=timedelta(seconds=1))
        await until_state(session, "awaiting_approval")
        return session, opened.chargehand.task_queue


async def test_a_session_waits_for_a_worker_with_the_key(client: Client, encrypted: Client, tmp_path: Path) -> None:
    """A worker without it changes and pays nothing; with the key the same session completes."""
    session, queue = await _start_held(encrypted, tmp_path)
    keyless = await connect(client, Encryption(NEW, "new"))
    async with open_environment(keyless, tmp_path, SINGING, task_queue=queue) as without:
        await client.get_workflow_handle(session.id).signal(SignalName.MAILBOX)
        await until(lambda: _is_failing(client, session))
        assert without.model.calls == []

    rotated = await connect(client, Encryption({**OLD, **NEW}, "new"))
    async with open_environment(rotated, tmp_path, SINGING, task_queue=queue):
        session = Chargehand(rotated).session(session.id)
        await session.approve()
        result = await session.result()

    assert result.stop_reason == "completed"


@pytest.mark.slow
async def test_a_session_waits_for_a_missing_payload_to_come_back(client: Client, tmp_path: Path) -> None:
    """A payload that is gone does not fail the session."""
    directory = PayloadDirectory(tmp_path / "payloads", client.namespace)
    storing = await connect(client, storage=Storage(directory, threshold_bytes=200))
    session, queue = await _start_held(storing, tmp_path)
    away = directory.folder.rename(tmp_path / "away")
    async with open_environment(storing, tmp_path, SINGING, task_queue=queue):
        await client.get_workflow_handle(session.id).signal(SignalName.MAILBOX)
        await until(lambda: _is_failing(client, session))
        away.rename(directory.folder)
        await session.approve()
        result = await session.result()

    assert result.stop_reason == "completed"


async def test_cleaning_keeps_payloads_that_a_session_may_need(tmp_path: Path) -> None:
    """Only payloads older than every workflow are deleted, and only if requested."""
    async with local_server() as client:
        directory = PayloadDirectory(tmp_path, client.namespace)
        storing = await connect(client, storage=Storage(directory, threshold_bytes=200))
        await storing.data_converter.encode(["unneeded " * 100])
        [unneeded] = [path for path in directory.folder.rglob("*") if path.is_file()]
        session = await Chargehand(storing, "nobody").start(SessionRequest(goal="x" * 1_000))
        needed = [path for path in directory.folder.rglob("*") if path.is_file() and path != unneeded]
        started = (await client.get_workflow_handle(session.id).describe()).start_time.timestamp()
        os.utime(unneeded, (started - 7_200, started - 7_200))

        would = await clean_folders(client, [directory.folder], datetime.now(UTC), delete=False)
        is_still_there = unneeded.exists()
        did = await clean_folders(client, [directory.folder], datetime.now(UTC), delete=True)

    assert is_still_there
    assert [(each.files, each.kept) for each in (would, did)] == [(1, len(needed)), (1, len(needed))]
    assert not unneeded.exists()
    assert needed
    assert all(path.exists() for path in needed)


_LARGE = "x" * 3_000_000
_SOON = timedelta(seconds=30)


@activity.defn
async def measure(text: str) -> int:
    return len(text)


@activity.defn
async def produce(size: int) -> str:
    assert activity.info().attempt == 1
    return "x" * size


@workflow.defn
class Enlarge:
    @workflow.run
    async def run(self, how: str) -> str:
        match how:
            case "result":
                return _LARGE
            case "input":
                await workflow.execute_activity(measure, _LARGE, start_to_close_timeout=_SOON)
            case _:
                await workflow.execute_activity(produce, len(_LARGE), start_to_close_timeout=_SOON)
        return "done"


async def _outcome(client: Client, how: str) -> str:
    queue = f"test-{uuid4().hex[:8]}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Enlarge],
        activities=[measure, produce],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        try:
            result = await client.execute_workflow(Enlarge.run, how, id=queue, task_queue=queue, run_timeout=_SOON)
        except WorkflowFailureError as failure:
            cause = failure.cause.cause if isinstance(failure.cause, ActivityError) else failure.cause
            assert isinstance(cause, ApplicationError)
            return str(cause.type)
        return result[:4]


@pytest.mark.parametrize(
    ("how", "stored"), first_fast([("input", "done"), ("result", "xxxx"), ("activity result", "done")])
)
async def test_an_oversized_payload_fails_at_once_unless_stored_externally(
    client: Client, tmp_path: Path, how: str, stored: str
) -> None:
    """3 MB are refused at the first attempt, with an error type that gives the reason."""
    storing = await connect(client, storage=Storage(PayloadDirectory(tmp_path, "default")))

    assert await _outcome(client, how) == ErrorType.PAYLOAD_TOO_LARGE
    assert await _outcome(storing, how) == stored


_LONG = "A kn€wn sentence. " * 10_800
_SCRIPT = Script().plan(subtask("T1"), subtask("T2", after=["T1"])).synthesis(report(_LONG))


async def _storing(client: Client, folder: Path, *, results: bool = False) -> Client:
    """Connect a client whose workers store nearly every payload."""
    directory = PayloadDirectory(folder / "payloads", client.namespace)
    return await connect(client, storage=Storage(directory, threshold_bytes=200, results=results))


def _as_printed(value: object) -> object:
    """Convert a query's answer to what the Temporal CLI prints: `null` for an empty list."""
    match value:
        case dict():
            return {name: _as_printed(item) for name, item in cast("dict[str, object]", value).items()}
        case list():
            return [_as_printed(item) for item in cast("list[object]", value)] or None
        case _:
            return value


@pytest.mark.parametrize("queried", first_fast(["plan", "status"]))
async def test_a_plain_sdk_client_can_read_what_a_session_answers(client: Client, tmp_path: Path, queried: str) -> None:
    """With the SDK's own converter it starts a session, sends the plan back, and reads a 200 KB report."""
    plain = await Client.connect(client.service_client.config.target_host)
    async with open_environment(await _storing(client, tmp_path), tmp_path, _SCRIPT) as opened:
        request = {"goal": "What is known?", "approval": "plan", "documents": None}
        handle = await plain.start_workflow(
            WorkflowType.SUPERVISOR, request, id=tmp_path.name, task_queue=opened.chargehand.task_queue
        )
        await until_state(opened.chargehand.session(handle.id), "awaiting_approval")
        answered = cast("dict[str, Any]", await handle.query(queried))
        plan = _as_printed(answered["plan"] if queried == "status" else answered)
        decided: object = await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
            "decide_plan", {"decision": "edit", "plan": plan}
        )
        result = cast("dict[str, Any]", await handle.result())

    assert _as_printed(decided) == plan
    assert len(result["answer"].encode()) > 200_000
    assert [record["state"] for record in result["subtasks"]] == ["success", "success"]


async def test_a_client_without_the_storage_gets_an_error_that_names_it(client: Client, tmp_path: Path) -> None:
    """The session itself completes as usual."""
    async with open_environment(await _storing(client, tmp_path, results=True), tmp_path, _SCRIPT) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is known? " + "x" * 10_000))
        assert len((await session.result()).answer.encode()) > 200_000

        with pytest.raises(StorageNotSet, match="CHARGEHAND_STORAGE"):
            await Chargehand(client).session(session.id).result()
        with pytest.raises(StorageNotSet, match="CHARGEHAND_STORAGE"):
            await Chargehand(client).session(session.id).status()

    kept = await everything_stored(client, session.id)
    assert "x" * 500 not in kept
    assert kept.count("chargehand.directory") > 10
