"""What sessions, the ledgers of their tenants and the activities of both exchange."""

from datetime import date, datetime
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from chargehand.contracts import Contract, Dollars, Message, TenantLimits, left_out
from chargehand.contracts.base import Name

LEDGER_PREFIX: Final = "chargehand-tenant/"
"""The workflow ids of ledgers begin so, those of sessions must not."""
_Key = Annotated[str, StringConstraints(min_length=1, max_length=100)]
_Session = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


def ledger_id(task_queue: str, tenant: str) -> str:
    """Build the workflow id of a tenant's ledger."""
    return f"{LEDGER_PREFIX}{task_queue}/{tenant}"


class AdmissionTerms(Contract):
    """Where a session waits to be admitted."""

    ledger: str
    """Workflow id of its tenant's ledger."""
    key: str
    """The run that opened the session, by which the ledger knows it, in later runs too."""


class AdmissionRequest(Message):
    """A session asks to begin, or, once it runs, for a larger budget."""

    session: _Session
    key: _Key
    usd: Dollars
    """Its whole budget."""
    priority: Annotated[int, Field(ge=1, le=5)] = 3
    limits: TenantLimits | None = left_out(None)
    """Those of the tenant, as the worker that opened the session knows them."""
    is_larger: bool = left_out(False)
    """Whether it runs and asks for a larger budget."""


class Admission(Message):
    """The ledger's answer: the session may begin or has the larger budget, unless it is told why not."""

    key: _Key
    usd: Dollars
    refusal: str = left_out("")
    """Why not, and what to do; empty if it may."""


class Leaving(Message):
    """A session has ended, or will not begin."""

    key: _Key
    spent_usd: Dollars
    """All that it has spent."""


class EntryState(Contract):
    """A session in a ledger; see `workflows.budget.tenant_ledger`."""

    key: str
    session: str
    usd: Dollars
    priority: int
    since: datetime


class LedgerState(Contract):
    """What a ledger knows, when it goes on in a new run."""

    day: date
    spent_usd: Dollars
    running: tuple[EntryState, ...] = ()
    queue: tuple[EntryState, ...] = ()
    begun: tuple[datetime, ...] = ()


class LedgerRequest(Contract):
    """Keep the ledger of a tenant."""

    tenant: Name
    limits: TenantLimits
    state: LedgerState | None = left_out(None)
    """Set by a ledger that goes on in a new run."""


class EndedQuery(Contract):
    """Find out which sessions have ended without telling their ledger: they were terminated, or timed out."""

    sessions: tuple[EntryState, ...]


class EndedSessions(Contract):
    """Those that have ended, with what they have spent at most."""

    ended: tuple[Leaving, ...] = ()
