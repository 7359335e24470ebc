"""What an operator allows a tenant, how much of it is used, and how a client reads that."""

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
_PATIENCE: Final = timedelta(seconds=10)


class TenantLimits(TypedByPeople):
    """Limits of one tenant, over all its sessions. A limit that is absent does not apply."""

    sessions: Annotated[int, Field(strict=True, ge=1, le=5_000)] | None = None
    """Sessions that run at the same time; further ones wait in order (1 to 5,000)."""
    sessions_per_minute: Annotated[int, Field(strict=True, ge=1, le=1_000)] | None = None
    """Sessions that begin within any minute; further ones wait in order (1 to 1,000)."""
    usd_per_day: Annotated[Dollars, Field(gt=0)] | None = None
    """US dollars that its sessions may spend on models on one day in UTC. A running session counts with its budget."""
    weight: Annotated[float, Field(ge=0.001, le=1_000, allow_inf_nan=False)] = 1.0
    """The tenant's share of a backlog, beside the shares of other tenants (0.001 to 1,000)."""

    @property
    def need_ledger(self) -> bool:
        return (self.sessions, self.sessions_per_minute, self.usd_per_day) != (None, None, None)


class QueuedSession(Contract):
    """A session that waits for its turn among those of its tenant."""

    session: str
    """The session's id."""
    budget_usd: Dollars
    """Its budget, which is reserved once it begins."""
    priority: int
    """Order of the queue, 1 (first) to 5 (last); sessions of one priority are in the order in which they came."""
    since: datetime
    """When it began to wait."""


class TenantUsage(Contract):
    """How much of its limits a tenant uses."""

    tenant: str
    """The tenant's name."""
    limits: TenantLimits = TenantLimits()
    """As the operator has set them."""
    running: tuple[str, ...] = ()
    """Ids of the sessions that run."""
    queued: tuple[QueuedSession, ...] = ()
    """Sessions that wait, the next one first."""
    day: date
    """The day in UTC that the amounts below are of."""
    spent_usd: Dollars = Decimal(0)
    """What sessions that have ended spent."""
    reserved_usd: Dollars = Decimal(0)
    """The budgets of the sessions that run."""


async def tenant_usage(chargehand: Chargehand) -> tuple[TenantUsage, ...]:
    """Read how much of their limits tenants use, by name: those with limits of which a session has run today.

    Raises:
        NotReachable: no worker answers.
    """
    client, task_queue = chargehand.client, chargehand.task_queue
    query = f"WorkflowType = '{WorkflowType.TENANT}' AND TaskQueue = '{task_queue}' AND {OPEN}"
    found: list[TenantUsage] = []
    with translated(""):
        try:
            async for execution in list_executions(client, query):
                ledger = client.get_workflow_handle(execution.execution.workflow_id)
                found.append(await ledger.query(USAGE, result_type=TenantUsage, rpc_timeout=_PATIENCE))
        except RPCError as error:
            if error.status is not RPCStatusCode.FAILED_PRECONDITION:
                raise
            raise NotReachable(
                f"No worker polls the task queue '{task_queue}', so the ledgers of tenants cannot answer. Start a "
                "worker; `chargehand doctor` shows those that run."
            ) from error
    return tuple(sorted(found, key=lambda each: each.tenant))
