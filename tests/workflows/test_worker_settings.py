"""What a worker's settings change for its sessions: own queues, heartbeat timeouts, how a session is opened."""

import asyncio
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.crews.versions import CrewVersions, PinnedCrew
from activities.heartbeat import BEAT_SECONDS, Pulse
from chargehand.contracts import SessionRequest
from chargehand.wire import ActivityType
from tests.environment import open_environment
from tests.scripted_model import Script, answer, request_tool, subtask, topics, use
from tests.workflows.conftest import OpenEnvironment, scheduled_in
from worker import workers
from worker.composition import activity_slots, compose
from worker.settings import Settings
from worker.workers import build_workers

_CODE = request_tool("run_code", language="python", code="print(6 * 7)")
_REQUEST = SessionRequest(goal="What is six times seven?", review="never")


async def test_model_written_code_runs_only_on_sandbox_workers(client: Client, tmp_path: Path) -> None:
    """If sandboxes have a queue, a worker with that role and without keys runs programs; other tools stay."""
    queue = f"test-{uuid4().hex[:8]}"
    settings = Settings(state_dir=tmp_path, task_queue=queue, queues={"sandboxes": 2}, roles=frozenset({"sandboxes"}))
    script = Script().plan(subtask("T1", "analyst")).work("", use("query_data"), _CODE, answer("42"))
    async with AsyncExitStack() as closing:
        opened = await closing.enter_async_context(
            open_environment(client, tmp_path, script, task_queue=queue, queues={"sandboxes": 1})
        )
        for worker in build_workers(client, settings, await compose(settings, {}, closing)):
            await closing.enter_async_context(worker)
        report = await opened.run(_REQUEST)
        child = str(report.subtasks[0].workflow_id)
        history = await client.get_workflow_handle(child).fetch_history()
        trace = await opened.chargehand.session(report.session).trace()

    scheduled = [each for each in scheduled_in(history) if "." in each.activity_id]
    queues = {each.activity_id.rpartition(".")[2]: each.task_queue.name for each in scheduled}
    assert queues == {"query_data": queue, "run_code": f"{queue}-sandboxes"}
    assert (len(opened.tools["query_data"].calls), len(opened.tools["run_code"].calls)) == (1, 0)
    [computed] = [step.result for step in trace.steps if step.tool == "run_code"]
    assert computed is not None
    assert "42" in str(computed.value)


def test_a_worker_role_needs_a_task_queue() -> None:
    """Otherwise its work would wait forever, so it is refused with the setting to change."""
    with pytest.raises(ValidationError, match=r"sandboxes have no task queue.*CHARGEHAND_QUEUES"):
        Settings(roles=frozenset({"sandboxes"}))

    part = Settings(queues={"models": 40, "tools": 1}, roles=frozenset({"tools"}), requests_per_second=5)
    whole = Settings(queues={"tools": 30}, max_activities=50)

    assert activity_slots(part) == {"chargehand-tools": 1}
    assert activity_slots(whole) == {"chargehand": 50, "chargehand-tools": 30}


@pytest.mark.real_server
async def test_every_activity_has_the_operators_heartbeat_timeout(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This covers turns and tools of a session and its subtasks, whatever their default."""
    monkeypatch.setenv("CHARGEHAND_HEARTBEAT_TIMEOUT", "60")
    script = Script().plan(subtask("T1", "researcher")).work("", use("search"), answer("Known."))
    async with environment(script) as opened:
        report = await opened.run(SessionRequest(goal="What is there to know?", review="never"))
        client = opened.chargehand.client
        ids = (report.session, str(report.subtasks[0].workflow_id))
        histories = [await client.get_workflow_handle(each).fetch_history() for each in ids]

    scheduled = [each for history in histories for each in scheduled_in(history)]
    assert {each.activity_type.name for each in scheduled} >= {ActivityType.TAKE_TURN, ActivityType.USE_TOOL}
    assert {each.heartbeat_timeout.ToTimedelta() for each in scheduled} == {timedelta(minutes=1)}


@given(seconds=st.none() | st.integers(1, 300))
def test_several_heartbeats_fit_into_each_timeout(seconds: int | None) -> None:
    """At least five, unless that would be more often than the default interval."""
    environment = ActivityEnvironment(cast("Client", _NoServer()))
    timeout = None if seconds is None else timedelta(seconds=seconds)
    environment.info = replace(environment.info, heartbeat_timeout=timeout)

    between = asyncio.run(environment.run(_seconds))

    assert between >= BEAT_SECONDS
    if seconds is not None and seconds >= 5:
        assert 5 < seconds / between < 7


async def _seconds() -> float:
    return Pulse().seconds


class _NoServer:
    """A client that only makes handles."""

    def get_async_activity_handle(self, *, task_token: bytes) -> bytes:
        return task_token


@pytest.mark.real_server
@pytest.mark.parametrize("fails", [0, 1])
async def test_a_session_without_documents_opens_in_its_first_workflow_task(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """What the worker knows itself takes no activity, and a store that fails once costs only one."""
    pin, failures = CrewVersions.pin, [OSError("the disk is full")] * fails

    async def failing(self: CrewVersions, name: str, digest: str = "") -> PinnedCrew | None:
        if failures:
            raise failures.pop()
        return await pin(self, name, digest)

    monkeypatch.setattr(CrewVersions, "pin", failing)
    async with environment(Script().plan(*topics(1)).on("work", answer("Known."))) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is known?", review="never"))
        answered = (await session.result()).answer
        history = await opened.chargehand.client.get_workflow_handle(session.id).fetch_history()

    opening = [ActivityType.OPEN_SESSION] * fails
    assert [each.activity_type.name for each in scheduled_in(history)] == [*opening, ActivityType.TAKE_TURN]
    assert answered == "Known."


def test_word_lists_and_prompts_change_the_build_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that decides by other words is another build."""
    (tmp_path / "decides" / "prompts").mkdir(parents=True)
    (tmp_path / "decides" / "rules.py").write_text("class Rules: ...\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(workers, "_INSIDE", (import_module("decides.rules").Rules,))
    builds = {workers.own_build.__wrapped__()}
    for file in ("words.json", "prompts/plan.md"):
        (tmp_path / "decides" / file).write_text("other words", encoding="utf-8")
        builds.add(workers.own_build.__wrapped__())

    assert len(builds) == 3
