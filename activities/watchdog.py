"""Measures the lag of the worker's event loop, and logs a warning when something has blocked it.

A blocked loop sends no heartbeats, so the server considers the worker lost and others repeat its work.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from temporalio.common import MetricMeter

LAG_METRIC: Final = "chargehand_event_loop_lag"
_LOOK: Final = timedelta(milliseconds=50)
_WARN_ABOVE: Final = timedelta(milliseconds=250)
_WARN_EVERY: Final = timedelta(seconds=10)
_logger = logging.getLogger("chargehand.watchdog")


async def watch_event_loop(
    meter: MetricMeter = MetricMeter.noop,
    *,
    warn_above: timedelta = _WARN_ABOVE,
    warn_every: timedelta = _WARN_EVERY,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Measure the loop's lag until cancelled; warn when it is too long, but not too often."""
    lags = meter.create_histogram_timedelta(LAG_METRIC, "Lag of the worker's event loop.", "duration")
    watch = _Watch(warn_above.total_seconds(), warn_every.total_seconds())
    while True:
        due = clock() + _LOOK.total_seconds()
        await asyncio.sleep(_LOOK.total_seconds())
        now = clock()
        lag = max(0.0, now - due)
        lags.record(timedelta(seconds=lag))
        watch.take(lag, now)


class _Watch:
    """Says how long the loop stood still, at most once in a while, and then the worst since the last time."""

    def __init__(self, warn_above: float, warn_every: float) -> None:
        self._warn_above = warn_above
        self._warn_every = warn_every
        self._quiet_until = float("-inf")
        self._worst = 0.0
        self._times = 0

    def take(self, lag: float, now: float) -> None:
        if lag > self._warn_above:
            self._worst = max(self._worst, lag)
            self._times += 1
        if self._times and now >= self._quiet_until:
            _logger.warning(
                "the event loop stood still: something blocks it, or this machine has too much to do; heartbeats are "
                "sent late, and after five seconds this worker is taken for lost (longest %.0f ms, times %d)",
                self._worst * 1_000,
                self._times,
                extra={"longest_ms": round(self._worst * 1_000), "times": self._times},
            )
            self._quiet_until = now + self._warn_every
            self._worst, self._times = 0.0, 0
