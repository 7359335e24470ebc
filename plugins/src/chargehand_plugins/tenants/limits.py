"""Limits of tenants, their usage, and how a client reads it."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Final

from pydantic import Field
from temporalio.service import RPCError, RPCStatusCode

from chargehand import Chargehand, NotReachable
from chargehand.contracts import Contract, Dollars, TypedByPeople
from chargehand.temporal_errors import translated
from chargehand.visibility import OPEN, list_executions
from chargehand.wire import WorkflowType

USAGE: Final = "usage"
"""The query of a ledger."""
MOST_SESSIONS: Final = 5_000
"""Maximum running and waiting sessions of a ledger, which must fit into one payload when continuing as new."""
_PATIENCE: Final = timedelta(seconds=10)


class TenantLimits(TypedByPeople):
    """Limits of one tenant over all its sessions. An absent limit does not apply."""

    sessions: Annotated[int, Field(strict=True, ge=1, le=MOST_SESSIONS)] | None = None
    """Maximum concurrent sessions; further ones wait in order (1 to 5,000)."""
    sessions_per_minute: Annotated[int, Field(strict=True, ge=1, le=1_000)] | None = None
    """Maximum session starts per minute; further ones wait in order (1 to 1,000)."""
    usd_per_day: Annotated[Dollars, Field(gt=0)] | None = None
    """US dollars that its sessions may spend on models per UTC day. A running session counts with its whole budget."""
    weight: Annotated[float, Field(ge=0.001, le=1_000, allow_inf_nan=False)] = 1.0
    """The tenant's weight in a backlog, relative to other tenants (0.001 to 1,000)."""

    @property
    def need_ledger(self) -> bool:
        return (self.sessions, self.sessions_per_minute, self.usd_per_day) != (None, None, None)


class QueuedSession(Contract):
    """A session that waits for admission."""

    session: str
    """The session's id."""
    budget_usd: Dollars
    """Its budget, reserved on admission."""
    priority: int
    """Order in the queue, 1 (first) to 5 (last); equal priorities are in order of arrival."""
    since: datetime
    """When it started to wait."""


class TenantUsage(Contract):
    """A tenant's usage of its limits."""

    tenant: str
    """The tenant's name."""
    limits: TenantLimits = TenantLimits()
    """The limits set by the operator."""
    running: tuple[str, ...] = ()
    """Ids of running sessions."""
    queued: tuple[QueuedSession, ...] = ()
    """Waiting sessions, next one first."""
    day: date
    """The day in UTC of the amounts below."""
    spent_usd: Dollars = Decimal(0)
    """Spend of ended sessions."""
    reserved_usd: Dollars = Decimal(0)
    """The total budget of running sessions."""


async def tenant_usage(chargehand: Chargehand) -> tuple[TenantUsage, ...]:
    """Read the usage of tenants by name: those with limits that have run a session today.

    Raises:
        NotReachable: no worker answers.
    """
    client, task_queue = chargehand.client, chargehand.task_queue
    query = f"WorkflowType = '{WorkflowType.TENANT}' AND TaskQueue = '{task_queue}' AND {OPEN}"
    usages: list[TenantUsage] = []
    with translated(""):
        try:
            async for execution in list_executions(client, query):
                ledger = client.get_workflow_handle(execution.execution.workflow_id)
                usages.append(await ledger.query(USAGE, result_type=TenantUsage, rpc_timeout=_PATIENCE))
        except RPCError as error:
            if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                raise
            raise NotReachable(
                f"No worker polls the task queue '{task_queue}', so the ledgers of tenants cannot answer. Start a "
                "worker; `chargehand doctor` shows those that run."
            ) from error
    return tuple(sorted(usages, key=lambda each: each.tenant))
