"""Lists of sessions, and what they cost by day and tenant, from what Temporal's list of workflows holds of each."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel

from chargehand import InvalidInput, SessionSummary
from chargehand.contracts.base import Dollars
from chargehand.state_words import Standing
from chargehand_cli.rendering.text import dollars
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.words import words

PAGE: Final = 100
"""Rows of a page."""
MOST_COUNTED: Final = 10_000
SPEND_DAYS: Final = 30
_AT_ONCE: Final = 200
"""Sessions that match, asked for by their ids."""


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
    before: str = ""
    """The start of the last row of the page before."""


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


async def search_rows(backend: Backend, search: Search, most: int = PAGE) -> list[Row]:
    """List the newest sessions that match: filters are the server's, words are looked up in goals and ids.

    Raises:
        InvalidInput: a filter cannot be used.
    """
    filters: dict[str, Any] = {name: getattr(search, name) or None for name in ("state", "crew", "tenant")}
    if search.before:
        filters["before"] = _time(search.before)
    words = search.q.casefold().split()
    if not words:
        return [_row(each) async for each in backend.list(most, **filters)]
    rows: list[Row] = []
    found = await backend.known.find(backend.list, words)
    for first in range(0, len(found), _AT_ONCE):
        ids = found[first : first + _AT_ONCE]
        rows += [_row(each) async for each in backend.list(most - len(rows), ids=ids, **filters)]
        if len(rows) == most:
            break
    return rows


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("before: must be a time such as 2026-11-23T12:00:00+00:00") from None


def _row(summary: SessionSummary) -> Row:
    facts = [
        words("sessions", "waits_for", waiting_for=summary.waiting_for) if summary.waiting_for else "",
        summary.failure.cause if summary.failure else "",
        summary.crew,
        summary.tenant if summary.tenant != "default" else "",
        _cost(summary),
    ]
    return Row(
        href=f"/sessions/{quote(summary.id, safe='')}",
        title=summary.goal or summary.id,
        standing=summary.standing,
        facts=tuple(fact for fact in facts if fact),
        started_at=summary.started_at,
    )


def _cost(summary: SessionSummary) -> str:
    if summary.cost_usd is None:
        return ""
    return dollars(summary.cost_usd) if summary.is_cost_final else f"≥ {dollars(summary.cost_usd)}"


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
