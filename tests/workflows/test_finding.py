"""Sessions are found by what they are about, where they stand and what they cost, without asking a worker."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.errors import SearchAttributesMissing
from chargehand.interface import Supervisor
from chargehand.listing import SessionSummary
from chargehand.search_attributes import STATE, STOP_REASON, missing_attributes
from chargehand.wire import SearchAttribute
from chargehand_plugins.operations.setup import register_attributes
from tests.conftest import local_server
from tests.environment import open_environment
from tests.scripted_model import subtask
from tests.waiting import eventually, until_state
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_main_path import well_behaved

pytestmark = pytest.mark.real_server

_LISTED: Final = EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES


async def listed(chargehand: Chargehand, session_id: str, **filters: Any) -> list[SessionSummary]:
    return [each async for each in chargehand.list(1_000, **filters) if each.id == session_id]


async def events_of(client: Client, session_id: str) -> list[int]:
    return [event.event_type for event in (await client.get_workflow_handle(session_id).fetch_history()).events]


async def test_the_list_has_the_figures_of_the_report(environment: OpenEnvironment, client: Client) -> None:
    """Crew, tenant, stop reason, dollars and turns are the report's; each of the four states takes one event."""
    request = SessionRequest(goal="What do the documents say about the topics?\nAll of them.", tenant="acme")
    started = datetime.now(UTC) - timedelta(minutes=1)
    async with environment(well_behaved(subtask("T1"), subtask("T2", agent="analyst", after=["T1"]))) as opened:
        session = await opened.chargehand.start(request)
        report = await session.result()
        filters = {"state": "finished", "tenant": "acme", "crew": "research"}
        await eventually(lambda: listed(opened.chargehand, session.id, **filters))
        [found] = [each async for each in opened.chargehand.list(thread=session.id, since=started)]
        events = await events_of(client, session.id)
        memo = await (await client.get_workflow_handle(session.id).describe()).memo()

    assert found.model_dump(exclude={"started_at", "ended_at"}) == {
        "id": session.id,
        "state": "completed",
        "step": "finished",
        "goal": "What do the documents say about the topics? All of them.",
        "crew": "research",
        "tenant": "acme",
        "waiting_for": "",
        "stop_reason": report.stop_reason,
        "verification": report.verification,
        "failure": None,
        "cost_usd": float(report.usage.cost_usd),
        "turns": report.usage.turns,
        "follows": "",
        "thread": session.id,
        "shown": report.ending.words,
    }
    assert (memo["state"], memo["ending"]) == ("finished", "answered")
    assert events.count(_LISTED) == 4
    assert await listed(opened.chargehand, session.id, tenant="other'quoted\\") == []


async def test_a_waiting_session_says_for_what(environment: OpenEnvironment) -> None:
    """One that waits for a person is found by that, with what it waits for, and no longer when it goes on."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is known?", approval="plan"))
        await until_state(session, "awaiting_approval")

        async def waits() -> list[str]:
            found = opened.chargehand.list(1_000, waiting=True, state="awaiting_approval")
            return [each.waiting_for async for each in found if each.id == session.id]

        await eventually(waits, lambda found: found == ["a decision on its plan"])
        await session.approve()
        await session.result()
        await eventually(waits, lambda found: not found)
        [found] = await eventually(lambda: listed(opened.chargehand, session.id, state="completed"))

    assert (found.waiting_for, found.step) == ("", "finished")


async def test_a_run_of_a_cron_is_not_listed_with_the_end_of_the_last(
    environment: OpenEnvironment, client: Client
) -> None:
    """The server starts it with the attributes that the last one had."""
    before = [SearchAttributePair(STATE, "finished"), SearchAttributePair(STOP_REASON, "deadline")]
    async with environment(well_behaved(subtask("T1"))) as opened:
        await client.start_workflow(
            Supervisor.run,
            SessionRequest(goal="What is known?", approval="plan"),
            id=(session_id := f"run-{uuid4().hex[:8]}"),
            task_queue=opened.chargehand.task_queue,
            search_attributes=TypedSearchAttributes(before),
        )
        [found] = await eventually(lambda: listed(opened.chargehand, session_id, waiting=True))

    assert (found.step, found.stop_reason) == ("awaiting_approval", "")


async def test_sessions_run_without_search_attributes(tmp_path: Path) -> None:
    """Where none are registered, sessions set none, lists know the goal, filters say what to do, and setup helps."""
    async with local_server(search_attributes=()) as client:
        async with open_environment(client, tmp_path, well_behaved(subtask("T1"))) as opened:
            session = await opened.chargehand.start(SessionRequest(goal="What is known?"))
            report = await asyncio.wait_for(session.result(), 60)
            [found] = await eventually(lambda: listed(opened.chargehand, session.id, state="finished"))
            with pytest.raises(SearchAttributesMissing, match=r"ChargehandCrew.*`chargehand setup`"):
                await listed(opened.chargehand, session.id, crew="research")

        events = await events_of(client, session.id)
        added = await missing_attributes(client)
        await register_attributes(client, added)
        left = await missing_attributes(client)

    assert report.stop_reason == "completed"
    assert _LISTED not in events
    assert (found.goal, found.state, found.cost_usd) == ("What is known?", "completed", None)
    assert added == tuple(SearchAttribute)
    assert left == ()


async def test_a_signal_that_does_nothing_is_shown(environment: OpenEnvironment, client: Client) -> None:
    """`finish_now` as a signal, with or without input: the status and the Web UI name it, and the update to send."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is known?", approval="plan"))
        await until_state(session, "awaiting_approval")
        handle = client.get_workflow_handle(session.id)
        await handle.signal("finish_now")
        await handle.signal("faster", args=[1, "<b>"])
        status = await session.status()
        details = await handle.query("__temporal_workflow_metadata")
        await session.cancel()

    assert (status.unknown_signals, status.ignored_messages) == (("finish_now", "faster"), 2)
    assert f"update execute --workflow-id {session.id} --name finish_now" in str(details)
