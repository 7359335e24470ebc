"""Worker processes: a group of them, and the activities of a killed one."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio import activity, workflow
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from worker import takeover
from worker.settings import Settings
from worker.takeover import Attempt, RunningActivities, take_over

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import os, signal, sys
from worker.process_group import ProcessGroup

def say(*words):
    os.write(1, " ".join(map(str, words)).encode() + b"\\n")

def work(number, announce):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    if "unusable" in sys.argv and number == 0:
        say("unusable")
        return 2
    say("member", number, os.getpid())
    announce()
    signal.sigwait([signal.SIGTERM])
    say("stopped", number)
    return 0

code = ProcessGroup(3, work, lambda: say("ready")).run()
say("over")
os._exit(code)
"""


@contextmanager
def _group(*options: str) -> Generator[subprocess.Popen[str]]:
    program = [sys.executable, "-c", _PROGRAM, *options]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as running:
        try:
            yield running
        finally:
            running.kill()


def _lines(running: subprocess.Popen[str], count: int) -> list[list[str]]:
    assert running.stdout
    return [running.stdout.readline().split() for _ in range(count)]


def test_a_killed_member_is_restarted_and_all_stop_on_sigterm() -> None:
    """The group is ready once all members are, and each member stops cleanly."""
    with _group() as running:
        first, *others = _lines(running, 4)
        pids = {number: int(pid) for word, number, pid in [first, *others[:2]] if word == "member"}
        os.kill(pids["1"], signal.SIGKILL)
        ((word, number, pid),) = _lines(running, 1)
        running.send_signal(signal.SIGTERM)
        assert running.stdout
        rest = sorted(running.stdout.read().splitlines())

    assert first[:2] == ["member", "0"]
    assert others[2:] == [["ready"]]
    assert (word, number) == ("member", "1")
    assert int(pid) not in pids.values()
    assert rest == ["over", "stopped 0", "stopped 1", "stopped 2"]
    assert running.returncode == 0


def test_unusable_settings_stop_the_group_at_its_first_member() -> None:
    """It fails before the others start, and its exit code becomes the group's."""
    with _group("unusable") as running:
        said, _ = running.communicate(timeout=60)

    assert said.split() == ["unusable", "over"]
    assert running.returncode == 2


def test_members_end_with_their_parent() -> None:
    """A parent that is killed leaves no worker behind."""
    with _group() as running:
        _lines(running, 4)
        running.kill()
        assert running.stdout
        rest = sorted(running.stdout.read().splitlines())

    assert rest == ["stopped 0", "stopped 1", "stopped 2"]


def test_each_process_has_its_own_address_for_metrics() -> None:
    """Ports are consecutive, and settings that exceed the port range are refused."""
    settings = Settings(processes=3, metrics_address="127.0.0.1:9464")

    addresses = [settings.of_process(number).metrics_address for number in range(3)]
    assert addresses == ["127.0.0.1:9464", "127.0.0.1:9465", "127.0.0.1:9466"]
    with pytest.raises(ValueError, match="CHARGEHAND_METRICS_ADDRESS: there are not so many ports"):
        Settings(processes=3, metrics_address="127.0.0.1:65534")


MINUTE = timedelta(minutes=1)


class Held:
    """An activity whose first attempt records something and then hangs."""

    def __init__(self) -> None:
        self.hangs = asyncio.Event()

    @activity.defn
    async def work(self) -> list[JsonValue]:
        """Return the number of the attempt and what the previous one recorded."""
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


@pytest.fixture
def running(tmp_path: Path) -> Generator[RunningActivities]:
    """Close the file even if the test fails, so that the next test is not blamed for leaving it open."""
    with closing(RunningActivities(tmp_path)) as running:
        yield running


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
        await held.hangs.wait()
        yield handle


def _leave_dead(state_dir: Path) -> None:
    """Leave what a killed worker leaves: its file, unlocked by any process."""
    (file,) = (state_dir / "running").iterdir()
    shutil.copy(file, file.with_name(f"{file.name}-dead"))
    with file.with_name(f"{file.name}-dead").open("ab") as torn:
        torn.write(b'[7,"half a li')


async def test_a_killed_workers_activities_are_retried_at_once(
    client: Client, tmp_path: Path, running: RunningActivities, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt finds the heartbeat details; nothing waits for a timeout or a dead worker's queue."""
    monkeypatch.setattr(takeover, "_SENT_SECONDS", 60)
    async with _held(client, running) as handle:
        _leave_dead(tmp_path)
        end = takeover._end

        async def end_and_wait(client: Client, attempt: Attempt) -> bool:
            if ended := await end(client, attempt):
                await handle.result()
            return ended

        monkeypatch.setattr(takeover, "_end", end_and_wait)
        await asyncio.wait_for(take_over(client, tmp_path), MINUTE.total_seconds() / 2)
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


async def test_activities_of_a_live_worker_are_left_alone(
    client: Client, tmp_path: Path, running: RunningActivities
) -> None:
    """So is an attempt that a worker had ended before it died."""
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


async def test_hostile_files_in_the_folder_do_not_stop_a_takeover(
    client: Client, tmp_path: Path, running: RunningActivities
) -> None:
    """Files that are not regular are not opened, and invalid content is ignored."""
    folder = tmp_path / "running"
    [own] = folder.iterdir()
    hostile = [folder / f"{own.name}{number}" for number in range(9)]
    os.mkfifo(hostile[0])
    hostile[1].mkdir()
    hostile[2].symlink_to("/dev/zero")
    rows = ('1,"w","r","%"', '1,"w","r",{}', '1e999,"w","r","e"', r'1,"\ud800","r",""')
    lines = (b"[" * 500_000, b"\xff", *(f"[{row}]".encode() for row in rows))
    for path, line in zip(hostile[3:], lines, strict=True):
        path.write_bytes(line)

    async with asyncio.timeout(60):
        await take_over(client, tmp_path)
    running.close()

    assert {*folder.iterdir()} == {*hostile[:3]}
