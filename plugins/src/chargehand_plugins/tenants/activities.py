"""Access to tenants' ledgers for workers, and the activities that look up sessions for ledgers."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from temporalio import activity
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.converter import decode_typed_search_attributes

from activities.contracts.session import AdmissionTerms, SessionFacts
from chargehand.contracts import SessionRequest
from chargehand.history.tree import read_trace
from chargehand.listing import summarise
from chargehand.record import PlaceTaken, Record
from chargehand.search_attributes import TENANT
from chargehand.visibility import OPEN, ROOT_RUNS, UnlessGone, describe, gather_few, is_open, list_executions
from chargehand.wire import ActivityType, SignalName, WorkflowType
from chargehand_plugins.tenants.contracts import (
    Count,
    CountQuery,
    EndedQuery,
    EndedSession,
    EndedSessions,
    Entry,
    ledger_id,
)
from chargehand_plugins.tenants.file import Tenants
from chargehand_plugins.tenants.ledger import LedgerRequest

_MOST_AT_ONCE: Final = 8
_WORKFLOWS: Final = frozenset({"session", "subtask"})
_SUMMARY: Final = "ledger of a tenant"
_NOT_BEGUN: Final = frozenset({"", "queued"})
_IDLE: Final = "awaiting_message"
_LOOK_SECONDS: Final = 60.0
"""Time limit of one search, well below the activity's; the rest is searched again later."""


@dataclass(frozen=True)
class Ledgers:
    """The ledgers of tenants: workflows on one task queue, started on demand."""

    tenants: Tenants
    task_queue: str
    record: Record

    def check(self, request: SessionRequest) -> list[str]:
        return self.tenants.problems(request.tenant)

    async def admit(self, request: SessionRequest, facts: SessionFacts) -> SessionFacts:
        """Add the tenant's weight and the admitting ledger to a session's facts."""
        weight = self.tenants.limits_of(request.tenant).weight
        return facts.model_copy(update={"weight": weight, "admission": await self._open(request, facts)})

    async def announce_limits(self, client: Client) -> None:
        """Send the file's limits to running ledgers, for sessions that already wait, and make them recount.

        Workers are started after a restore, when a ledger has lost the spend since the backup.

        Raises:
            RPCError: the server does not answer.
        """
        prefix = ledger_id(self.task_queue, "")
        query = f"WorkflowType = '{WorkflowType.TENANT}' AND TaskQueue = '{self.task_queue}' AND {OPEN}"
        async for ledger in list_executions(client, query):
            name = ledger.execution.workflow_id
            if name.startswith(prefix):
                handle = client.get_workflow_handle(name)
                with UnlessGone():
                    await handle.signal(SignalName.COUNT_ANEW, self.tenants.limits_of(name.removeprefix(prefix)))

    async def _open(self, request: SessionRequest, facts: SessionFacts) -> AdmissionTerms | None:
        """Ensure that the ledger of the current session's tenant runs, and return it; None without limits.

        The session's place is recorded first, so that a lost ledger can be recounted.
        """
        limits = self.tenants.limits_of(request.tenant)
        info = activity.info()
        if not limits.need_ledger or request.delegation is not None or not info.workflow_id:
            return None
        terms = AdmissionTerms(ledger=ledger_id(self.task_queue, request.tenant), key=info.workflow_run_id or "")
        place = PlaceTaken(
            session=info.workflow_id,
            key=terms.key,
            usd=facts.terms.limits.budget_usd,
            at=info.current_attempt_scheduled_time,
        )
        await asyncio.to_thread(self.record.take_place, terms.ledger, place)
        await activity.client().start_workflow(
            WorkflowType.TENANT,
            LedgerRequest(tenant=request.tenant, limits=limits),
            id=terms.ledger,
            task_queue=self.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            static_summary=_SUMMARY,
            start_signal=SignalName.SET_LIMITS,
            start_signal_args=[limits],
        )
        return terms


@dataclass(frozen=True)
class TenantActivities:
    """Finds sessions that ended without telling their ledger."""

    record: Record

    @activity.defn(name=ActivityType.FIND_ENDED)
    async def find_ended(self, query: EndedQuery) -> EndedSessions:
        """Find out which sessions have ended, and their maximum spend."""
        sessions, ended = _Sessions(activity.client(), self.record, query.tenant), list[EndedSession]()

        async def look(entry: Entry) -> None:
            if session := await sessions.end_of(entry):
                ended.append(session)

        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await gather_few(_MOST_AT_ONCE, look, query.sessions)
        return EndedSessions(ended=tuple(ended))

    @activity.defn(name=ActivityType.COUNT_SPENT)
    async def count_spent(self, query: CountQuery) -> Count:
        """Count what a tenant's sessions have spent on a day, and find running ones."""
        client = activity.client()
        midnight = datetime.combine(query.day, datetime.min.time(), UTC)
        visible = f"{ROOT_RUNS} AND (CloseTime IS NULL OR CloseTime >= '{midnight.isoformat()}')"
        ids = {each.execution.workflow_id async for each in list_executions(client, visible)}
        ledger = ledger_id(activity.info().task_queue, query.tenant)
        places = await asyncio.to_thread(self.record.places, ledger, query.day, ids)
        newest = {place.session: place for place in places}
        keys = {name: set[str]() for name in newest}
        for place in places:
            keys[place.session].add(place.key)
        sessions, running, ended = _Sessions(client, self.record, query.tenant), list[Entry](), set[str]()
        spent = [Decimal(0)]

        async def count(place: PlaceTaken) -> None:
            standing = await sessions.stand(place, midnight)
            earlier = keys[place.session] - {place.key}
            if isinstance(standing, Entry):
                running.append(standing)
            elif standing is not None:
                spent.append(standing)
                ended.add(place.key)
            if earlier:
                spent.append(await sessions.charged(place.session, midnight))
                ended.update(earlier)

        await gather_few(_MOST_AT_ONCE, count, newest.values())
        known = tuple(key for key in query.keys if key in ended)
        return Count(spent_usd=sum(spent, Decimal(0)), running=tuple(running), ended=known)


@dataclass(frozen=True)
class _Sessions:
    """A tenant's sessions according to histories and the record."""

    client: Client
    record: Record
    tenant: str

    async def end_of(self, entry: Entry) -> EndedSession | None:
        """Return the spend of an ended session, its whole budget if unknown; None while any part runs.

        A session without a place has not spent any of the tenant's budget, since anyone with access can send a request.
        """
        description = await self._find(entry.session)
        if not await self._took_place(entry, description):
            return EndedSession(key=entry.key, spent_usd=Decimal(0))
        if description is not None and is_open(description):
            return None
        steps = None
        with UnlessGone():
            steps = description and (await read_trace(self.client, entry.session)).steps
        if steps is None:
            return EndedSession(key=entry.key, spent_usd=entry.usd)  # its history has been deleted
        if any(step.kind in _WORKFLOWS and step.state == "running" for step in steps):
            return None
        # The history of a terminated workflow does not distinguish a running call from an unstarted one.
        turns = [step for step in steps if step.kind == "turn"]
        is_known = all(
            turn.state == "completed" and turn.attempts == 1 and turn.usage.input_tokens > 0 for turn in turns
        )
        spent = sum((step.usage.cost_usd for step in turns), Decimal(0))
        return EndedSession(key=entry.key, spent_usd=spent if is_known else max(spent, entry.usd))

    async def stand(self, place: PlaceTaken, midnight: datetime) -> Entry | Decimal | None:
        """Return the place of a running session, or its spend since midnight; None if it has not started."""
        description = await self._find(place.session)
        if description is None:  # a restored database does not know it
            return await self.charged(place.session, midnight)
        if not is_open(description) and description.close_time.ToDatetime(UTC) < midnight:
            return Decimal(0)
        step = (await summarise(description, self.client.data_converter)).step
        if is_open(description) and step in _NOT_BEGUN:
            return None
        entry = Entry(
            key=place.key,
            session=place.session,
            usd=await asyncio.to_thread(self._budget, place),
            priority=SessionRequest.model_fields["priority"].default,
            since=place.at,
            is_idle=step == _IDLE,
        )
        ended = None if is_open(description) else await self.end_of(entry)
        return entry if ended is None else ended.spent_usd

    async def charged(self, session: str, midnight: datetime) -> Decimal:
        """Sum the recorded charges since midnight."""
        charges = await asyncio.to_thread(self.record.charges, session)
        return sum((each.usage.cost_usd for each in charges if each.scheduled_at >= midnight), Decimal(0))

    def _budget(self, place: PlaceTaken) -> Decimal:
        """Return the budget of a session, which people may have raised."""
        decided = (each.content.get("budget_usd") for each in self.record.decisions(place.session))
        return max([place.usd, *(Decimal(str(usd)) for usd in decided if usd is not None)])

    async def _find(self, session: str, run: str = "") -> WorkflowExecutionInfo | None:
        with UnlessGone():
            return (await describe(self.client, session, run)).workflow_execution_info
        return None

    async def _took_place(self, entry: Entry, found: WorkflowExecutionInfo | None) -> bool:
        """Return whether the run known to the ledger opened a session of this tenant."""
        tenant = found and decode_typed_search_attributes(found.search_attributes).get(TENANT)
        if tenant and tenant != self.tenant:
            return False
        if found is not None and (found.first_run_id == entry.key or await self._find(entry.session, entry.key)):
            return True
        ledger = ledger_id(activity.info().task_queue, self.tenant)
        return await asyncio.to_thread(
            self.record.took_place, ledger, entry.session, entry.key, entry.since.astimezone(UTC).date()
        )
