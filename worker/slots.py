"""Activity slots: a worker accepts no more activities than it can start soon.

An activity's heartbeats are due from the moment the server dispatches it. A busy event loop starts it much later,
so a worker that fills all slots would be considered lost while working. Activities that are not accepted wait on the
task queue, where no heartbeat is due and other workers can take them.
"""

import asyncio
import threading
import time
from contextlib import suppress
from datetime import datetime
from typing import Final

from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    WorkerTuner,
)

POLLS: Final = 20
"""Concurrent activity polls at the server."""
WORKFLOW_POLLS: Final = 40
"""The same for workflow tasks, half of them for new workflows. Tasks that no poll awaits are written to disk."""
_MOST_AHEAD: Final = POLLS + 1
"""Includes the slot that the SDK reserves for the next poll."""
_FIRST_AHEAD: Final = 4
_LEAST_AHEAD: Final = 2
_SLOW_SECONDS: Final = 0.3
_FAST_SECONDS: Final = 0.1
_CLOCK_STEP_SECONDS: Final = 60.0
"""No activity starts this late; the server's clock must have been set back."""
_FORGOTTEN_PER_SECOND: Final = 0.001


class _Permit(SlotPermit):
    def __init__(self, *, is_eager: bool) -> None:
        self.is_eager = is_eager


class PacedSlots(CustomSlotSupplier):
    """The activity slots of one worker, with few reserved ahead of the event loop.

    Their number is halved when an activity starts late, and grows by one otherwise.
    """

    def __init__(self, most: int) -> None:
        """Allow `most` started activities at once."""
        self._most = most
        self._ahead = _FIRST_AHEAD
        self._held: set[SlotPermit] = set()
        self._reserved: set[_Permit] = set()
        """Permits of activities not yet started: being polled for, buffered by the SDK, or being decoded."""
        self._arrived: dict[_Permit, None] = {}
        """Those that have reached the event loop, oldest first."""
        self._fastest: tuple[float, float] | None = None
        """The smallest difference seen between this host's monotonic clock and the server's at a start, and when."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def begin(self, started: datetime) -> float:
        """Record the start of an activity that the server dispatched at `started`; return the seconds in between."""
        waited = self._delay(time.monotonic(), started.timestamp())
        with self._lock:
            permit = next(iter(self._arrived), None)
            if permit is not None:
                del self._arrived[permit]
                self._reserved.discard(permit)
            if waited > _SLOW_SECONDS:
                self._ahead = max(_LEAST_AHEAD, self._ahead // 2)
            elif waited < _FAST_SECONDS:
                self._ahead = min(_MOST_AHEAD, self._ahead + 1)
        self._changed.set()
        return waited

    def _delay(self, now: float, started: float) -> float:
        """Return the delay relative to the fastest start so far, since the two clocks are unrelated.

        The fastest start decays slowly, so that a small step of the server's clock does not slow the worker forever.
        """
        offset = least = now - started
        if self._fastest is not None:
            fastest, seen_at = self._fastest
            least = fastest + _FORGOTTEN_PER_SECOND * (now - seen_at)
        if not 0 <= offset - least < _CLOCK_STEP_SECONDS:
            least = offset
        self._fastest = least, now
        return offset - least

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:  # noqa: ARG002  # the SDK's own signature
        """Wait until one more activity can be polled for."""
        self._loop = asyncio.get_running_loop()
        while (permit := self._reserve(is_eager=False)) is None:
            self._changed.clear()
            await self._changed.wait()
        return permit

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:  # noqa: ARG002  # the SDK's own signature
        """Reserve a slot for an eager activity, if one is free."""
        return self._reserve(is_eager=True)

    def _reserve(self, *, is_eager: bool) -> _Permit | None:
        with self._lock:
            ahead = sum(permit.is_eager is is_eager for permit in self._reserved)
            if ahead >= self._ahead or len(self._held) >= self._most:
                return None
            permit = _Permit(is_eager=is_eager)
            self._held.add(permit)
            self._reserved.add(permit)
            return permit

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Record that the event loop has received an activity."""
        if isinstance(ctx.permit, _Permit):
            with self._lock:
                self._arrived[ctx.permit] = None

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """Record that an activity has ended, or that a poll returned none."""
        if isinstance(ctx.permit, _Permit):
            with self._lock:
                self._held.discard(ctx.permit)
                self._reserved.discard(ctx.permit)
                self._arrived.pop(ctx.permit, None)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._changed.set)


def paced_tuner(slots: PacedSlots) -> WorkerTuner:
    """Build the slots of a whole worker; those of workflow tasks are the SDK's default."""
    others = FixedSizeSlotSupplier(100)
    return WorkerTuner.create_composite(
        workflow_supplier=others, activity_supplier=slots, local_activity_supplier=others, nexus_supplier=others
    )
