"""The ledger of a tenant, when what it looks for and what it is told come together."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from uuid import uuid4

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from chargehand.wire import ActivityType, SignalName
from chargehand_plugins.tenants.contracts import EndedQuery, EndedSession, EndedSessions, LedgerRequest
from chargehand_plugins.tenants.usage import USAGE, TenantLimits, TenantUsage
from chargehand_plugins.tenants.workflow import TenantWorkflow
from tests.waiting import until
from workflows.mailbox.contracts import AdmissionRequest, Envelope, Leaving
from workflows.registry import workflow_runner

_LIMITS = TenantLimits(sessions=1)
_Ledger = WorkflowHandle[TenantWorkflow, None]
_Find = Callable[[EndedQuery], Awaitable[EndedSessions]]


@asynccontextmanager
async def _ledger(client: Client, find: _Find) -> AsyncGenerator[_Ledger]:
    """Run a ledger that looks for ended sessions in this way; sessions that it cannot tell are looked for at once."""

    @activity.defn(name=ActivityType.FIND_ENDED)
    async def find_ended(query: EndedQuery) -> EndedSessions:
        return await find(query)

    queue = f"test-{uuid4().hex[:8]}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[TenantWorkflow],
        activities=[find_ended],
        workflow_runner=workflow_runner(),
    ):
        ledger = await client.start_workflow(
            TenantWorkflow.run, LedgerRequest(tenant="acme", limits=_LIMITS), id=f"{queue}/acme", task_queue=queue
        )
        yield ledger
        await ledger.terminate()


async def _ask(ledger: _Ledger, key: str) -> None:
    await _send(ledger, key, AdmissionRequest(key=key, usd=Decimal(1)))


async def _send(ledger: _Ledger, key: str, body: AdmissionRequest | Leaving) -> None:
    token = f"{key} {body.kind}"
    await ledger.signal(SignalName.MAILBOX, Envelope(sender=f"{ledger.id}/{key}", number=1, token=token, body=body))


async def test_a_session_is_charged_once_however_the_ledger_learns_its_end(client: Client) -> None:
    """A session that tells what it spent while it is looked for is not charged again by what was found."""
    spent = Decimal("0.5")

    async def find(_: EndedQuery) -> EndedSessions:
        await _send(ledger, "a", Leaving(key="a", spent_usd=spent))
        return EndedSessions(ended=(EndedSession(key="a", spent_usd=spent),))

    async with _ledger(client, find) as ledger:
        await _ask(ledger, "a")

        async def has_left() -> bool:
            return not (await _usage(ledger)).running and (await _usage(ledger)).spent_usd > 0

        await until(has_left)
        usage = await _usage(ledger)

    assert usage.spent_usd == spent


async def test_a_busy_ledger_still_looks_for_ended_sessions(client: Client) -> None:
    """However often it is told something, it looks at those that run while others wait for them."""
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

        await asyncio.wait_for(until(has_looked_again), 30)


async def _usage(ledger: _Ledger) -> TenantUsage:
    return await ledger.query(USAGE, result_type=TenantUsage)
