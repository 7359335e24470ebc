"""Tenants: their sessions wait for each other, and spend no more in a day than the operator allows."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

from chargehand.contracts import ConversationLimits, Limits, SessionRequest
from chargehand.errors import SessionEnded, SessionFailed, UpdateRefused
from chargehand.listing import summarise
from chargehand.record import Record
from chargehand.session import Session
from chargehand.visibility import describe
from chargehand.wire import ErrorType, SignalName
from chargehand_plugins.tenants.activities import Ledgers
from chargehand_plugins.tenants.contracts import ledger_id
from chargehand_plugins.tenants.file import Tenants
from chargehand_plugins.tenants.ledger import LedgerRequest, TenantLedger
from chargehand_plugins.tenants.limits import USAGE, TenantLimits, TenantUsage
from chargehand_plugins.tenants.tests.environment import allowing, delete_workflow
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Held, Script, plan, topics
from tests.waiting import eventually
from workflows import options
from workflows.mailbox.contracts import AdmissionRequest, Envelope, Idling, Leaving

_GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never", tenant="acme")


def _asking(usd: str, priority: int = 3, approval: str = "none") -> SessionRequest:
    limits = Limits(budget_usd=Decimal(usd))
    return _GOAL.model_copy(update={"limits": limits, "priority": priority, "approval": approval})


@asynccontextmanager
async def _allowing(
    client: Client, folder: Path, held: Held, limits: TenantLimits
) -> AsyncGenerator[SessionEnvironment]:
    """Run a worker with these limits for the tenant, whose model holds the first plan."""
    async with open_environment(client, folder, Script().on("plan", held), parts=[allowing(acme=limits)]) as opened:
        yield opened


def _held() -> Held:
    return Held(plan(*topics(1)))


@asynccontextmanager
async def _working(
    client: Client, folder: Path, limits: TenantLimits, usd: str = "1"
) -> AsyncGenerator[tuple[SessionEnvironment, Held, Session]]:
    """Run such a worker and begin a session with this budget, which stays in planning until released."""
    held = _held()
    async with _allowing(client, folder, held, limits) as opened:
        session = await opened.start(_asking(usd), until=held)
        yield opened, held, session


def _ledger(opened: SessionEnvironment) -> WorkflowHandle[Any, Any]:
    return opened.chargehand.client.get_workflow_handle(ledger_id(opened.chargehand.task_queue, "acme"))


async def _usage(opened: SessionEnvironment) -> TenantUsage:
    return await _ledger(opened).query(USAGE, result_type=TenantUsage)


async def _queued(opened: SessionEnvironment, usd: str = "1", priority: int = 3) -> Session:
    """Start a session that has to wait."""
    return await opened.start(_asking(usd, priority), until="queued")


async def _terminate(client: Client, workflow_id: str) -> None:
    await client.get_workflow_handle(workflow_id).terminate("by hand")


async def _announce(opened: SessionEnvironment, folder: Path, limits: TenantLimits) -> None:
    ledgers = Ledgers(Tenants(tenants={"acme": limits}), opened.chargehand.task_queue, Record(folder))
    await ledgers.announce_limits(opened.chargehand.client)


async def _running(opened: SessionEnvironment, *ids: str) -> TenantUsage:
    """Wait until exactly these sessions run, and return the usage at that time."""
    return await eventually(lambda: _usage(opened), lambda usage: usage.running == ids)


async def test_sessions_wait_in_order_for_a_free_slot(client: Client, tmp_path: Path) -> None:
    """They start by priority and order as slots become free; in the end no budget is reserved."""
    async with _working(client, tmp_path, TenantLimits(sessions=1)) as (opened, held, first):
        waiting = [await _queued(opened, priority=priority) for priority in (3, 1)]
        queued = await eventually(lambda: _usage(opened), lambda usage: len(usage.queued) == len(waiting))
        held.released.set()
        reports = await asyncio.gather(*(each.result() for each in (first, *waiting)))
        ended = await _running(opened)

    assert queued.running == (first.id,)
    assert [each.session for each in queued.queued] == [waiting[1].id, waiting[0].id]
    assert (queued.reserved_usd, queued.spent_usd) == (Decimal(1), Decimal(0))
    assert (ended.reserved_usd, ended.spent_usd) == (Decimal(0), sum(each.usage.cost_usd for each in reports))
    assert reports[2].timing.ended_at <= reports[1].timing.started_at


async def test_a_conversation_waiting_for_its_user_takes_no_slot(client: Client, tmp_path: Path) -> None:
    """Another session runs meanwhile, and a message is answered although that one has the only slot."""
    held = _held()
    async with _allowing(client, tmp_path, held, TenantLimits(sessions=1)) as opened:
        talk = await opened.chargehand.converse(crew="research", tenant="acme")
        async with asyncio.timeout(1.9):
            await talk.opened()
        first = await talk.say(text="Hello")
        session = await opened.start(_asking("1"), until=held)
        second = await talk.say(text="Are you there?")
        held.released.set()
        report = await session.result()
        usage = await _usage(opened)

    assert (first.text, second.text, report.stop_reason) == ("I see.", "I see.", "completed")
    assert (usage.running, usage.reserved_usd) == ((talk.id,), Decimal(5))


async def test_a_terminated_session_returns_its_unspent_budget(client: Client, tmp_path: Path) -> None:
    """A waiting session then starts, although nothing told the ledger; what was spent stays spent."""
    held = _held()
    held.released.set()
    async with _allowing(client, tmp_path, held, TenantLimits(usd_per_day=Decimal(2))) as opened:
        ended = await opened.start(_asking("1.5", approval="plan"), until="awaiting_approval")
        spent = (await ended.status()).spent_usd
        waiting = await _queued(opened, "1.5")
        await _terminate(client, ended.id)
        report = await waiting.result()
        usage = await _running(opened)

    assert spent > 0
    assert usage.spent_usd == spent + report.usage.cost_usd


async def test_a_session_terminated_during_a_call_counts_as_fully_spent(client: Client, tmp_path: Path) -> None:
    """What the provider bills for the call is unknown, so the session's whole budget counts."""
    async with _working(client, tmp_path, TenantLimits(usd_per_day=Decimal(2)), "1.5") as (opened, _, ended):
        waiting = await _queued(opened)
        await _terminate(client, ended.id)
        with pytest.raises(SessionFailed, match=r"\$0\.50 is left"):
            await waiting.result()


async def test_waiting_sessions_survive_the_loss_of_their_ledger(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session whose ledger was terminated asks again, which starts another one."""
    monkeypatch.setattr(options, "ASK_AGAIN", timedelta(seconds=1))
    async with _working(client, tmp_path, TenantLimits(sessions=1)) as (opened, held, first):
        waiting = await _queued(opened)
        await _terminate(client, _ledger(opened).id)
        held.released.set()
        await asyncio.gather(first.result(), waiting.result())
        await _running(opened)


async def test_a_budget_above_the_tenants_limit_is_refused_with_the_remedy(client: Client, tmp_path: Path) -> None:
    """It fails at once and says what to ask for; a failed session reserves nothing."""
    async with _working(client, tmp_path, TenantLimits(usd_per_day=Decimal(2))) as (opened, _, running):
        with pytest.raises(SessionFailed, match=r"ask for at most \$2\.00") as refused:
            await (await opened.chargehand.start(_asking("2.5"))).result()
        talk = await opened.chargehand.converse(tenant="acme", limits=ConversationLimits(budget_usd=Decimal(3)))
        for each in (talk, await opened.chargehand.start(_asking("2.5"))):
            with pytest.raises(SessionFailed, match=r"ask for at most \$2\.00"):
                await each.opened()
        with pytest.raises(SessionFailed, match="smallest that work here"):
            await (await opened.chargehand.start(_asking("0.0001"))).result()
        with pytest.raises(UpdateRefused, match=r"raise it to at most \$2\.00"):
            await running.raise_limits(budget_usd=Decimal(3))
        raised = await running.raise_limits(budget_usd=Decimal(2))
        usage = await _running(opened, running.id)
        await running.cancel()
        await _running(opened)

    assert refused.value.error_type is ErrorType.TENANT_LIMIT
    assert (raised.budget_usd, usage.reserved_usd) == (Decimal(2), Decimal(2))


async def test_sessions_that_never_began_are_not_listed_as_queued(client: Client, tmp_path: Path) -> None:
    """One cancelled while it waited, and one refused then, are listed with how they ended."""
    async with _working(client, tmp_path, TenantLimits(sessions=1, usd_per_day=Decimal(5))) as (opened, _, running):
        waiting = [await _queued(opened, usd) for usd in ("1", "2")]
        await waiting[0].cancel()
        await _announce(opened, tmp_path, TenantLimits(usd_per_day=Decimal(1)))
        for each in waiting:
            with pytest.raises(SessionEnded):
                await each.result()
        await running.cancel()
        described = [(await describe(client, each.id)).workflow_execution_info for each in waiting]
        listed = [await summarise(each, client.data_converter) for each in described]

    assert [each.step for each in listed] == ["cancelled", "failed"]


async def test_changed_limits_reach_waiting_sessions(client: Client, tmp_path: Path) -> None:
    """One starts when a worker brings higher limits; a tenant without limits never waits and has no ledger."""
    async with _working(client, tmp_path, TenantLimits(sessions=1)) as (opened, held, first):
        second = await _queued(opened)
        other = await opened.chargehand.start(_asking("1").model_copy(update={"tenant": "other"}))
        held.released.set()
        await other.result()
        await _announce(opened, tmp_path, TenantLimits(sessions=2))
        await asyncio.gather(first.result(), second.result())
        usage = await _usage(opened)
        query = f"WorkflowType = 'Tenant' AND TaskQueue = '{opened.chargehand.task_queue}'"
        found = [each.id async for each in client.list_workflows(query)]

    assert usage.limits.sessions == 2
    assert found == [_ledger(opened).id]


@pytest.mark.parametrize("loss", [pytest.param("vanished", marks=pytest.mark.slow), "reset", "forged"])
async def test_a_lost_ledger_is_recounted_to_the_same_figures(client: Client, tmp_path: Path, loss: str) -> None:
    """Spent and reserved amounts are the same, including sessions whose history is gone."""
    held = _held()
    async with _allowing(client, tmp_path, held, TenantLimits(usd_per_day=Decimal(5))) as opened:
        held.released.set()
        ended = [await opened.run(_asking("1")) for _ in range(2)]
        limits = ConversationLimits(budget_usd=Decimal(1))
        talk = await opened.chargehand.converse(crew="research", tenant="acme", limits=limits)
        await talk.say(text="Hello")
        runs = await opened.start(_asking("1", approval="plan"), until="awaiting_approval")
        await runs.raise_limits(budget_usd=Decimal(2))
        before = await _usage(opened)
        if loss == "vanished":
            await delete_workflow(client, WorkflowExecution(workflow_id=ended[0].session))
        await _lose(client, before, _ledger(opened).id, loss)
        waits = await _queued(opened, "2.5")
        after = await eventually(lambda: _usage(opened), lambda usage: bool(usage.queued and usage.running))
        await runs.decide_plan(decision="approve")
        reports = [await runs.result(), await waits.result()]
        last = await _running(opened, talk.id)

    assert (before.spent_usd > 0, before.reserved_usd) == (True, Decimal(3))
    assert (after.spent_usd, after.reserved_usd) == (before.spent_usd, before.reserved_usd)
    assert set(after.running) == set(before.running)
    assert last.spent_usd == before.spent_usd + sum(each.usage.cost_usd for each in reports)


async def _lose(client: Client, usage: TenantUsage, ledger: str, loss: str) -> None:
    if loss == "reset":
        asked = ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=ledger),
            request_id=loss,
            workflow_task_finish_event_id=4,
        )
        await client.workflow_service.reset_workflow_execution(asked)
        return
    await _terminate(client, ledger)
    if loss == "forged":
        nothing = TenantLedger(day=usage.day)
        forged = LedgerRequest(tenant="acme", limits=TenantLimits(), state=nothing)
        queue = ledger.split("/")[1]
        await client.start_workflow("Tenant", forged, id=ledger, task_queue=queue)


async def test_forged_signals_charge_no_tenant(client: Client, tmp_path: Path) -> None:
    """Ends and requests in the name of other or no sessions are not charged and delay nobody."""
    async with _working(client, tmp_path, TenantLimits(sessions=1, usd_per_day=Decimal(5))) as (opened, held, runs):
        other = await opened.chargehand.start(_asking("1", approval="plan").model_copy(update={"tenant": "other"}))
        run = (await describe(client, runs.id)).workflow_execution_info.first_run_id
        foreign = (await describe(client, other.id)).workflow_execution_info.first_run_id
        spent, asked = Decimal(3), partial(AdmissionRequest, usd=Decimal("0.5"), priority=1)
        for sender, body in (
            (runs.id, Leaving(key="never", spent_usd=spent)),
            (other.id, Leaving(key=run, spent_usd=spent)),
            (other.id, Idling(key=run, is_idle=True)),
            (other.id, AdmissionRequest(key=run, usd=Decimal(4), is_larger=True)),
            ("nowhere", asked(key="nothing")),
            (other.id, asked(key=foreign)),
            (other.id, asked(key="unknown")),
        ):
            envelope = Envelope(sender=sender, number=1, token=uuid4().hex, body=body)
            await _ledger(opened).signal(SignalName.MAILBOX, envelope)
        waits = await _queued(opened)
        before = await _usage(opened)
        held.released.set()
        reports = await asyncio.wait_for(asyncio.gather(runs.result(), waits.result()), 120)
        after = await _running(opened)

    assert (before.spent_usd, before.reserved_usd, before.running) == (Decimal(0), Decimal(1), (runs.id,))
    assert after.spent_usd == sum(each.usage.cost_usd for each in reports)
