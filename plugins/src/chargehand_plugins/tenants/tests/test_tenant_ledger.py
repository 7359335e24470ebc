"""The ledger of a tenant: its limits hold whatever its sessions do, and whatever it looks up and receives at once."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from chargehand.wire import ActivityType, SignalName
from chargehand_plugins.tenants.contracts import Count, CountQuery, EndedQuery, EndedSession, EndedSessions, Entry
from chargehand_plugins.tenants.ledger import LedgerRequest, TenantLedger
from chargehand_plugins.tenants.limits import USAGE, TenantLimits, TenantUsage
from chargehand_plugins.tenants.workflow import TenantWorkflow
from tests.waiting import eventually, until
from workflows import options
from workflows.mailbox.contracts import AdmissionRequest, Envelope, Leaving
from workflows.registry import AroundWorkflows, RefuseBadInput, workflow_runner

_NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
_cents = st.integers(1, 400).map(lambda cents: Decimal(cents) / 100)
_few = st.none() | st.integers(1, 3)
_limits = st.builds(TenantLimits, sessions=_few, sessions_per_minute=_few, usd_per_day=st.none() | _cents)
_kinds, _seconds = st.sampled_from(["ask", "leave", "raise"]), st.sampled_from([0, 1, 30, 61, 40_000])
_steps = st.lists(st.tuples(_kinds, st.integers(0, 9), _cents, st.integers(1, 5), _seconds), max_size=40)


def _entry(key: str, session: str, usd: Decimal, priority: int = 3, since: datetime = _NOON) -> Entry:
    return Entry(key=key, session=session, usd=usd, priority=priority, since=since, number=2, token=f"{0:016}")


@given(_limits, _steps)
def test_tenant_limits_are_kept_at_every_step(
    limits: TenantLimits, steps: list[tuple[str, int, Decimal, int, int]]
) -> None:
    """In any sequence of requests, spending today, running sessions and the start rate stay within limits."""
    now = _NOON
    ledger = TenantLedger(day=now.date(), limits=limits)
    begun: list[datetime] = []
    for kind, number, usd, priority, seconds in steps:
        now += timedelta(seconds=seconds)
        ledger.begin_day(now.date())
        key = str(number)
        if kind == "ask":
            ledger.ask(_entry(key, f"session-{key}", usd, priority, now))
        elif kind == "raise":
            ledger.enlarge(key, usd)
        elif key in ledger.running:
            ledger.leave(key, min(usd, ledger.running[key].usd))
        ledger.refuse()
        while ledger.admit(now):
            begun.append(now)

        most = limits.usd_per_day
        assert most is None or ledger.spent + ledger.reserved <= most
        assert limits.sessions is None or len(ledger.running) <= limits.sessions
        lately = [each for each in begun if each > now - timedelta(minutes=1)]
        assert limits.sessions_per_minute is None or len(lately) <= limits.sessions_per_minute
        assert not ledger.queue or ledger.next_change(now) > now


def test_sessions_begin_by_priority_and_then_in_order() -> None:
    """Sessions of one priority keep their order, even if a later one would fit."""
    ledger = TenantLedger(day=_NOON.date(), limits=TenantLimits(sessions=1, usd_per_day=Decimal(10)))
    for key, usd, priority in (("a", 9, 3), ("b", 8, 3), ("c", 1, 3), ("d", 1, 1)):
        ledger.ask(_entry(key, key, Decimal(usd), priority))

    order: list[str] = []
    while entry := ledger.admit(_NOON):
        order.append(entry.key)
        ledger.leave(entry.key, Decimal(0))

    assert order == ["d", "a", "b", "c"]


def test_a_session_that_cannot_start_today_is_refused_with_an_allowed_budget() -> None:
    """One that could never fit is refused at once; one that may fit when others return budget waits."""
    ledger = TenantLedger(day=_NOON.date(), limits=TenantLimits(usd_per_day=Decimal(5)))
    for key, usd in (("runs", "2"), ("waits", "4"), ("never", "6")):
        ledger.ask(_entry(key, key, Decimal(usd)))
    ledger.admit(_NOON)

    first = ledger.refuse()
    ledger.leave("runs", Decimal("1.505"))
    second = ledger.refuse()
    ledger.begin_day(_NOON.date() + timedelta(days=1))
    ledger.ask(_entry("again", "again", Decimal(4)))

    assert [(entry.key, "at most $5.00" in why) for entry, why in first] == [("never", True)]
    assert [(entry.key, "$3.49 is left" in why) for entry, why in second] == [("waits", True)]
    assert ledger.refuse() == []
    assert ledger.admit(_NOON) is not None


def test_a_reused_session_id_does_not_wait_for_its_earlier_run() -> None:
    """The new run takes the place of the old, whose possible spend counts; one that waited spent nothing."""
    ledger = TenantLedger(day=_NOON.date(), limits=TenantLimits(sessions=1, usd_per_day=Decimal(10)))
    began: list[str] = []
    for key in ("first", "second"):
        ledger.ask(_entry(key, "same", Decimal(4)))
        began += [entry.key for entry in [ledger.admit(_NOON)] if entry]
    for key in ("third", "fourth"):
        ledger.ask(_entry(key, "another", Decimal(2)))

    assert began == ["first", "second"]
    assert (ledger.spent, ledger.reserved, list(ledger.queue)) == (Decimal(4), Decimal(4), ["fourth"])


def test_a_ledger_never_outgrows_one_payload() -> None:
    """A flood is refused before the state exceeds 2 MB, even with the longest ids."""
    ledger = TenantLedger(day=_NOON.date(), limits=TenantLimits(sessions=1))
    kept = 0
    while not ledger.ask(_entry(f"{kept:036}", f"{kept:0175}", Decimal("100.123456789"))):
        kept += 1
        assert kept < 10_000
    entry = next(iter(ledger.queue.values()))

    assert kept * (len(entry.model_dump_json()) + 20) < 2 << 20


_LIMITS = TenantLimits(sessions=1)
_Ledger = WorkflowHandle[TenantWorkflow, None]
_Find = Callable[[EndedQuery], Awaitable[EndedSessions]]


async def _find_none(_: EndedQuery) -> EndedSessions:
    return EndedSessions()


async def _spent_nothing() -> Decimal:
    return Decimal(0)


@asynccontextmanager
async def _ledger(
    client: Client, find: _Find = _find_none, spent: Callable[[], Awaitable[Decimal]] = _spent_nothing
) -> AsyncGenerator[_Ledger]:
    """Run a ledger that finds ended sessions and counts spend with these functions."""

    @activity.defn(name=ActivityType.FIND_ENDED)
    async def find_ended(query: EndedQuery) -> EndedSessions:
        return await find(query)

    @activity.defn(name=ActivityType.COUNT_SPENT)
    async def count_spent(_: CountQuery) -> Count:
        return Count(spent_usd=await spent())

    queue = f"test-{uuid4().hex[:8]}"
    served: dict[str, Any] = {"workflows": [TenantWorkflow], "activities": [find_ended, count_spent]}
    around, request = [AroundWorkflows(RefuseBadInput)], LedgerRequest(tenant="acme", limits=_LIMITS)
    async with Worker(client, task_queue=queue, workflow_runner=workflow_runner(), interceptors=around, **served):
        ledger = await client.start_workflow(TenantWorkflow.run, request, id=f"{queue}/acme", task_queue=queue)
        yield ledger
        await ledger.terminate()


async def _ask(ledger: _Ledger, key: str) -> None:
    await _send(ledger, key, AdmissionRequest(key=key, usd=Decimal(1)))


async def _send(ledger: _Ledger, key: str, body: AdmissionRequest | Leaving) -> None:
    token = f"{key} {body.kind}"
    await ledger.signal(SignalName.MAILBOX, Envelope(sender=f"{ledger.id}/{key}", number=1, token=token, body=body))


async def test_a_session_is_charged_once_however_the_ledger_learns_its_end(client: Client) -> None:
    """A session that reports its spend while it is being looked up is not charged again by the lookup."""
    spent = Decimal("0.5")

    async def find(_: EndedQuery) -> EndedSessions:
        await _send(ledger, "a", Leaving(key="a", spent_usd=spent))
        return EndedSessions(ended=(EndedSession(key="a", spent_usd=spent),))

    async with _ledger(client, find) as ledger:
        await _ask(ledger, "a")
        usage = await eventually(lambda: _usage(ledger), lambda usage: not usage.running and usage.spent_usd > 0)

    assert usage.spent_usd == spent


async def test_a_busy_ledger_still_looks_for_ended_sessions(client: Client) -> None:
    """However many signals arrive, it checks running sessions while others wait for them."""
    looks = 0

    async def find(_: EndedQuery) -> EndedSessions:
        nonlocal looks
        looks += 1
        return EndedSessions()

    async with _ledger(client, find) as ledger:
        await _ask(ledger, "runs")
        await _ask(ledger, "waits")

        async def has_looked_again() -> bool:
            await ledger.signal(SignalName.SET_LIMITS, _LIMITS)
            return looks > 1

        await until(has_looked_again)


async def test_a_ledger_of_a_restored_database_is_recounted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal during the count, that there may be more, makes it count again and use the later result."""
    counts = [Decimal(0), Decimal("0.7")]
    monkeypatch.setattr(options, "COUNT_AGAIN", timedelta(0))

    async def count() -> Decimal:
        if len(counts) > 1:
            counting = client.get_workflow_handle(activity.info().workflow_id or "")
            await counting.signal(SignalName.COUNT_ANEW, _LIMITS)
        return counts.pop(0)

    async with _ledger(client, spent=count) as ledger:
        usage = await eventually(lambda: _usage(ledger), lambda usage: usage.spent_usd > 0)

    assert usage.spent_usd == Decimal("0.7")


async def _usage(ledger: _Ledger) -> TenantUsage:
    return await ledger.query(USAGE, result_type=TenantUsage)
