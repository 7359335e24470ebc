"""Gauges of what the server knows: open and stuck sessions, and task queues with their workers."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.service import RPCError, RPCStatusCode

from activities.metrics import (
    ACTIVITY_SLOTS,
    BACKLOG_AGE,
    BACKLOG_TASKS,
    BUILDS,
    QUEUE_BUILDS,
    QUEUE_POLLERS,
    SESSIONS_OPEN,
    SESSIONS_STUCK,
)
from activities.opening.backlogs import describe_queue, is_recent
from chargehand.contracts import SessionState
from chargehand.listing import WAITING_STATES
from chargehand.visibility import OPEN, OURS, REPORTED_PROBLEMS, ROOT_SESSIONS, build_of
from chargehand.wire import SearchAttribute

_EVERY: Final = timedelta(seconds=30)
_FIRST: Final = timedelta(seconds=1)
"""Delay after which a newly started worker is listed as polling."""
_OPEN: Final = f"{ROOT_SESSIONS} AND {OPEN}"
_STUCK: Final = f"{OPEN} AND {REPORTED_PROBLEMS} IS NOT NULL AND ({OURS} OR TaskQueue IN ({{queues}}))"
"""Query for stuck workflows of ours, and of unknown types on our queues, which would otherwise wait unseen."""
_WAITING: Final[tuple[SessionState, ...]] = (*WAITING_STATES, "queued")


class Queue(NamedTuple):
    """A task queue and a kind of task."""

    name: str
    kind: str
    """`workflow` or `activity`."""

    @property
    def type(self) -> "TaskQueueType.ValueType":
        return TaskQueueType.Value(f"TASK_QUEUE_TYPE_{self.kind.upper()}")


async def measure_server(client: Client, slots: Mapping[str, int], queues: Sequence[Queue], meter: MetricMeter) -> None:
    """Measure until cancelled. All workers with the same settings report the same values.

    `slots` are the activities that this worker runs at once, by task queue; `queues` all that sessions may need,
    including those of other workers.
    """
    for queue, number in slots.items():
        meter.create_gauge(*ACTIVITY_SLOTS).set(number, {"task_queue": queue})
    builds = {queue: set[tuple[str, str]]() for queue in queues}
    await asyncio.sleep(_FIRST.total_seconds())
    while True:
        # If the server is unreachable or lacks the search attributes, the last values remain.
        for queue in queues:
            with suppress(RPCError):
                await _measure_queue(client, queue, builds[queue], meter)
        with suppress(RPCError):
            await _measure_stuck(client, queues, meter)
        with suppress(RPCError):
            await _measure_sessions(client, meter)
        await asyncio.sleep(_EVERY.total_seconds())


async def _measure_queue(client: Client, queue: Queue, known: set[tuple[str, str]], meter: MetricMeter) -> None:
    described = await describe_queue(client, queue.name, queue.type)
    labels = {"task_queue": queue.name, "kind": queue.kind}
    meter.create_gauge(*BACKLOG_TASKS).set(described.stats.approximate_backlog_count, labels)
    age = described.stats.approximate_backlog_age.ToTimedelta().total_seconds()
    meter.create_gauge_float(*BACKLOG_AGE).set(age, labels)
    polling = [each for each in described.pollers if is_recent(each)]
    meter.create_gauge(*QUEUE_POLLERS).set(len(polling), labels)
    builds = Counter(_build(each) for each in polling)
    known |= builds.keys()
    for name, versioned in known:  # a build that no longer exists is 0
        named = {**labels, "build": name, "versioned": versioned}
        meter.create_gauge(*QUEUE_BUILDS).set(builds[name, versioned], named)


def _build(poller: PollerInfo) -> tuple[str, str]:
    deployment, build = build_of(poller)
    return BUILDS.of(f"{deployment}.{build}" if deployment else build), "yes" if deployment else "no"


async def _measure_stuck(client: Client, queues: Sequence[Queue], meter: MetricMeter) -> None:
    names = ", ".join(repr(name) for name in sorted({"", *(each.name for each in queues)}))
    try:
        stuck = (await client.count_workflows(_STUCK.format(queues=names))).count
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:  # a server without this search attribute
            raise
        return
    meter.create_gauge(*SESSIONS_STUCK).set(stuck)


async def _measure_sessions(client: Client, meter: MetricMeter) -> None:
    sessions = meter.create_gauge(*SESSIONS_OPEN)
    waiting = 0
    for state in _WAITING:
        number = (await client.count_workflows(f"{_OPEN} AND {SearchAttribute.STATE} = '{state}'")).count
        sessions.set(number, {"state": state})
        waiting += number
    sessions.set(max((await client.count_workflows(_OPEN)).count - waiting, 0), {"state": "running"})
