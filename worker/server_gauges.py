"""Gauges of what only the server knows: the sessions that are open, and the tasks that wait for a worker."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.service import RPCError

from activities.metrics import ACTIVITY_SLOTS, BACKLOG_AGE, BACKLOG_TASKS, SESSIONS_OPEN
from activities.opening.backlogs import queue_stats
from chargehand.contracts import SessionState
from chargehand.listing import WAITING_STATES
from chargehand.visibility import OPEN, ROOT_SESSIONS
from chargehand.wire import SearchAttribute

_EVERY: Final = timedelta(seconds=30)
_OPEN: Final = f"{ROOT_SESSIONS} AND {OPEN}"
_WAITING: Final[tuple[SessionState, ...]] = (*WAITING_STATES, "queued")
_KINDS: Final = {
    "workflow": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activity": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}


async def measure_server(client: Client, slots: Mapping[str, int], meter: MetricMeter) -> None:
    """Measure until cancelled. Of the server, every worker of the same task queues says the same.

    `slots` are the activities that this worker makes at once, by task queue.
    """
    for queue, number in slots.items():
        meter.create_gauge(*ACTIVITY_SLOTS).set(number, {"task_queue": queue})
    while True:
        # A server that is away, or that lacks the search attributes of sessions, leaves the last values.
        with suppress(RPCError):
            for queue in slots:
                await _measure_backlog(client, queue, meter)
            await _measure_sessions(client, meter)
        await asyncio.sleep(_EVERY.total_seconds())


async def _measure_backlog(client: Client, queue: str, meter: MetricMeter) -> None:
    for kind, number in _KINDS.items():
        stats = await queue_stats(client, queue, number)
        labels = {"task_queue": queue, "kind": kind}
        meter.create_gauge(*BACKLOG_TASKS).set(stats.approximate_backlog_count, labels)
        age = stats.approximate_backlog_age.ToTimedelta().total_seconds()
        meter.create_gauge_float(*BACKLOG_AGE).set(age, labels)


async def _measure_sessions(client: Client, meter: MetricMeter) -> None:
    sessions = meter.create_gauge(*SESSIONS_OPEN)
    waiting = 0
    for state in _WAITING:
        found = (await client.count_workflows(f"{_OPEN} AND {SearchAttribute.STATE} = '{state}'")).count
        sessions.set(found, {"state": state})
        waiting += found
    sessions.set(max((await client.count_workflows(_OPEN)).count - waiting, 0), {"state": "running"})
