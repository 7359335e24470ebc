"""The clock of a session: when it started, when the report is due, and what ended the work early."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from temporalio import workflow

from chargehand.contracts import StopReason
from workflows import options

_Result = TypeVar("_Result")


class Clock:
    """Limits the work of a session to its deadline, and keeps a part of the time for the report."""

    def __init__(self, started_at: datetime, deadline_at: datetime) -> None:
        self.started_at = started_at
        self.deadline_at = deadline_at
        self.was_interrupted = False
        """Whether the work ended before the plan was complete."""
        self._alarm: asyncio.Task[None] | None = None
        self._finish_requested = False
        self._stopping = False
        self.is_overcharged = False
        """Whether providers charged more than the budget."""

    @property
    def report_starts_at(self) -> datetime:
        """When the report is begun, whatever is not finished then."""
        return self.deadline_at - options.report_time(self.deadline_at - self.started_at)

    @property
    def work_is_over(self) -> bool:
        """Whether nothing new is started: the report is due, or the session stops."""
        return self._stopping or self.is_overcharged or (self._alarm is not None and self._alarm.done())

    @property
    def stop_reason(self) -> StopReason | None:
        """What ended the work before the plan was complete; None if nothing did."""
        if not self.was_interrupted:
            return None
        if self.is_overcharged:
            return "overcharged"
        return "finish_now" if self._finish_requested else "deadline"

    def start(self) -> None:
        """Start the durable timer that ends the work."""
        self._alarm = asyncio.create_task(self._wait_until_report_is_due())

    def extend(self, deadline: timedelta) -> None:
        """Move the deadline, counted from the start of the session; never to an earlier time."""
        self.deadline_at = max(self.deadline_at, self.started_at + deadline)

    def finish_now(self) -> None:
        """Make the report due at once."""
        self._finish_requested = True

    def stop_overcharged(self) -> None:
        """Start nothing new, because providers charged more than the budget."""
        self.is_overcharged = self.was_interrupted = True

    def stop(self) -> None:
        """Start nothing new, because the session ends."""
        self._stopping = True

    def interrupt(self) -> None:
        """Note that the work ended before the plan was complete."""
        self.was_interrupted = True

    async def limit(self, step: Coroutine[object, object, _Result]) -> _Result | None:
        """Run a step; cancel it and return None if the report is due first."""
        if self._alarm is None:
            raise AssertionError("the clock was not started")
        task = asyncio.create_task(step)
        try:
            await workflow.wait([task, self._alarm], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancel(task)
            raise
        if task.done():
            return task.result()
        self.interrupt()
        await _cancel(task)
        return None

    async def _wait_until_report_is_due(self) -> None:
        while not self._finish_requested and (left := self.report_starts_at - workflow.now()) > timedelta(0):
            with suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self._finish_requested, timeout=left, timeout_summary="until the report"
                )


async def _cancel(task: "asyncio.Task[_Result]") -> None:
    """Cancel a step and wait until the ledger has booked what it was about to pay."""
    task.cancel()
    await workflow.wait([task])
    if not task.cancelled():
        task.exception()
