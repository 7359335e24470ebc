"""Lists of sessions, and what they cost by day and tenant, from what Temporal's list of workflows holds of each."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final
from urllib.parse import quote

from pydantic import BaseModel

from chargehand import SessionSummary
from chargehand.contracts.base import Dollars
from chargehand.state_words import Standing
from chargehand_cli.rendering.text import dollars
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.words import words

MOST_SEARCHED: Final = 1_000
MOST_COUNTED: Final = 10_000
SPEND_DAYS: Final = 30


@dataclass(frozen=True)
class Row:
    href: str
    title: str
    standing: Standing
    facts: tuple[str, ...]
    started_at: datetime


@dataclass(frozen=True)
class Search:
    """What to look for; empty is anything."""

    q: str = ""
    state: str = ""
    crew: str = ""
    tenant: str = ""


class Spend(BaseModel):
    """What the sessions of one day and tenant cost."""

    day: str = ""
    """The day on which they started, in UTC."""
    tenant: str = ""
    sessions: int = 0
    turns: int = 0
    dollars: Dollars = Decimal(0)

    def add(self, session: SessionSummary) -> None:
        self.sessions += 1
        self.turns += session.turns or 0
        self.dollars += Decimal(str(session.cost_usd or 0))


async def search_rows(backend: Backend, search: Search, most: int = MOST_SEARCHED) -> list[Row]:
    """List the sessions that match: filters are the server's, words are looked up in goals and ids."""
    found = backend.list(most, state=search.state or None, crew=search.crew or None, tenant=search.tenant or None)
    words = search.q.casefold().split()
    return [_row(each) async for each in found if all(word in f"{each.goal} {each.id}".casefold() for word in words)]


def _row(summary: SessionSummary) -> Row:
    facts = [
        words("sessions", "waits_for", waiting_for=summary.waiting_for) if summary.waiting_for else "",
        summary.failure.cause if summary.failure else "",
        summary.crew,
        summary.tenant if summary.tenant != "default" else "",
        dollars(summary.cost_usd) if summary.cost_usd is not None else "",
    ]
    return Row(
        href=f"/sessions/{quote(summary.id, safe='')}",
        title=summary.goal or summary.id,
        standing=summary.standing,
        facts=tuple(fact for fact in facts if fact),
        started_at=summary.started_at,
    )


async def spend_rows(backend: Backend) -> tuple[list[Spend], Spend]:
    """Add up what sessions cost, by the day on which they started and by tenant, the newest day first."""
    since = datetime.now(UTC) - timedelta(days=SPEND_DAYS)
    rows: dict[tuple[str, str], Spend] = {}
    total = Spend()
    async for each in backend.list(MOST_COUNTED, since=since):
        key = (f"{each.started_at:%Y-%m-%d}", each.tenant or "unknown")
        for sum_ in (rows.setdefault(key, Spend(day=key[0], tenant=key[1])), total):
            sum_.add(each)
    return sorted(rows.values(), key=lambda row: (row.day, row.dollars), reverse=True), total
