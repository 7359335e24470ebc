"""The ledger of a tenant, pure: running and waiting sessions, and their spend per day.

At any moment, today's spend of ended sessions plus the budgets of running ones is at most the dollars per
day. The budget of a session that runs past midnight counts on both days, since it can be spent on either.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Final

from pydantic import PrivateAttr

from chargehand.contracts import Contract, Dollars, left_out
from chargehand.contracts.base import Name
from chargehand_plugins.tenants.contracts import Count, Entry
from chargehand_plugins.tenants.limits import MOST_SESSIONS, QueuedSession, TenantLimits
from workflows.carried import Carried

_MINUTE: Final = timedelta(minutes=1)


class TenantLedger(Carried):
    """Admits sessions within the limits of one tenant, by priority and order of arrival."""

    day: date
    limits: TenantLimits = TenantLimits()
    spent: Dollars = Decimal(0)
    running: dict[str, Entry] = {}
    """Running sessions by key."""
    queue: dict[str, Entry] = {}
    """Waiting sessions by key, in order of arrival."""
    begun: list[datetime] = []
    """Admission times within the last minute, oldest first."""
    is_doubtful: bool = True
    """Whether more may have been spent than is known here, so that it has to be recounted."""
    _keys: dict[str, str] = PrivateAttr(default_factory=dict[str, str])
    """Keys by session id."""

    def model_post_init(self, _: object) -> None:
        self._keys = {entry.session: entry.key for entry in (*self.running.values(), *self.queue.values())}

    @property
    def reserved(self) -> Decimal:
        """Total budget of running sessions."""
        return sum((entry.usd for entry in self.running.values()), Decimal(0))

    @property
    def is_idle(self) -> bool:
        """Whether the ledger can be dropped at the end of the day."""
        return not self.running and not self.queue

    @property
    def waiting(self) -> list[Entry]:
        """Waiting sessions, next one first."""
        return sorted(self.queue.values(), key=lambda entry: entry.priority)

    def begin_day(self, today: date) -> None:
        """Begin another day; the clock never goes back."""
        if today > self.day:
            self.day, self.spent = today, Decimal(0)

    def use(self, limits: TenantLimits) -> None:
        self.limits = limits

    def ask(self, entry: Entry) -> str:
        """Queue a session unless it already runs or waits; return why it is refused, or an empty text.

        Its id belongs to one open run: an earlier run with the same id has ended and may have spent its whole budget.
        """
        for entries in (self.running, self.queue):
            if known := entries.get(entry.key):
                # It waits only for the reply to its latest request.
                entries[entry.key] = known.model_copy(update={"number": entry.number, "token": entry.token})
                return ""
        if earlier := self._keys.get(entry.session):
            self.leave(earlier, self.running[earlier].usd if earlier in self.running else Decimal(0))
        if len(self.running) + len(self.queue) >= MOST_SESSIONS:
            return f"{MOST_SESSIONS:,} of its sessions run or wait, the most there can be; start it again later"
        self.queue[entry.key] = entry
        self._keys[entry.session] = entry.key
        return ""

    def admit(self, now: datetime) -> Entry | None:
        """Admit the next session if possible; None if it has to wait or none is waiting."""
        entry = next(iter(self.waiting), None)
        if entry is None or not self._has_room(now) or not self._covers(entry.usd):
            return None
        del self.queue[entry.key]
        self.running[entry.key] = entry
        if self.limits.sessions_per_minute is not None:
            self.begun.append(now)
        return entry

    def refuse(self) -> list[tuple[Entry, str]]:
        """Remove sessions that cannot possibly start today; return them with reasons."""
        refused = [(entry, problem) for entry in self.waiting if (problem := self._problem(entry.usd))]
        for entry, _ in refused:
            self._remove(entry.key)
        return refused

    def enlarge(self, key: str, usd: Decimal) -> str:
        """Raise the budget of a running session to an amount; return why it is refused, or an empty text."""
        entry = self.running.get(key)
        if entry is None:
            return "the session is not in the ledger of its tenant; start another session"
        missing = usd - entry.usd
        if missing > 0 and not self._covers(missing):
            free = self._left - self.reserved
            return (
                f"budget_usd: of the tenant's {_dollars(self.limits.usd_per_day)} a day, {_dollars(free)} is neither "
                f"spent nor reserved; raise it to at most {_dollars(entry.usd + free)}, or wait until other sessions "
                "have ended"
            )
        self.running[key] = entry.model_copy(update={"usd": max(usd, entry.usd)})
        return ""

    def idle(self, key: str, *, is_idle: bool) -> None:
        """Free the place of an idle conversation, or take it again immediately, because a person is waiting."""
        if entry := self.running.get(key):
            self.running[key] = entry.model_copy(update={"is_idle": is_idle})

    def leave(self, key: str, spent: Decimal) -> None:
        """End a session: count its spend, and free the rest of its budget. Without a place, it has no spend."""
        if key in self.running:
            self.spent += spent
        self._remove(key)

    def place(self, key: str) -> Entry | None:
        """Find a running or waiting session."""
        return self.running.get(key) or self.queue.get(key)

    def correct(self, count: Count) -> None:
        """Apply a recount; sessions not mentioned are unchanged."""
        for key in count.ended:
            self._remove(key)
        self.spent = count.spent_usd
        for entry in count.running:
            known = self.running.get(entry.key)
            usd = entry.usd if known is None else max(entry.usd, known.usd)
            self._remove(entry.key)
            self.running[entry.key] = (known or entry).model_copy(update={"usd": usd})
            self._keys[entry.session] = entry.key

    def next_change(self, now: datetime) -> datetime:
        """Return the next time at which a session can be admitted or a day begins without any message."""
        midnight = datetime.combine(self.day + timedelta(days=1), datetime.min.time(), now.tzinfo)
        if self.queue and not self._is_slow_enough(now):
            return min(midnight, self.begun[0] + _MINUTE)
        return midnight

    def queued(self) -> Iterable[QueuedSession]:
        """Describe the queue for people."""
        return (
            QueuedSession(session=each.session, budget_usd=each.usd, priority=each.priority, since=each.since)
            for each in self.waiting
        )

    def _remove(self, key: str) -> None:
        entry = self.queue.pop(key, None) or self.running.pop(key, None)
        if entry is not None:
            del self._keys[entry.session]

    @property
    def _left(self) -> Decimal:
        return Decimal(0) if self.limits.usd_per_day is None else max(Decimal(0), self.limits.usd_per_day - self.spent)

    def _covers(self, usd: Decimal) -> bool:
        return self.limits.usd_per_day is None or self.reserved + usd <= self._left

    def _has_room(self, now: datetime) -> bool:
        most = self.limits.sessions
        return (
            most is None or sum(not entry.is_idle for entry in self.running.values()) < most
        ) and self._is_slow_enough(now)

    def _is_slow_enough(self, now: datetime) -> bool:
        self.begun = [each for each in self.begun if each > now - _MINUTE]
        most = self.limits.sessions_per_minute
        return most is None or len(self.begun) < most

    def _problem(self, usd: Decimal) -> str:
        """Explain why a session cannot start today, even if running ones spend nothing."""
        limit = self.limits.usd_per_day
        if limit is None or usd <= self._left:
            return ""
        if usd > limit:
            return (
                f"limits.budget_usd: {_dollars(usd)} is above the tenant's {_dollars(limit)} a day; ask for at most "
                f"{_dollars(limit)}"
            )
        return (
            f"limits.budget_usd: of the tenant's {_dollars(limit)} a day, {_dollars(self._left)} is left until "
            f"midnight UTC, and the session asks for {_dollars(usd)}; ask for less, or start it again tomorrow"
        )


class LedgerRequest(Contract):
    """The input of a tenant's ledger."""

    tenant: Name
    limits: TenantLimits
    state: TenantLedger | None = left_out(None)
    """Set by a ledger that continues as new."""


def _dollars(usd: Decimal | None) -> str:
    return f"${(usd or Decimal(0)).quantize(Decimal('0.01'), rounding=ROUND_DOWN)}"
