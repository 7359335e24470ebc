"""Lists of sessions and their cost by day and tenant, from Temporal's list of workflows."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel

from chargehand import InvalidInput, SessionSummary
from chargehand.contracts.base import Dollars
from chargehand.state_words import STOP_REMEDIES
from chargehand_cli.rendering.text import dollars
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.words import words

PAGE: Final = 100
"""Rows per page."""
MOST_COUNTED: Final = 10_000
SPEND_DAYS: Final = 30
_AT_ONCE: Final = 200
"""Number of matching sessions requested by id at once."""


@dataclass(frozen=True)
class Search:
    """Search criteria; empty ones match everything."""

    q: str = ""
    state: str = ""
    crew: str = ""
    tenant: str = ""
    before: str = ""
    """The start time of the previous page's last row."""


class Spend(BaseModel):
    """The cost of the sessions of one day and tenant."""

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


async def search_rows(backend: Backend, search: Search, most: int = PAGE) -> list[SessionSummary]:
    """List the newest matching sessions: the server filters, and words are searched in goals and ids.

    Raises:
        InvalidInput: a filter is invalid.
    """
    filters: dict[str, Any] = {name: getattr(search, name) or None for name in ("state", "crew", "tenant")}
    if search.before:
        filters["before"] = _time(search.before)
    words = search.q.casefold().split()
    if not words:
        return [each async for each in backend.list(most, **filters)]
    rows: list[SessionSummary] = []
    matches = await backend.known.find(backend.list, words)
    for first in range(0, len(matches), _AT_ONCE):
        ids = matches[first : first + _AT_ONCE]
        rows += [each async for each in backend.list(most - len(rows), ids=ids, **filters)]
        if len(rows) == most:
            break
    return rows


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("before: must be a time such as 2026-11-23T12:00:00+00:00") from None


def row_facts(summary: SessionSummary) -> list[str]:
    """List the facts in a session's row other than its goal, state and start."""
    facts = [
        words("sessions", "waits_for", waiting_for=summary.waiting_for) if summary.waiting_for else "",
        summary.failure.cause if summary.failure else STOP_REMEDIES.get(summary.stop_reason, ""),
        summary.crew,
        summary.tenant if summary.tenant != "default" else "",
        _cost(summary),
    ]
    return [fact for fact in facts if fact]


def _cost(summary: SessionSummary) -> str:
    if summary.cost_usd is None:
        return ""
    return dollars(summary.cost_usd) if summary.is_cost_final else f"≥ {dollars(summary.cost_usd)}"


async def spend_rows(backend: Backend) -> tuple[list[Spend], Spend]:
    """Add up the cost of sessions by start day and tenant, newest day first."""
    since = datetime.now(UTC) - timedelta(days=SPEND_DAYS)
    rows: dict[tuple[str, str], Spend] = {}
    total = Spend()
    async for each in backend.list(MOST_COUNTED, since=since):
        key = (f"{each.started_at:%Y-%m-%d}", each.tenant or "unknown")
        for sum_ in (rows.setdefault(key, Spend(day=key[0], tenant=key[1])), total):
            sum_.add(each)
    return sorted(rows.values(), key=lambda row: (row.day, row.dollars), reverse=True), total
