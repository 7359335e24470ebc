"""What the ledgers of tenants and their activities exchange."""

from datetime import date, datetime
from typing import Annotated

from pydantic import StringConstraints

from activities.contracts.session import LEDGER_PREFIX
from chargehand.contracts import Contract, Dollars, left_out
from chargehand.contracts.base import Name
from chargehand_plugins.tenants.usage import TenantLimits

_Key = Annotated[str, StringConstraints(min_length=1, max_length=100)]


def ledger_id(task_queue: str, tenant: str) -> str:
    return f"{LEDGER_PREFIX}{task_queue}/{tenant}"


class Entry(Contract):
    """A session in a ledger; see `ledger.py`."""

    key: str
    """The run that opened the session: an id may be used again."""
    session: str
    usd: Dollars
    """Its budget."""
    priority: int
    since: datetime
    """When it asked, and once it runs, when it was admitted."""
    number: int = left_out(1)
    """Of the request that waits for its admission."""
    token: str = left_out("")
    is_idle: bool = left_out(False)
    """Whether it is a conversation that waits for its user: it runs, and takes no place."""

    @property
    def sender(self) -> str:
        """The session, to which the reply goes."""
        return self.session


class LedgerState(Contract):
    """What a ledger knows, when it goes on in a new run."""

    day: date
    spent_usd: Dollars
    running: tuple[Entry, ...] = ()
    queue: tuple[Entry, ...] = ()
    begun: tuple[datetime, ...] = ()
    is_doubtful: bool = left_out(False)
    """Whether it has to be counted anew."""


class LedgerRequest(Contract):
    """Keep the ledger of a tenant."""

    tenant: Name
    limits: TenantLimits
    state: LedgerState | None = left_out(None)
    """Set by a ledger that goes on in a new run."""


class EndedQuery(Contract):
    """Find out which sessions have ended without telling their ledger: they were terminated, or timed out."""

    tenant: Name
    sessions: tuple[Entry, ...]


class EndedSession(Contract):
    key: str
    spent_usd: Dollars
    """What it has spent at most."""


class EndedSessions(Contract):
    ended: tuple[EndedSession, ...] = ()


class CountQuery(Contract):
    """Count from the record and from histories what a tenant's sessions have spent on a day, and which run."""

    tenant: Name
    day: date
    keys: tuple[_Key, ...]
    """Of the sessions that the ledger knows."""


class Count(Contract):
    spent_usd: Dollars
    """What sessions that have ended spent on that day, at most."""
    running: tuple[Entry, ...] = ()
    ended: tuple[_Key, ...] = ()
    """Of the sessions that the ledger knows, those whose spending is counted."""
