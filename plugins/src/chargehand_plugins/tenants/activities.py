"""The ledgers of tenants as workers see them, and the activity that looks for sessions on their behalf."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from activities.contracts.session import AdmissionTerms, SessionFacts
from chargehand.contracts import SessionRequest, Step
from chargehand.history.tree import read_trace
from chargehand.visibility import OPEN, describe, is_open, list_executions
from chargehand.wire import ActivityType, SignalName, WorkflowType
from chargehand_plugins.tenants.contracts import (
    EndedQuery,
    EndedSession,
    EndedSessions,
    Entry,
    LedgerRequest,
    ledger_id,
)
from chargehand_plugins.tenants.file import Tenants

_MOST_AT_ONCE: Final = 8
_WORKFLOWS: Final = frozenset({"session", "subtask"})
_SUMMARY: Final = "ledger of a tenant"
_LOOK_SECONDS: Final = 60.0
"""What was not found by then is looked for again: well below the time of the activity."""


@dataclass(frozen=True)
class Ledgers:
    """The ledgers of tenants: workflows on one task queue, which start when they are needed."""

    tenants: Tenants
    task_queue: str

    def check(self, request: SessionRequest) -> list[str]:
        return self.tenants.problems(request.tenant)

    async def admit(self, request: SessionRequest, facts: SessionFacts) -> SessionFacts:
        """Note the share of the session's tenant, and the ledger that admits the session."""
        weight = self.tenants.limits_of(request.tenant).weight
        return facts.model_copy(update={"weight": weight, "admission": await self._open(request)})

    async def announce_limits(self, client: Client) -> None:
        """Tell the ledgers that run what the file says, for sessions that already wait.

        Raises:
            RPCError: the server does not answer.
        """
        prefix = ledger_id(self.task_queue, "")
        query = f"WorkflowType = '{WorkflowType.TENANT}' AND TaskQueue = '{self.task_queue}' AND {OPEN}"
        async for found in list_executions(client, query):
            name = found.execution.workflow_id
            if name.startswith(prefix):
                handle = client.get_workflow_handle(name)
                try:
                    await handle.signal(SignalName.SET_LIMITS, self.tenants.limits_of(name.removeprefix(prefix)))
                except RPCError as error:
                    if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended meanwhile
                        raise

    async def _open(self, request: SessionRequest) -> AdmissionTerms | None:
        """Have the ledger of the running session's tenant run, for the session to ask; None without limits."""
        limits = self.tenants.limits_of(request.tenant)
        info = activity.info()
        if not limits.need_ledger or request.delegation is not None or not info.workflow_id:
            return None
        terms = AdmissionTerms(ledger=ledger_id(self.task_queue, request.tenant), key=info.workflow_run_id or "")
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


class TenantActivities:
    """Looks after sessions that cannot tell their ledger that they have ended."""

    @activity.defn(name=ActivityType.FIND_ENDED)
    async def find_ended(self, query: EndedQuery) -> EndedSessions:
        """Find out which sessions have ended, and what they have spent at most."""
        client, at_once = activity.client(), asyncio.Semaphore(_MOST_AT_ONCE)
        ended: list[EndedSession] = []

        async def look(entry: Entry) -> None:
            async with at_once:
                if found := await _end_of(client, entry):
                    ended.append(found)

        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await asyncio.gather(*map(look, query.sessions))
        return EndedSessions(ended=tuple(ended))


async def _end_of(client: Client, entry: Entry) -> EndedSession | None:
    """Return what an ended session has spent; its whole budget if that is unknown. None while any part of it runs."""
    try:
        described = await describe(client, entry.session)
        if is_open(described.workflow_execution_info):
            return None
        steps = (await read_trace(client, entry.session)).steps
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return EndedSession(key=entry.key, spent_usd=entry.usd)  # its history was deleted
    if any(step.kind in _WORKFLOWS and step.state == "running" for step in steps):
        return None
    # The history of a terminated workflow does not tell a call under way from one that no worker has begun.
    turns = [step for step in steps if step.kind == "turn"]
    is_known = all(map(_is_billed, turns))
    spent = sum((step.usage.cost_usd for step in turns), Decimal(0))
    return EndedSession(key=entry.key, spent_usd=spent if is_known else max(spent, entry.usd))


def _is_billed(turn: Step) -> bool:
    """Whether it is known what a turn has cost: the provider said so, and no attempt at it was lost."""
    return turn.state == "completed" and turn.attempts == 1 and turn.usage.input_tokens > 0
