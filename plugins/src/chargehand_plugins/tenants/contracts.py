"""Messages between tenants' ledgers and their activities."""

from datetime import date, datetime
from typing import Annotated

from pydantic import StringConstraints

from activities.contracts.session import LEDGER_PREFIX
from chargehand.contracts import Contract, Dollars, left_out
from chargehand.contracts.base import Name

_Key = Annotated[str, StringConstraints(min_length=1, max_length=100)]


def ledger_id(task_queue: str, tenant: str) -> str:
    return f"{LEDGER_PREFIX}{task_queue}/{tenant}"


class Entry(Contract):
    """A session in a ledger; see `ledger.py`."""

    key: str
    """The run that opened the session, since an id can be reused."""
    session: str
    usd: Dollars
    """Its budget."""
    priority: int
    since: datetime
    """When it requested admission or, if running, when it was admitted."""
    number: int = left_out(1)
    """Number of the request that is waiting for admission."""
    token: str = left_out("")
    is_idle: bool = left_out(False)
    """Whether it is an idle conversation, which runs without occupying a place."""

    @property
    def sender(self) -> str:
        """The session, which receives the reply."""
        return self.session


class EndedQuery(Contract):
    """Finds sessions that ended without notifying their ledger, for instance by termination or timeout."""

    tenant: Name
    sessions: tuple[Entry, ...]


class EndedSession(Contract):
    key: str
    spent_usd: Dollars
    """Its maximum spend."""


class EndedSessions(Contract):
    ended: tuple[EndedSession, ...] = ()


class CountQuery(Contract):
    """Counts a tenant's spend on a day and its running sessions, from the record and histories."""

    tenant: Name
    day: date
    keys: tuple[_Key, ...]
    """Keys of the sessions known to the ledger."""


class Count(Contract):
    spent_usd: Dollars
    """Maximum spend of ended sessions on that day."""
    running: tuple[Entry, ...] = ()
    ended: tuple[_Key, ...] = ()
    """Known sessions whose spend is included."""
