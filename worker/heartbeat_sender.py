"""Sends the heartbeats of running activities.

They start before any other work of an activity and are sent by the event loop. While the loop is blocked, a
thread of the process sends them instead, so that the server does not consider a busy worker lost and repeat its
work.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.worker import (
    ExecuteActivityInput,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowOutboundInterceptor,
)

from activities.around import AroundActivities
from activities.heartbeat import BEAT_SECONDS, HEARTBEAT_TIMEOUT, LIVE_SECONDS, Pulse, begin, running
from worker.slots import PacedSlots
from workflows.registry import AroundWorkflows

_starting: Final = threading.Lock()
_ITERATIONS: Final = 10
"""Iterations of the event loop in which the SDK sends an activity's result."""


def heartbeat_throttle(timeout: timedelta) -> timedelta:
    """Return the minimum interval at which the SDK sends an activity's heartbeats."""
    return timedelta(seconds=LIVE_SECONDS) * (timeout / HEARTBEAT_TIMEOUT)


async def _beat_for_late_loops() -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS / 2)
        late = [pulse for pulse in tuple(running) if pulse.is_late and not pulse.is_over]
        await asyncio.gather(*(pulse.send_beside() for pulse in late))


@cache
def _start_pacemaker() -> None:
    """Start the thread that sends heartbeats while the event loop is blocked, once per process."""
    threading.Thread(target=lambda: asyncio.run(_beat_for_late_loops()), name="heartbeats", daemon=True).start()


class Heartbeats(AroundActivities):
    """Sends heartbeats from an activity's start until the SDK has sent its result."""

    def __init__(self, slots: PacedSlots) -> None:
        self._slots = slots

    async def attempt(self, _: ExecuteActivityInput, run: Callable[[], Awaitable[Any]]) -> Any:
        if activity.info().is_local:
            return await run()
        waited = self._slots.begin(activity.info().started_time)
        with _starting:
            _start_pacemaker()
        pulse = begin(waited)
        running.add(pulse)
        sending = asyncio.create_task(pulse.send())
        try:
            return await run()
        finally:
            sending.cancel()
            _forget_later(pulse, _ITERATIONS)


def _forget_later(pulse: Pulse, iterations: int) -> None:
    if iterations:
        asyncio.get_running_loop().call_soon(_forget_later, pulse, iterations - 1)
    else:
        running.remove(pulse)


def set_heartbeat_timeout(timeout: timedelta) -> AroundWorkflows:
    """Lengthen the heartbeat timeouts of activities, for servers where heartbeats cost money or are slow.

    Timeouts are not compared in a replay, so workers may use different ones.
    """

    class Outbound(WorkflowOutboundInterceptor):
        def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002  # the SDK's own name
            if input.heartbeat_timeout is not None:
                longer = input.heartbeat_timeout * (timeout / HEARTBEAT_TIMEOUT)
                return super().start_activity(replace(input, heartbeat_timeout=longer))
            return super().start_activity(input)

    class Inbound(WorkflowInboundInterceptor):
        def init(self, outbound: WorkflowOutboundInterceptor) -> None:
            super().init(Outbound(outbound))

    return AroundWorkflows(Inbound)
