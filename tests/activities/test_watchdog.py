"""The watch over the worker's event loop, and settings of deploys and metrics."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, count

import pytest
from pydantic import ValidationError
from temporalio.runtime import MetricBuffer, MetricBufferDurationFormat, Runtime, TelemetryConfig

from activities.metrics import EVENT_LOOP_LAG
from tests.waiting import until
from worker.settings import Settings
from worker.watchdog import watch_event_loop


@asynccontextmanager
async def _watched() -> AsyncGenerator[MetricBuffer]:
    """Watch the loop; gives the metrics that the SDK keeps meanwhile."""
    buffer = MetricBuffer(10_000, MetricBufferDurationFormat.MILLISECONDS)
    runtime = Runtime(telemetry=TelemetryConfig(logging=None, metrics=buffer))
    watching = asyncio.create_task(watch_event_loop(runtime.metric_meter))
    await asyncio.sleep(0)
    yield buffer
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


def _lags(buffer: MetricBuffer) -> list[float]:
    return [update.value for update in buffer.retrieve_updates() if update.metric.name == EVENT_LOOP_LAG.name]


async def test_a_blocking_call_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """What keeps the loop for 400 ms is a warning in the log and a measurement in the metrics."""
    lags: list[float] = []

    async def is_measured() -> bool:
        lags.extend(_lags(metrics))
        return bool(lags)

    async with _watched() as metrics:
        time.sleep(0.4)  # noqa: ASYNC251  # this is what must not be done
        await until(is_measured)

    warnings = [record for record in caplog.records if record.name == "chargehand.watchdog"]
    assert [record.levelno for record in warnings] == [logging.WARNING]
    assert "stood still" in warnings[0].message
    assert max(lags) >= 300


async def test_a_blocking_tool_in_a_thread_leaves_the_loop_free() -> None:
    """A tool that blocks a thread does not stop the loop: it goes round while the tool waits for just that (F30)."""
    went_round = threading.Event()

    def tool() -> bool:
        return went_round.wait(timeout=20)

    async with _watched() as metrics:
        using = asyncio.create_task(asyncio.to_thread(tool))
        rounds = 0
        async with asyncio.timeout(15):
            while rounds < 3:
                await asyncio.sleep(0.05)
                rounds += len(_lags(metrics))
        went_round.set()

        assert await using


async def test_warnings_come_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Within ten seconds of a warning there is no other; the next one counts what came between."""
    ended = asyncio.Event()

    def clock() -> Iterator[float]:
        # Pairs of when a look was begun and when it was over: late by 0.45 s thrice, the third after ten seconds.
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


def test_settings_of_deploys_and_metrics_that_cannot_work_are_refused() -> None:
    """A build without a deployment, the other way round, and unusable names are refused before anything starts."""
    cases: list[tuple[dict[str, object], str]] = [
        ({"deployment": "crew"}, "CHARGEHAND_BUILD_ID is not set"),
        ({"build_id": "2026-11-21"}, "CHARGEHAND_DEPLOYMENT is not set"),
        ({"deployment": "crew.one", "build_id": "1"}, "deployment"),
        ({"metrics_address": "9464"}, "metrics_address"),
        ({"ceilings": {"max_turns": 101}}, "max_turns above 100"),
        ({"ceilings": {"max_turns": 101}, "storage": "off"}, "CHARGEHAND_STORAGE"),
    ]
    for settings, named in cases:
        with pytest.raises(ValidationError, match=named):
            Settings.model_validate(settings)
