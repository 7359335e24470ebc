"""What is too large for Temporal ends what it belongs to, by a type, instead of being tried again for ever."""

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from chargehand.converter import data_converter
from chargehand.payloads.storage import PayloadDirectory, Storage
from chargehand.wire import ErrorType

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
