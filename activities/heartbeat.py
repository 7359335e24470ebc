"""The heartbeats of a running activity, which keep the attempt alive and deliver cancellation.

All numbers about heartbeats are defined here. The worker sends them: `worker/heartbeat_sender.py`.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Final

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError
from temporalio.service import RPCError, RPCStatusCode

HEARTBEAT_TIMEOUT: Final = timedelta(seconds=5)
"""Time without a heartbeat after which a worker counts as lost; activities send one every `BEAT_SECONDS`.

After it, the calls of a crashed worker resume. A server short of CPU time takes seconds for a heartbeat.
"""
LONGEST_HEARTBEAT_TIMEOUT: Final = timedelta(minutes=5)
"""The maximum that an operator can set."""
BEAT_SECONDS: Final = 0.8
"""Interval of an activity's heartbeats, and maximum delay until a cancelled call stops.

It scales with the heartbeat timeout.
"""
_BEATS, _LEAST_BEATS = 6.25, 3.0
"""Heartbeats per heartbeat timeout, normally and at least, if many activities run."""
_BEATS_A_SECOND: Final = 25.0
"""Target for all activities of a process, subject to each one's minimum; each heartbeat is a server write."""
LIVE_SECONDS: Final = 0.25
"""Minimum interval between heartbeats with new details, such as text being written."""
_RPC_TIMEOUT: Final = timedelta(seconds=2)
_logger = logging.getLogger("chargehand.heartbeats")


running: Final[set["Pulse"]] = set()
"""Heartbeats of this process's activities."""


class Pulse:
    def __init__(self, waited: float = 0.0) -> None:
        """Describe the running activity, which started `waited` seconds after the server dispatched it."""
        task_token = activity.info().task_token
        self._handle = activity.client().get_async_activity_handle(task_token=task_token)
        recorded, timeout = activity.info().heartbeat_details, activity.info().heartbeat_timeout
        self._timeout = timeout.total_seconds() if timeout else BEAT_SECONDS * _BEATS
        self.details: Callable[[], Sequence[object]] = lambda: recorded
        """Details repeated by each heartbeat, since the server keeps only the last."""
        self._first = max(0.0, self.seconds - waited)
        self._began = time.monotonic() - waited
        self._beaten_at = self._began - self.seconds
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None
        self.has_beaten = False
        """Whether the SDK has sent a heartbeat."""
        self.is_over = False
        """Whether the server no longer waits for this attempt."""

    @property
    def seconds(self) -> float:
        """Interval between heartbeats."""
        usual = max(BEAT_SECONDS, self._timeout / _BEATS)
        return max(usual, min(self._timeout / _LEAST_BEATS, len(running) / _BEATS_A_SECOND))

    def now(self) -> datetime:
        """Return the time by the server's clock, which is the same for all workers."""
        return activity.info().started_time + timedelta(seconds=time.monotonic() - self._began)

    async def send(self) -> None:
        await asyncio.sleep(self._first)
        while True:
            self.beat()
            await asyncio.sleep(self.seconds)

    def beat(self) -> None:
        """Send a heartbeat; the SDK sends only the last one of every `LIVE_SECONDS`."""
        activity.heartbeat(*self.details())
        self.has_beaten = True
        self._beaten_at = time.monotonic()

    async def record(self, *details: object) -> None:
        """Record details: when this returns, the server has stored them, and later heartbeats repeat them."""
        self.details = lambda: details
        with self._lock:
            under_way = self._under_way
        if under_way is not None:  # a heartbeat from the thread could overwrite newer details
            await asyncio.wrap_future(under_way)
        if self.has_beaten:
            # The SDK may still send its last heartbeat, which must not restore older details.
            activity.heartbeat(*details)
        await self._handle.heartbeat(*details)

    @property
    def is_late(self) -> bool:
        """Whether the event loop is late with a heartbeat."""
        return time.monotonic() - self._beaten_at > self.seconds + BEAT_SECONDS

    async def send_beside(self) -> None:
        """Send a heartbeat from the thread."""
        sent = Future[None]()
        with self._lock:
            details, self._under_way = self.details(), sent
        try:
            await self._handle.heartbeat(*details, rpc_timeout=_RPC_TIMEOUT)
            self._beaten_at = time.monotonic() - self.seconds
        except AsyncActivityCancelledError:
            # The SDK's next heartbeat gets the same answer and passes it to the activity.
            pass
        except RPCError as error:
            self.is_over = error.status == RPCStatusCode.NOT_FOUND
        except Exception:
            _logger.exception("a heartbeat could not be sent from the thread")
        finally:
            self._under_way = None
            sent.set_result(None)


_running: Final[ContextVar[Pulse]] = ContextVar("pulse")


def pulse() -> Pulse:
    return _running.get()


def begin(waited: float = 0.0) -> Pulse:
    """Start the heartbeats of the running activity, `waited` seconds after the server dispatched it."""
    pulse = Pulse(waited)
    _running.set(pulse)
    return pulse
