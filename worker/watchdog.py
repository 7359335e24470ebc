"""Measures the lag of the worker's event loop, and logs a warning when something has blocked it.

A blocked loop delays every session of the worker; a thread sends the heartbeats meanwhile.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from temporalio.common import MetricMeter

from activities.metrics import EVENT_LOOP_LAG

_LOOK: Final = timedelta(milliseconds=50)
_WARN_ABOVE: Final = timedelta(milliseconds=250)
_WARN_EVERY: Final = timedelta(seconds=10)
_logger = logging.getLogger("chargehand.watchdog")


async def watch_event_loop(
    meter: MetricMeter = MetricMeter.noop, *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Measure the loop's lag until cancelled; warn when it is too long, but not too often."""
    lags = meter.create_histogram_timedelta(*EVENT_LOOP_LAG)
    quiet_until = -math.inf
    long_lags: list[float] = []
    while True:
        due = clock() + _LOOK.total_seconds()
        await asyncio.sleep(_LOOK.total_seconds())
        now = clock()
        lag = max(0.0, now - due)
        lags.record(timedelta(seconds=lag))
        if lag > _WARN_ABOVE.total_seconds():
            long_lags.append(lag)
        if long_lags and now >= quiet_until:
            longest_ms, times = round(max(long_lags) * 1_000), len(long_lags)
            _logger.warning(
                "the event loop stood still: something blocks it, or this machine has too much to do "
                "(longest %d ms, times %d)",
                longest_ms,
                times,
                extra={"longest_ms": longest_ms, "times": times},
            )
            quiet_until = now + _WARN_EVERY.total_seconds()
            long_lags.clear()
