"""One worker process: connect, compose, poll until stopped."""

import asyncio
import gc
import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from temporalio.client import Client, Plugin
from temporalio.converter import DataConverter
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import Interceptor

from activities.backends import Choice, SettingsError
from activities.metrics import BUCKETS
from chargehand.connect import USUAL, connection_settings, explained, grpc_compression
from chargehand.converter import data_converter
from chargehand.errors import ChargehandError
from chargehand.payloads.settings import storage_from
from chargehand.plugins import Hook, installed, require_each
from chargehand.search_attributes import missing_attributes
from worker.composition import activity_slots, compose, encryption, queues_in_use
from worker.health import end_if_frozen, health_file, watch_event_loop
from worker.logs import SDK_LOGGING
from worker.server_gauges import measure_server
from worker.settings import Settings
from worker.shutdown import stop_event
from worker.takeover import RunningActivities, take_over
from worker.workers import build_workers, check_builds, own_build

_logger = logging.getLogger("chargehand.worker")


async def run(settings: Settings, announce: Callable[[], None], member: int | None = None) -> None:
    """Poll until SIGTERM or SIGINT, then let in-flight calls finish within the grace period; announce polling.

    A member of a group of processes has a number.
    """
    if not settings.artifacts:
        os.umask(0o077)  # files below the state directory are private to this user
    stop = stop_event()
    runtime = build_runtime(settings)
    async with AsyncExitStack() as closing:
        for watch in (watch_event_loop(runtime.metric_meter), end_if_frozen()):
            closing.callback(asyncio.create_task(watch).cancel)
        activities = await compose(settings, os.environ, closing)
        added = installed().client_plugins
        plugins = [
            each for extension in added for each in extension.list_of(Plugin, "client plug-ins", settings, closing)
        ]
        client = await _connect(settings, stop, runtime, plugins)
        if client is None:
            return
        async with polling(client, settings, activities, member):
            if settings.metrics_address:
                queues = queues_in_use(settings)
                measuring = measure_server(client, activity_slots(settings), queues, runtime.metric_meter)
                closing.callback(asyncio.create_task(measuring).cancel)
            closing.callback(asyncio.create_task(report_unusable(settings)).cancel)
            gc.freeze()  # as in `worker.start`, with the SDKs that composing has loaded
            announce()
            await stop.wait()


@asynccontextmanager
async def polling(
    client: Client, settings: Settings, activities: Sequence[Callable[..., object]], member: int | None = None
) -> AsyncGenerator[None]:
    """Poll for work; on leaving, let in-flight calls finish within the grace period."""
    async with AsyncExitStack() as running:
        await take_over(client, settings.state_dir)
        try:
            workers = build_workers(client, settings, activities, interceptors=_list_activities(settings, running))
        except (AttributeError, TypeError, ValueError) as error:
            raise SettingsError(f"The worker cannot be built: {error}. Check what its plug-ins add.") from error
        await check_builds(client, settings)
        await _warn_if_unlisted(client)
        for extension in installed().hooks.get(Hook.WORKER_START, ()):
            with extension.calling("start of a worker"):
                await extension.load_function()(client, settings)
        for worker in workers:
            await running.enter_async_context(worker)
        await running.enter_async_context(health_file(settings.health_file, member=member, members=settings.processes))
        yield


def _list_activities(settings: Settings, closing: AsyncExitStack) -> Sequence[Interceptor]:
    """List running activities for the next worker of this host, if the state directory supports that."""
    try:
        listed = RunningActivities(settings.state_dir)
    except OSError as error:
        _logger.warning("running activities cannot be listed", extra={"problem": error.strerror})
        return ()
    closing.callback(listed.close)
    return (listed,)


async def report_unusable(settings: Settings) -> None:
    """Log each place and service of the settings that a trial finds unusable; sessions may go on without it."""
    for extension in installed().examinations_at_start:
        with extension.calling("examination"):
            for choice in require_each(Choice, await extension.load_function()(settings, os.environ)):
                if choice.problem:
                    _logger.error("%s %s (%s): %s", choice.backend, choice.adapter, choice.why, choice.problem)


async def _warn_if_unlisted(client: Client) -> None:
    with suppress(RPCError):
        if missing := await missing_attributes(client):
            _logger.warning(
                "search attributes are missing: sessions can be listed, but not by state, crew or tenant; "
                "register them with `chargehand setup`",
                extra={"missing": list(missing)},
            )


@asynccontextmanager
async def serving(client: Client, settings: Settings) -> AsyncGenerator[None]:
    """Run a worker on another program's client, with Chargehand's data converter."""
    async with AsyncExitStack() as closing:
        activities = await compose(settings, os.environ, closing)
        config = client.config()
        config["data_converter"] = converter(settings, client.namespace)
        async with polling(Client(**config), settings, activities):
            announce_polling(settings)
            yield


def build_runtime(settings: Settings) -> Runtime:
    """Build the SDK's runtime with metrics and logs.

    Raises:
        SettingsError: the metrics address is unusable.
    """
    prometheus = None
    if settings.metrics_address:
        prometheus = PrometheusConfig(
            bind_address=settings.metrics_address, durations_as_seconds=True, histogram_bucket_overrides=BUCKETS
        )
    try:
        return Runtime(telemetry=TelemetryConfig(logging=SDK_LOGGING, metrics=prometheus))
    except (ValueError, RuntimeError) as error:
        raise SettingsError(
            f"CHARGEHAND_METRICS_ADDRESS: {settings.metrics_address} cannot be used: {error}"
        ) from error


def converter(settings: Settings, namespace: str) -> DataConverter:
    storage = storage_from(settings.storage, namespace, settings.storage_threshold, results=settings.storage_results)
    return data_converter(encryption(settings), storage)


async def _connect(
    settings: Settings, stop: asyncio.Event, runtime: Runtime, plugins: Sequence[Plugin]
) -> Client | None:
    """Connect, waiting as long as the server takes to start; None if the worker is stopped first."""
    options = connection_settings()
    target = options.setdefault("target_host", USUAL)
    compression = grpc_compression(target)
    payloads = converter(settings, options.get("namespace") or "default")
    delay = 0.05
    while not stop.is_set():
        try:
            with explained(target):
                return await Client.connect(
                    **options, grpc_compression=compression, data_converter=payloads, runtime=runtime, plugins=plugins
                )
        except ChargehandError as error:
            if not isinstance(error.__cause__, RuntimeError | RPCError):
                raise
            _logger.warning("no Temporal server yet", extra={"problem": str(error)})
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await stop.wait()
        delay = min(delay * 2, 5.0)
    return None


def announce_polling(settings: Settings) -> None:
    _logger.info("worker polls", extra={"task_queue": settings.task_queue, "build": settings.build_id or own_build()})
