"""A busy event loop is reported, and its worker is not mistaken for a lost one."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import chain, count
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.runtime import MetricBuffer, MetricBufferDurationFormat, Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.heartbeat import BEAT_SECONDS
from activities.metrics import EVENT_LOOP_LAG
from activities.turn.journal import Entry, open_journal
from tests.waiting import until
from worker.health import watch_event_loop
from worker.heartbeat_sender import Heartbeats
from worker.slots import POLLS, PacedSlots, paced_tuner
from workflows.options import ActivityLimits


@asynccontextmanager
async def _watched() -> AsyncGenerator[MetricBuffer]:
    """Watch the loop; yield the metrics that the SDK collects meanwhile."""
    buffer = MetricBuffer(10_000, MetricBufferDurationFormat.MILLISECONDS)
    runtime = Runtime(telemetry=TelemetryConfig(logging=None, metrics=buffer))
    watching = asyncio.create_task(watch_event_loop(runtime.metric_meter))
    await asyncio.sleep(0)
    yield buffer
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def test_a_blocking_call_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A call that blocks the loop for 400 ms gives one warning and one measurement."""
    lags: list[float] = []

    async def is_measured() -> bool:
        updates = metrics.retrieve_updates()
        lags.extend(update.value for update in updates if update.metric.name == EVENT_LOOP_LAG.name)
        return bool(lags)

    async with _watched() as metrics:
        time.sleep(0.4)  # noqa: ASYNC251  # this is what must not be done
        await until(is_measured)

    warnings = [record for record in caplog.records if record.name == "chargehand.watchdog"]
    assert [record.levelno for record in warnings] == [logging.WARNING]
    assert "stood still" in warnings[0].message
    assert max(lags) >= 300


async def test_warnings_are_limited_to_one_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """The next warning counts the blockages since the last one."""
    ended = asyncio.Event()

    def clock() -> Iterator[float]:
        # Start and end of each check: three times late by 0.45 s, the third more than ten seconds later.
        yield from chain.from_iterable((at, at + 0.5) for at in (0.0, 1.0, 20.0))
        ended.set()
        yield from count(30.0, 0.05)

    times = clock()
    watching = asyncio.create_task(watch_event_loop(clock=lambda: next(times)))
    async with asyncio.timeout(10):
        await ended.wait()
    watching.cancel()

    said = [record.message.partition("(")[2] for record in caplog.records if record.name == "chargehand.watchdog"]
    assert said == ["longest 450 ms, times 1)", "longest 450 ms, times 2)"]


HEARTBEAT_TIMEOUT = timedelta(seconds=2.5)
"""Shorter than for sessions, to keep the test short."""
BLOCKED_SECONDS = 3.0
BUSY_SECONDS = 0.1
_LIMITS = ActivityLimits(
    start_to_close_timeout=timedelta(minutes=1),
    heartbeat_timeout=HEARTBEAT_TIMEOUT,
    retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=3),
)


def block(seconds: float) -> None:
    """Block the event loop and, as far as Python allows, the interpreter."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@activity.defn
async def tool() -> list[JsonValue]:
    """Block the loop when the work is done, before the SDK can send the result."""
    await asyncio.sleep(0)
    block(BLOCKED_SECONDS)
    return [activity.info().attempt]


@activity.defn
async def turn() -> list[JsonValue]:
    """Record an entry, block the loop and fail; on the next attempt, return what was found."""
    async with open_journal() as record:
        if activity.info().attempt > 1:
            return [activity.info().attempt, record.entry.unbilled_failures]
        await asyncio.sleep(1.5 * BEAT_SECONDS)
        await record.record(Entry(unbilled_failures=7))
        block(BLOCKED_SECONDS)
        raise RuntimeError("the attempt ends")


@activity.defn
async def busy() -> int:
    """Occupy the event loop for a short while."""
    time.sleep(BUSY_SECONDS)  # noqa: ASYNC251  # on purpose
    return activity.info().attempt


@workflow.defn
class Crowd:
    """Runs many activities at once, which together take longer than the heartbeat timeout."""

    @workflow.run
    async def run(self, count: int) -> list[int]:
        return await asyncio.gather(*(workflow.execute_activity(busy, **_LIMITS) for _ in range(count)))


@workflow.defn
class Blocked:
    """Runs one activity."""

    @workflow.run
    async def run(self, name: str) -> list[JsonValue]:
        return await workflow.execute_activity(name, result_type=list[JsonValue], **_LIMITS)


@asynccontextmanager
async def _worker(client: Client) -> AsyncGenerator[str]:
    queue = f"blocked-{uuid4().hex[:8]}"
    beat, slots = timedelta(seconds=BEAT_SECONDS), PacedSlots(100)
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Blocked, Crowd],
        activities=[tool, turn, busy],
        workflow_runner=UnsandboxedWorkflowRunner(),
        build_id="blocked",
        interceptors=[Heartbeats(slots)],
        tuner=paced_tuner(slots),
        max_concurrent_activity_task_polls=POLLS,
        max_heartbeat_throttle_interval=beat,
        default_heartbeat_throttle_interval=beat,
    ):
        yield queue


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "result"), [("tool", [1]), ("turn", [2, 7])], ids=["one attempt", "the journal is kept"]
)
async def test_a_blocked_event_loop_does_not_time_out_activities(
    client: Client, name: str, result: list[JsonValue]
) -> None:
    """Blocking for longer than the heartbeat timeout causes none, and the last heartbeat details are kept."""
    async with _worker(client) as queue:
        handle = await client.start_workflow(Blocked.run, name, id=f"{queue}-{name}", task_queue=queue)
        got = await handle.result()
        history = await handle.fetch_history()

    started = [event.activity_task_started_event_attributes for event in history.events]
    started = [each for each in started if each.attempt]
    assert got == result
    assert [event.attempt for event in started] == [result[0]]
    assert not any(event.last_failure.HasField("timeout_failure_info") for event in started)


@pytest.mark.nightly
async def test_no_more_activities_are_accepted_than_can_start(client: Client) -> None:
    """Activities that together block the loop for twice the heartbeat timeout all succeed at the first attempt."""
    count = int(2 * HEARTBEAT_TIMEOUT.total_seconds() / BUSY_SECONDS)
    async with _worker(client) as queue:
        attempts = await client.execute_workflow(Crowd.run, count, id=f"{queue}-crowd", task_queue=queue)

    assert attempts == [1] * count
