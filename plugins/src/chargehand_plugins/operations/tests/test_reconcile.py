"""What `reconcile` lists after a restore, on a real server that has forgotten some of it."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from chargehand.contracts import SessionRequest, Usage
from chargehand.record import CallBegun, CallEnded, Decision, Record
from chargehand.tools import ToolAnswer
from chargehand.visibility import list_executions
from chargehand_plugins.operations.reconcile import (
    VANISHED,
    Reconciled,
    dollars,
    lines_of,
    reconcile_record,
    repair_books,
)
from chargehand_plugins.tenants.tests.environment import delete_workflow
from tests.environment import open_environment
from tests.scripted_model import Script, topics

pytestmark = pytest.mark.real_server

_REQUEST = SessionRequest(goal="What do the documents say about the topics?")
_SCRIPT = Script().plan(*topics(2))


@pytest.mark.slow
async def test_reconcile_lists_what_a_restored_database_has_lost(client: Client, tmp_path: Path) -> None:
    """A vanished session is listed with its calls and charges, others with what is in no history."""
    before = datetime.now(UTC) - timedelta(seconds=1)
    async with open_environment(client, tmp_path, _SCRIPT) as opened:
        sessions = [await opened.chargehand.start(_REQUEST) for _ in range(2)]
        reports = [await each.result() for each in sessions]
        kept, gone = (each.id for each in sessions)
    record = Record(tmp_path)
    calls = {key: _call(gone, key) for key in ("done", "unsure")}
    assert all(record.begin_call(call) for call in calls.values())
    record.end_call(calls["done"], CallEnded(answer=ToolAnswer(), at=before))
    [first, *_] = record.charges(kept)
    record.add_charge(first.model_copy(update={"scheduled_at": first.scheduled_at + timedelta(milliseconds=1)}))
    await _forget(client, gone)

    found = await reconcile_record(client, record, before)

    mine = {each.session: each for each in found if each.session in {kept, gone}}
    assert (mine[gone].state, mine[kept].state) == (VANISHED, "completed")
    assert {call.begun.key: call.answer is not None for call in mine[gone].calls} == {"done": True, "unsure": False}
    cost = [each.usage.cost_usd for each in reports]
    assert sum(each.usage.cost_usd for each in mine[gone].lost) == cost[1] > 0
    assert [each.usage for each in mine[kept].lost] == [first.usage]
    text = "\n".join(lines_of([mine[gone], mine[kept]], before))
    assert "2 session(s); 1 vanished" in text
    assert 'applied, do not repeat: refund {"order": "done"} by clerk, approved by Ann, key done' in text
    assert 'unknown, look it up: refund {"order": "unsure"}' in text
    total, unbooked = sum(cost, Decimal(0)) + first.usage.cost_usd, cost[1] + first.usage.cost_usd
    assert f"Paid: ${total:.4f}" in text
    assert f"in no books: ${unbooked:.4f}" in text


async def test_reconcile_books_lost_charges_to_a_running_session_once(client: Client, tmp_path: Path) -> None:
    """Repeating the command changes nothing, and the report states what was paid."""
    before, record = datetime.now(UTC) - timedelta(seconds=1), Record(tmp_path)
    async with open_environment(client, tmp_path, _SCRIPT) as opened:
        session = await opened.start(_REQUEST.model_copy(update={"approval": "plan"}), until="awaiting_approval")
        [planned] = record.charges(session.id)
        record.add_charge(planned.model_copy(update={"scheduled_at": planned.scheduled_at + timedelta(milliseconds=1)}))
        unbooked: list[Decimal] = []
        for _ in range(3):
            everything = await reconcile_record(client, record, before)
            [found] = [each for each in everything if each.session == session.id]
            unbooked.append(dollars(found.lost))
            await repair_books(opened.chargehand, record, found)
        await session.approve()
        done = await session.result()

    cost = planned.usage.cost_usd
    assert unbooked == [cost, 0, 0]
    assert done.usage.cost_usd == sum(each.usage.cost_usd for each in record.charges(session.id))
    assert [line.usage for line in done.spend if line.purpose == "lost"] == [Usage(turns=1, cost_usd=cost)]


def test_forgotten_decisions_are_listed_below_their_session() -> None:
    """Each has its time, and what was decided."""
    at = datetime(2026, 11, 22, 17, 30, tzinfo=UTC)
    ids = {"session": "s", "workflow_id": "s", "run_id": "r", "update_id": "u"}
    made = Decision.model_validate({**ids, "name": "decide_call", "content": {"call": "c1"}, "at": at})

    _, _, line, _ = lines_of([Reconciled("s", "running", (), (), decisions=[made])], at)

    assert line == '  decided 2026-11-22 17:30:00, and forgotten: decide_call {"call": "c1"}'


def _call(session: str, key: str) -> CallBegun:
    by: dict[str, Any] = {"session": session, "agent": "clerk", "tool": "refund", "decision": "approved by Ann"}
    return CallBegun(key=key, attempt=key, arguments={"order": key}, at=datetime.now(UTC), **by)


async def _forget(client: Client, session: str) -> None:
    """Delete a session and its descendants, as if it had begun after the backup."""
    query = f"WorkflowId STARTS_WITH '{session}'"
    forgotten = [each.execution async for each in list_executions(client, query)]
    assert len(forgotten) == 3

    await asyncio.gather(*(delete_workflow(client, each) for each in forgotten))
