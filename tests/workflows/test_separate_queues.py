"""Kinds of work with task queues of their own: each worker does its part, and none does another's."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from activities.queues import queue_name
from chargehand.contracts import SessionRequest
from tests.environment import open_environment
from tests.scripted_model import Script, answer, request_tool, subtask, use
from worker.composition import activity_slots, compose
from worker.settings import Settings
from worker.workers import build_workers

_CODE = request_tool("run_code", language="python", code="print(6 * 7)")
_REQUEST = SessionRequest(goal="What is six times seven?", review="never")


async def test_a_host_without_keys_runs_what_models_have_written(client: Client, tmp_path: Path) -> None:
    """Where sandboxes have a queue of their own, a worker with no other role runs the session's programs, and the one
    with the models runs none: its own `run_code` is never called. Other tools stay where they were."""
    queue = f"test-{uuid4().hex[:8]}"
    settings = Settings(state_dir=tmp_path, task_queue=queue, queues={"sandboxes": 2}, roles=frozenset({"sandboxes"}))
    script = Script().plan(subtask("T1", "analyst")).work("", use("query_data"), _CODE, answer("42"))
    async with AsyncExitStack() as closing:
        opened = await closing.enter_async_context(
            open_environment(client, tmp_path, script, task_queue=queue, queues={"sandboxes": 1})
        )
        for worker in build_workers(client, settings, await compose(settings, {}, closing)):
            await closing.enter_async_context(worker)
        report = await asyncio.wait_for(opened.run(_REQUEST), 60)
        child = str(report.subtasks[0].workflow_id)
        history = await client.get_workflow_handle(child).fetch_history()
        trace = await opened.chargehand.session(report.session).trace()

    scheduled = [
        each.activity_task_scheduled_event_attributes
        for each in history.events
        if each.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    queues = {
        each.activity_id.rpartition(".")[2]: each.task_queue.name for each in scheduled if "." in each.activity_id
    }
    assert queues == {"query_data": queue, "run_code": f"{queue}-sandboxes"}
    assert (len(opened.tools["query_data"].calls), len(opened.tools["run_code"].calls)) == (1, 0)
    [computed] = [step.result for step in trace.steps if step.tool == "run_code"]
    assert computed is not None
    assert "42" in str(computed.value)


def test_a_role_needs_a_queue() -> None:
    """A worker for work that has no queue of its own would wait for ever: it is refused with the setting to change."""
    with pytest.raises(ValidationError, match=r"sandboxes have no task queue.*CHARGEHAND_QUEUES"):
        Settings(roles=frozenset({"sandboxes"}))

    only_tools = Settings(queues={"tools": 1}, roles=frozenset({"tools"}), requests_per_second=5)

    assert activity_slots(only_tools) == {queue_name(only_tools.task_queue, "tools"): 1}
