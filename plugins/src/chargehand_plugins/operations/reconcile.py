"""Compare a restored database with the record of sessions' effects, charges and decisions."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client

from chargehand import Chargehand
from chargehand.bucket import bucket_location
from chargehand.contracts.steering import MOST_CHARGES
from chargehand.errors import ChargehandError
from chargehand.payloads.settings import encryption_of
from chargehand.record import FOLDER, Call, Charge, Decision, Record, charge_id
from chargehand.visibility import ROOT_RUNS, UnlessGone, describe, gather_few, list_executions, state_word
from chargehand_cli.connection import Connection
from chargehand_cli.location import NAME_SHARED_FILES, Location
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit, put, put_json, say

VANISHED: Final = "vanished"
RUNNING: Final = "running"
_PATIENCE_SECONDS: Final = 20.0
_AT_ONCE: Final = 10


@dataclass(frozen=True)
class Reconciled:
    """A session that started or continued since the backup."""

    session: str
    state: str
    """Temporal's state, or `vanished` if the database does not know it."""
    calls: Sequence[Call]
    """Acting calls since the backup."""
    charges: Sequence[Charge]
    """Charges since the backup."""
    lost: Sequence[Charge] = field(default=())
    """Charges that are in no history and not booked by any session."""
    decisions: Sequence[Decision] = field(default=())
    """People's decisions since the backup that are in no history."""

    def as_json(self) -> dict[str, Any]:
        calls = [
            call.begun.model_dump(mode="json") | {"answer": call.answer and call.answer.model_dump(mode="json")}
            for call in self.calls
        ]
        return {
            "session": self.session,
            "state": self.state,
            "calls": calls,
            "forgotten_decisions": [each.model_dump(mode="json") for each in self.decisions],
            "paid_usd": str(dollars(self.charges)),
            "in_no_books_usd": str(dollars(self.lost)),
        }


async def report(connection: Connection, since: datetime, *, repair: bool, as_json: bool) -> Exit:
    """Print the findings; return a failure if some are missing from the database."""
    client, record = connection.chargehand.client, await asyncio.to_thread(_open_record, connection.location)
    sessions = await reconcile_record(client, record, since)
    if repair:
        for each in sessions:
            await repair_books(connection.chargehand, record, each)
        sessions = await reconcile_record(client, record, since)
    if as_json:
        put_json(json.dumps([each.as_json() for each in sessions], indent=1))
    else:
        for line in lines_of(sessions, since):
            put(line)
    return Exit.FAILED if any(each.lost or each.state == VANISHED for each in sessions) else Exit.DONE


def _open_record(location: Location) -> Record:
    place = location.artifacts or location.state
    if not bucket_location(place) and not (Path(place) / FOLDER).is_dir():
        raise BadRequest(f"There is no record in {place}: {NAME_SHARED_FILES}")
    return Record(place, encryption_of(os.environ))


async def reconcile_record(client: Client, record: Record, since: datetime) -> list[Reconciled]:
    """Find the sessions that started or continued since a backup, vanished ones first."""
    states: dict[str, str] = {}
    query = f"{ROOT_RUNS} AND (CloseTime IS NULL OR CloseTime >= '{since.isoformat()}')"
    async for execution in list_executions(client, query):
        states.setdefault(execution.execution.workflow_id, state_word(execution))
    for begun in await asyncio.to_thread(lambda: list(_begun(record, since))):
        if not await _is_known(client, begun.session, begun.run):
            states[begun.session] = VANISHED
    results = await gather_few(_AT_ONCE, lambda each: _reconcile(client, record, since, *each), states.items())
    did_something = [each for each in results if each.state == VANISHED or each.calls or each.charges or each.decisions]
    return sorted(did_something, key=lambda each: (each.state != VANISHED, each.session))


async def repair_books(chargehand: Chargehand, record: Record, found: Reconciled) -> None:
    """Send a running session its lost charges; it ignores those that are already booked."""
    if found.state != RUNNING:
        return
    telling = [each for each in found.lost if await asyncio.to_thread(record.begin_telling, each)]
    for start in range(0, len(telling), MOST_CHARGES):
        some = telling[start : start + MOST_CHARGES]
        charges = {charge_id(each): each.usage.cost_usd for each in some}
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await chargehand.session(found.session).book_charges(charges=charges)
        except (TimeoutError, ChargehandError) as error:
            why = str(error) or "no worker answers"
            say(f"{one_safe_line(found.session, 300)} could not be told of its charges: {one_safe_line(why, 300)}")
            return
        for each in some:
            await asyncio.to_thread(record.end_telling, each)


def _begun(record: Record, since: datetime) -> Iterator[Any]:
    day, today = since.astimezone(UTC).date(), datetime.now(UTC).date()
    while day <= today + timedelta(days=1):  # clock skew
        yield from (begun for begun in record.sessions(day) if begun.at >= since)
        day += timedelta(days=1)


async def _reconcile(client: Client, record: Record, since: datetime, session: str, state: str) -> Reconciled:
    calls = [call for call in await asyncio.to_thread(record.calls, session) if call.begun.at >= since]
    charges = [each for each in await asyncio.to_thread(record.charges, session) if each.scheduled_at >= since]
    decisions = [each for each in await asyncio.to_thread(record.decisions, session) if each.at >= since]
    runs = {(each.workflow_id, each.run_id) for each in (*charges, *decisions)}
    known = {run: await _events(client, *run) for run in runs}
    lost = [
        each for each in charges if (each.activity_id, each.scheduled_at) not in known[each.workflow_id, each.run_id]
    ]
    unbooked = [each for each in lost if not await asyncio.to_thread(record.is_booked, each)]
    forgotten = [each for each in decisions if each.update_id not in known[each.workflow_id, each.run_id]]
    return Reconciled(session, state, calls, charges, unbooked, forgotten)


async def _is_known(client: Client, workflow_id: str, run_id: str) -> bool:
    with UnlessGone():
        await describe(client, workflow_id, run_id)
        return True
    return False


async def _events(client: Client, workflow_id: str, run_id: str) -> set[tuple[str, datetime] | str]:
    """List a run's scheduled activities with times, and the ids of its accepted updates."""
    events = set[tuple[str, datetime] | str]()
    if await _is_known(client, workflow_id, run_id):
        async for event in client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events():
            if event.HasField("activity_task_scheduled_event_attributes"):
                scheduled = event.activity_task_scheduled_event_attributes
                events.add((scheduled.activity_id, event.event_time.ToDatetime(UTC)))
            elif event.HasField("workflow_execution_update_accepted_event_attributes"):
                events.add(event.workflow_execution_update_accepted_event_attributes.protocol_instance_id)
    return events


def dollars(charges: Sequence[Charge]) -> Decimal:
    return sum((each.usage.cost_usd for each in charges), Decimal(0))


def lines_of(found: Sequence[Reconciled], since: datetime) -> Iterator[str]:
    """Describe the findings for a person who decides what to do."""
    vanished = sum(each.state == VANISHED for each in found)
    yield f"Since {since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {len(found)} session(s); {vanished} vanished."
    for each in found:
        in_no_books = f", ${dollars(each.lost):.4f} of it in no books" if each.lost else ""
        paid = f"${dollars(each.charges):.4f} for {len(each.charges)} model call(s)"
        yield f"{one_safe_line(each.session, 300)} ({each.state}): paid {paid}{in_no_books}"
        for call in each.calls:
            yield f"  {_outcome(call)}: {_title(call)}"
        for decision in each.decisions:
            content = f"{decision.name} {json.dumps(decision.content, ensure_ascii=False)}"
            yield f"  decided {decision.at:%Y-%m-%d %H:%M:%S}, and forgotten: {one_safe_line(content, 600)}"
    everything, lost = [each for one in found for each in one.charges], [each for one in found for each in one.lost]
    unknown = sum(not each.is_known for each in everything)
    not_said = f", {unknown} of them at unknown cost" if unknown else ""
    paid = f"${dollars(everything):.4f} for {len(everything)} model call(s){not_said}"
    yield f"Paid: {paid}; in no books: ${dollars(lost):.4f}."


def _outcome(call: Call) -> str:
    if call.answer is None:
        return "unknown, look it up"
    return "applied, do not repeat" if call.answer.ok else "not applied"


def _title(call: Call) -> str:
    decision = f", {call.begun.decision}" if call.begun.decision else ""
    arguments = json.dumps(call.begun.arguments, ensure_ascii=False)
    return one_safe_line(f"{call.begun.tool} {arguments} by {call.begun.agent}{decision}, key {call.begun.key}", 600)
