"""The clock of a session: when it started, when the report is due, and what ended the work early."""

from datetime import datetime, timedelta

from chargehand.contracts import StopReason
from workflows import options


class Clock:
    """Knows until when a session works, and what part of its time is kept for the report."""

    def __init__(self, started_at: datetime, deadline_at: datetime) -> None:
        self.started_at = started_at
        self.deadline_at = deadline_at
        self.was_interrupted = False
        """Whether the work ended before the plan was complete."""
        self.is_report_due = False
        self.is_finish_requested = False
        self.is_overcharged = False
        """Whether providers charged more than the budget."""
        self._is_stopping = False

    @property
    def report_starts_at(self) -> datetime:
        """When the report is begun, whatever is not finished then."""
        return self.deadline_at - options.report_time(self.deadline_at - self.started_at)

    def longest_wait(self, now: datetime) -> timedelta:
        """Return how long a person may be waited for, so that the agent that asked has time to go on without."""
        left = max(self.report_starts_at - now, timedelta(0))
        return left - min(left / 2, options.TIME_AFTER_WAIT)

    @property
    def work_is_over(self) -> bool:
        """Whether nothing new is started: the report is due, or the session stops."""
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
        """Start, and end, so much later: time in a queue is not the session's."""
        self.started_at += by
        self.deadline_at += by

    def extend(self, deadline: timedelta) -> None:
        """Move the deadline, counted from the start of the session; never to an earlier time."""
        self.reach(self.started_at + deadline)

    def reach(self, deadline_at: datetime) -> None:
        """Move the deadline to a time, unless it is later already."""
        self.deadline_at = max(self.deadline_at, deadline_at)

    def finish_now(self) -> None:
        self.is_finish_requested = True

    def ring(self) -> None:
        self.is_report_due = True

    def stop_overcharged(self) -> None:
        """Start nothing new, because providers charged more than the budget."""
        self.is_overcharged = self.was_interrupted = True

    def stop(self) -> None:
        """Start nothing new, because the session ends."""
        self._is_stopping = True

    def interrupt(self) -> None:
        """Note that the work ended before the plan was complete."""
        self.was_interrupted = True
