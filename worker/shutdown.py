"""What ends a worker, and how long it then lets calls finish."""

import asyncio
import signal
from datetime import timedelta
from typing import Final

GRACEFUL_SHUTDOWN_TIMEOUT: Final = timedelta(seconds=30)
"""Time for in-flight calls to finish when a worker is stopped."""


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
