"""Heartbeats of running activities: they keep an attempt alive, and their answers deliver cancellation.

They are sent by the event loop. While something blocks it, a thread of the process sends them instead, so that the
server does not take a busy worker for a lost one and repeat its work.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError
from temporalio.service import RPCError, RPCStatusCode

BEAT_SECONDS: Final = 0.8
"""How often an activity sends a heartbeat: a cancelled call is stopped after this long at the latest."""
_LATE_SECONDS: Final = 2 * BEAT_SECONDS
_RPC_TIMEOUT: Final = timedelta(seconds=2)
_ITERATIONS: Final = 10
"""Iterations of the event loop in which the SDK sends an activity's result."""
_logger = logging.getLogger("chargehand.heartbeats")


class Pulse:
    """The heartbeats of one running activity."""

    def __init__(self, details: Callable[[], Sequence[object]]) -> None:
        """Describe the running activity; `details` are repeated in each heartbeat, since the server keeps the last."""
        task_token = activity.info().task_token
        self._handle = activity.client().get_async_activity_handle(task_token=task_token)
        self._details = details
        self._beaten_at = time.monotonic() - BEAT_SECONDS
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None
        self.has_beaten = False
        """Whether the SDK has sent a heartbeat."""
        self.is_over = False
        """Whether the server no longer waits for this attempt."""

    async def send(self) -> None:
        """Send heartbeats from the event loop, until cancelled."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            activity.heartbeat(*self._details())
            self.has_beaten = True
            self._beaten_at = time.monotonic()

    async def settle(self) -> None:
        """Wait until no heartbeat of the thread is under way, which could overwrite newer details."""
        with self._lock:
            under_way = self._under_way
        if under_way is not None:
            await asyncio.wrap_future(under_way)

    @property
    def is_late(self) -> bool:
        """Whether the event loop has not sent a heartbeat in time."""
        return time.monotonic() - self._beaten_at > _LATE_SECONDS

    async def send_beside(self) -> None:
        """Send a heartbeat from the thread."""
        sent = Future[None]()
        with self._lock:
            details, self._under_way = self._details(), sent
        try:
            await self._handle.heartbeat(*details, rpc_timeout=_RPC_TIMEOUT)
            self._beaten_at = time.monotonic() - BEAT_SECONDS
        except AsyncActivityCancelledError:
            # The SDK's next heartbeat has the same answer, which it hands to the activity.
            pass
        except RPCError as error:
            self.is_over = error.status == RPCStatusCode.NOT_FOUND
        except Exception:
            _logger.exception("a heartbeat could not be sent from the thread")
        finally:
            self._under_way = None
            sent.set_result(None)


class _Pacemaker(threading.Thread):
    """The thread that sends heartbeats for activities whose event loop is late."""

    def __init__(self) -> None:
        super().__init__(name="heartbeats", daemon=True)
        self.pulses: set[Pulse] = set()

    def run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS / 2)
            late = [pulse for pulse in tuple(self.pulses) if pulse.is_late and not pulse.is_over]
            await asyncio.gather(*(pulse.send_beside() for pulse in late))


_starting: Final = threading.Lock()
_pacemakers: Final[list[_Pacemaker]] = []
"""One per process, from the first activity on."""


def _pacemaker() -> _Pacemaker:
    with _starting:
        if not _pacemakers:
            _pacemakers.append(_Pacemaker())
            _pacemakers[0].start()
    return _pacemakers[0]


@asynccontextmanager
async def heartbeats(details: Callable[[], Sequence[object]] = tuple) -> AsyncGenerator[Pulse]:
    """Send heartbeats from the background while an activity works, and until the SDK has sent its result."""
    pulse, pulses = Pulse(details), _pacemaker().pulses
    pulses.add(pulse)
    sending = asyncio.create_task(pulse.send())
    try:
        yield pulse
    finally:
        sending.cancel()
        _forget_later(pulses, pulse, _ITERATIONS)


def _forget_later(pulses: set[Pulse], pulse: Pulse, iterations: int) -> None:
    if iterations:
        asyncio.get_running_loop().call_soon(_forget_later, pulses, pulse, iterations - 1)
    else:
        pulses.remove(pulse)
