"""What a killed worker was doing is repeated at once by the next worker of its host, and nothing else is."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from pydantic import JsonValue
from temporalio import activity, workflow
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from worker.takeover import RunningActivities, take_over

MINUTE = timedelta(minutes=1)


class Held:
    """An activity whose first attempt records something and then hangs."""

    def __init__(self) -> None:
        self.hangs = asyncio.Event()

    @activity.defn
    async def work(self) -> list[JsonValue]:
        """Return the number of the attempt, and what the one before recorded."""
        info = activity.info()
        if info.attempt == 1:
            handle = activity.client().get_async_activity_handle(task_token=info.task_token)
            await handle.heartbeat("recorded")
            self.hangs.set()
            await asyncio.Event().wait()
        return [info.attempt, *info.heartbeat_details]

    @activity.defn
    async def prepare(self) -> None:
        """End at once; its attempt is on the list for a moment longer."""


@workflow.defn
class Below:
    """Does the work."""

    @workflow.run
    async def run(self) -> list[JsonValue]:
        await workflow.sleep(0.001)  # its second task makes its queue a sticky one
        return await workflow.execute_activity_method(
            Held.work, start_to_close_timeout=MINUTE, heartbeat_timeout=MINUTE
        )


@workflow.defn
class Above:
    """Has it done."""

    @workflow.run
    async def run(self) -> list[JsonValue]:
        await workflow.execute_activity_method(Held.prepare, start_to_close_timeout=MINUTE)
        return await workflow.execute_child_workflow(Below.run, id=f"{workflow.info().workflow_id}/below")


@asynccontextmanager
async def _held(client: Client, running: RunningActivities) -> AsyncGenerator[WorkflowHandle[Above, list[JsonValue]]]:
    """Run the work until it hangs."""
    queue, held = f"takeover-{uuid4().hex[:8]}", Held()
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Above, Below],
        activities=[held.prepare, held.work],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="takeover",
        interceptors=[running],
    ):
        handle = await client.start_workflow(Above.run, id=queue, task_queue=queue)
        await asyncio.wait_for(held.hangs.wait(), 60)
        yield handle


def _leave_dead(state_dir: Path) -> None:
    """Leave what a killed worker leaves: its file, which no process has locked."""
    (file,) = (state_dir / "running").iterdir()
    shutil.copy(file, file.with_name(f"{file.name}-dead"))
    with file.with_name(f"{file.name}-dead").open("ab") as torn:
        torn.write(b'[7,"half a li')


async def test_a_killed_workers_work_is_repeated_at_once(client: Client, tmp_path: Path) -> None:
    """The next attempt starts without a heartbeat timeout, finds what was recorded, and no workflow waits for the dead
    worker afterwards."""
    running = RunningActivities(tmp_path)
    async with _held(client, running) as handle:
        _leave_dead(tmp_path)

        await take_over(client, tmp_path)
        result = await asyncio.wait_for(handle.result(), MINUTE.total_seconds() / 2)

    below = client.get_workflow_handle(f"{handle.id}/below")
    last_queues = [
        [
            event.workflow_task_scheduled_event_attributes.task_queue.kind
            async for event in each.fetch_history_events()
            if event.HasField("workflow_task_scheduled_event_attributes")
        ][-1]
        for each in (handle, below)
    ]
    assert result == [2, "recorded"]
    assert last_queues == [TaskQueueKind.TASK_QUEUE_KIND_NORMAL] * 2
    assert len(list((tmp_path / "running").iterdir())) == 1
    running.close()
    assert not list((tmp_path / "running").iterdir())


async def test_a_live_workers_work_goes_on(client: Client, tmp_path: Path) -> None:
    """An attempt whose worker lives is left alone, and so is one that a dead worker had ended."""
    running = RunningActivities(tmp_path)
    async with _held(client, running) as handle:
        await take_over(client, tmp_path)

        below = client.get_workflow_handle(f"{handle.id}/below")
        (pending,) = (await below.describe()).raw_description.pending_activities
        assert pending.attempt == 1
        running.end(2)
        _leave_dead(tmp_path)
        await take_over(client, tmp_path)
        (pending,) = (await below.describe()).raw_description.pending_activities
        assert pending.attempt == 1
    running.close()
