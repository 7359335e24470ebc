"""What is too large for Temporal ends what it belongs to by a type, and what clients read is readable by any client."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.converter import data_converter
from chargehand.payloads.errors import StorageNotSet
from chargehand.payloads.storage import PayloadDirectory, Storage
from chargehand.wire import ErrorType, WorkflowType
from tests.environment import open_environment
from tests.scripted_model import Script, report, subtask
from tests.waiting import until_state

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


@pytest.mark.parametrize(("how", "stored"), [("result", "xxxx"), ("input", "done"), ("activity result", "done")])
async def test_what_is_too_large_fails_at_once_and_is_not_too_large_with_storage(
    client: Client, tmp_path: Path, how: str, stored: str
) -> None:
    """3 MB are refused at the first attempt, by a type that says why, unless large payloads are stored elsewhere."""
    storing = await Client.connect(
        client.service_client.config.target_host,
        data_converter=data_converter(storage=Storage(PayloadDirectory(tmp_path, "default"))),
    )

    assert await _outcome(client, how) == ErrorType.PAYLOAD_TOO_LARGE
    assert await _outcome(storing, how) == stored


_LONG = "A kn€wn sentence. " * 10_800
_SCRIPT = Script().plan(subtask("T1"), subtask("T2", after=["T1"])).synthesis(report(_LONG))


async def _storing(client: Client, folder: Path, *, results: bool = False) -> Client:
    """Connect a client whose workers store nearly every payload."""
    storage = Storage(PayloadDirectory(folder / "payloads", "default"), threshold_bytes=200, results=results)
    return await Client.connect(client.service_client.config.target_host, data_converter=data_converter(None, storage))


def _as_printed(value: object) -> object:
    """Turn what a query answers into what the Temporal CLI prints: `null` for an empty list."""
    match value:
        case dict():
            return {name: _as_printed(item) for name, item in cast("dict[str, object]", value).items()}
        case list():
            return [_as_printed(item) for item in cast("list[object]", value)] or None
        case _:
            return value


@pytest.mark.parametrize("queried", ["plan", "status"])
async def test_any_client_reads_what_a_session_answers(client: Client, tmp_path: Path, queried: str) -> None:
    """A client with the SDK's own converter starts a session, pastes the plan back, and reads a report of 200 KB."""
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
        result = cast("dict[str, Any]", await asyncio.wait_for(handle.result(), 60))

    assert _as_printed(decided) == plan
    assert len(result["answer"].encode()) > 200_000
    assert [record["state"] for record in result["subtasks"]] == ["success", "success"]


async def test_a_client_is_told_which_storage_it_lacks(client: Client, tmp_path: Path) -> None:
    """Where results are stored elsewhere on purpose, a client without the storage gets a typed error that names it."""
    storing = await _storing(client, tmp_path, results=True)
    async with open_environment(storing, tmp_path, _SCRIPT) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is known?"))
        assert len((await session.result()).answer.encode()) > 200_000

        with pytest.raises(StorageNotSet, match="CHARGEHAND_STORAGE"):
            await Chargehand(client).session(session.id).result()
        with pytest.raises(StorageNotSet, match="CHARGEHAND_STORAGE"):
            await Chargehand(client).session(session.id).status()
