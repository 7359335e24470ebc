"""The ledger of a tenant, pure: which of its sessions run, which wait, and what they may spend on one day.

At every moment, what ended sessions have spent today plus the budgets of those that run is at most the dollars of the
day. The budget of a session that runs past midnight counts on both days, since it may be spent on either.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Final

from chargehand_plugins.tenants.contracts import Count, Entry
from chargehand_plugins.tenants.usage import QueuedSession, TenantLimits

_MINUTE: Final = timedelta(minutes=1)
_MOST_SESSIONS: Final = 5_000
"""That run or wait: one payload has to hold them all when the ledger continues as new."""


@dataclass
class TenantLedger:
    """Admits sessions within the limits of one tenant, by priority and in the order in which they came."""

    day: date
    limits: TenantLimits = field(default_factory=TenantLimits)
    spent: Decimal = Decimal(0)
    running: dict[str, Entry] = field(default_factory=dict[str, Entry])
    """By key."""
    queue: dict[str, Entry] = field(default_factory=dict[str, Entry])
    """By key, in the order in which they came."""
    begun: list[datetime] = field(default_factory=list[datetime])
    """When sessions of the last minute were admitted, the oldest first."""
    _keys: dict[str, str] = field(init=False)
    """By session."""

    def __post_init__(self) -> None:
        self._keys = {entry.session: entry.key for entry in (*self.running.values(), *self.queue.values())}

    @property
    def reserved(self) -> Decimal:
        """The budgets of the sessions that run."""
        return sum((entry.usd for entry in self.running.values()), Decimal(0))

    @property
    def is_idle(self) -> bool:
        """Whether nothing of this ledger matters once the day is over."""
        return not self.running and not self.queue

    @property
    def waiting(self) -> list[Entry]:
        """The sessions that wait, the next one first."""
        return sorted(self.queue.values(), key=lambda entry: entry.priority)

    def begin_day(self, today: date) -> None:
        """Begin another day; the clock never goes back."""
        if today > self.day:
            self.day, self.spent = today, Decimal(0)

    def use(self, limits: TenantLimits) -> None:
        self.limits = limits

    def ask(self, entry: Entry) -> str:
        """Put a session at the end of the queue, unless it runs or waits already; returns why not, or nothing.

        Its id belongs to one open run: an earlier run with the same id has ended, and may have spent its whole budget.
        """
        for entries in (self.running, self.queue):
            if known := entries.get(entry.key):
                # It waits for the reply to its latest request only.
                entries[entry.key] = known.model_copy(update={"number": entry.number, "token": entry.token})
                return ""
        if earlier := self._keys.get(entry.session):
            self.leave(earlier, self.running[earlier].usd if earlier in self.running else Decimal(0))
        if len(self.running) + len(self.queue) >= _MOST_SESSIONS:
            return f"{_MOST_SESSIONS:,} of its sessions run or wait, the most there can be; start it again later"
        self.queue[entry.key] = entry
        self._keys[entry.session] = entry.key
        return ""

    def admit(self, now: datetime) -> Entry | None:
        """Let the next session begin, if it may; None if it has to wait or none waits."""
        entry = next(iter(self.waiting), None)
        if entry is None or not self._has_room(now) or not self._covers(entry.usd):
            return None
        del self.queue[entry.key]
        self.running[entry.key] = entry
        if self.limits.sessions_per_minute is not None:
            self.begun.append(now)
        return entry

    def refuse(self) -> list[tuple[Entry, str]]:
        """Remove the sessions that cannot begin today, whatever becomes of those that run; each with the reason."""
        refused = [(entry, problem) for entry in self.waiting if (problem := self._problem(entry.usd))]
        for entry, _ in refused:
            self._remove(entry.key)
        return refused

    def enlarge(self, key: str, usd: Decimal) -> str:
        """Raise the budget of a running session to this amount; returns why not, or nothing if it is raised."""
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
        """Free the place of a conversation that waits for its user, or take it again, at once: a person waits."""
        if entry := self.running.get(key):
            self.running[key] = entry.model_copy(update={"is_idle": is_idle})

    def leave(self, key: str, spent: Decimal) -> None:
        """End a session: what it has spent counts, and the rest of its budget is free. Without a place it has none."""
        if key in self.running:
            self.spent += spent
        self._remove(key)

    def place(self, key: str) -> Entry | None:
        """Find a session that runs or waits."""
        return self.running.get(key) or self.queue.get(key)

    def correct(self, count: Count) -> None:
        """Take over what was counted; a session that it does not mention stays as it is."""
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
        """Return when time alone may let a session begin, or starts another day."""
        midnight = datetime.combine(self.day + timedelta(days=1), datetime.min.time(), now.tzinfo)
        if self.queue and not self._is_slow_enough(now):
            return min(midnight, self.begun[0] + _MINUTE)
        return midnight

    def queued(self) -> Iterable[QueuedSession]:
        """Describe the queue, for people."""
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
        """Say why a session cannot begin today, even if those that run spend nothing."""
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


def _dollars(usd: Decimal | None) -> str:
    return f"${(usd or Decimal(0)).quantize(Decimal('0.01'), rounding=ROUND_DOWN)}"
