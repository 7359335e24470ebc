"""The clock of a session: its start, when the report is due, and what ended the work early."""

from collections.abc import Callable
from datetime import datetime, timedelta

from chargehand.contracts import StopReason
from workflows import options


class Clock:
    """Tracks a session's deadline and the part of its time reserved for the report.

    It stops while the session waits for a person.
    """

    def __init__(self, started_at: datetime, deadline_at: datetime, now: Callable[[], datetime]) -> None:
        self.started_at = started_at
        self._deadline_at = deadline_at
        """Excluding waits for people."""
        self._now = now
        self._waits = 0
        self._waits_since = started_at
        self._waited = timedelta(0)
        """Total of finished waits."""
        self.was_interrupted = False
        """Whether the work ended before the plan was complete."""
        self.is_report_due = False
        self.is_finish_requested = False
        self.is_overcharged = False
        """Whether providers charged more than the budget."""
        self._is_stopping = False

    @property
    def time(self) -> timedelta:
        return self._deadline_at - self.started_at

    @property
    def waited(self) -> timedelta:
        """Total time spent waiting for people; overlapping waits count once."""
        return self._waited + (self._now() - self._waits_since if self.is_paused else timedelta(0))

    @property
    def deadline_at(self) -> datetime:
        """The deadline, extended by waits for people."""
        return self._deadline_at + self.waited

    @property
    def report_starts_at(self) -> datetime:
        """When writing the report begins, even if the plan is unfinished."""
        return self.deadline_at - options.report_time(self.time)

    @property
    def is_paused(self) -> bool:
        return self._waits > 0

    def pause(self) -> None:
        """Stop the clock until `resume`; each wait for a person calls both once."""
        if not self.is_paused:
            self._waits_since = self._now()
        self._waits += 1

    def resume(self) -> None:
        self._waited, self._waits = self.waited, self._waits - 1
        self._waits_since = self._now()

    @property
    def work_is_over(self) -> bool:
        """Whether no more work is started: the report is due, or the session is stopping."""
        return self._is_stopping or self.is_overcharged or self.is_report_due

    @property
    def stop_reason(self) -> StopReason | None:
        """What ended the work before the plan was complete; None if nothing did."""
        if not self.was_interrupted:
            return None
        if self.is_overcharged:
            return "overcharged"
        return "finish_now" if self.is_finish_requested else "deadline"

    def delay(self, by: timedelta) -> None:
        """Shift start and deadline by time spent in a queue."""
        self.started_at += by
        self._deadline_at += by

    def extend(self, deadline: timedelta) -> None:
        """Extend the deadline to one given from the start of the session; never shorten it."""
        self._deadline_at = max(self._deadline_at, self.started_at + deadline)

    def reach(self, deadline_at: datetime) -> None:
        """Extend the deadline to a time, unless it is already later."""
        self._deadline_at = max(self._deadline_at, deadline_at - self.waited)

    def finish_now(self) -> None:
        self.is_finish_requested = True

    def ring(self) -> None:
        self.is_report_due = True

    def stop_overcharged(self) -> None:
        self.is_overcharged = self.was_interrupted = True

    def stop(self) -> None:
        self._is_stopping = True

    def interrupt(self) -> None:
        self.was_interrupted = True
