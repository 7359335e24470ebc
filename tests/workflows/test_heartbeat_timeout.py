"""The operator's heartbeat timeout: what a lost worker did goes on so much later, and heartbeats are as much rarer."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.heartbeat import BEAT_SECONDS, Pulse
from chargehand.contracts import SessionRequest
from tests.scripted_model import Script, answer, subtask, use
from tests.workflows.conftest import OpenEnvironment


def _timeout(event: HistoryEvent) -> float:
    return event.activity_task_scheduled_event_attributes.heartbeat_timeout.ToTimedelta().total_seconds()


@pytest.mark.real_server
async def test_every_activity_has_the_operators_timeout(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns and tools, of a session and of its subtasks, whatever they have without the setting."""
    monkeypatch.setenv("CHARGEHAND_HEARTBEAT_TIMEOUT", "60")
    script = Script().plan(subtask("T1", "researcher")).work("", use("search"), answer("Known."))
    async with environment(script) as opened:
        report = await opened.run(SessionRequest(goal="What is there to know?", review="never"))
        client = opened.chargehand.client
        ids = (report.session, str(report.subtasks[0].workflow_id))
        histories = [await client.get_workflow_handle(each).fetch_history() for each in ids]

    scheduled = [
        event
        for history in histories
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert {event.activity_task_scheduled_event_attributes.activity_type.name for event in scheduled} >= {
        "take_turn",
        "use_tool",
    }
    assert set(map(_timeout, scheduled)) == {60.0}


@given(seconds=st.none() | st.integers(1, 300))
def test_several_heartbeats_fit_into_each_timeout(seconds: int | None) -> None:
    """Five and more where it is not below the usual one, where they are never more often than usual."""
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
