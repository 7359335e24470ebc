"""The worker: settings become adapters, adapters become activities, and the worker polls until it is told to stop.

Only this module reads the environment. Its verbs serve `chargehand` commands: `--check-settings` checks the settings
only, and the others print JSON: `--explain` prints the chosen adapters and the reasons, `--replay FILE` replays
recorded histories.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from pydantic import ValidationError
from temporalio.client import Client, Plugin
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import Interceptor, PollerBehaviorSimpleMaximum, Worker, WorkerDeploymentConfig

from activities.backends import SettingsError
from activities.caller_check import CallerCheck
from activities.composition import activity_slots, choose, compose, encryption, ledgers, turns_queue
from activities.crew_files import CrewError
from activities.health import health_file
from activities.heartbeats import LIVE_SECONDS, Heartbeats
from activities.logs import SDK_LOGGING, configure_logging, disable_core_dumps, writes_json
from activities.metrics import BUCKETS
from activities.model_turn.activity import TurnActivities
from activities.nexus import SessionOperations
from activities.process_group import BAD_SETTINGS, ProcessGroup
from activities.queues import Kind, queue_name
from activities.self_checks import explain, list_crews
from activities.server_gauges import measure_server
from activities.settings import Settings, describe_unusable, settings_type
from activities.slots import POLLS, PacedSlots, paced_tuner
from activities.takeover import RunningActivities, take_over
from activities.tool_use import ToolActivities
from activities.watchdog import watch_event_loop
from chargehand.caller_key import CallerKey
from chargehand.connecting import grpc_compression
from chargehand.converter import data_converter
from chargehand.environment import describe_unknown
from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.payloads.settings import storage_from
from chargehand.plugins import PluginError, installed, require_usable
from chargehand.search_attributes import missing_attributes
from workflows.caller_key import RequireCallerKey
from workflows.heartbeat_timeout import SetHeartbeatTimeout
from workflows.metrics import SessionMetrics
from workflows.options import HEARTBEAT_TIMEOUT
from workflows.registry import WORKFLOWS, RefuseBadInput, versioned, workflow_runner
from workflows.replay import HistoriesError
from workflows.replay import replay as replay_histories

_GRACE: Final = timedelta(seconds=30)
"""How long in-flight calls may take to finish when a worker is told to stop."""
_ANY_BUILD: Final = "chargehand"
"""Named, since the default is a digest of every loaded module, which takes a second."""
_logger = logging.getLogger("chargehand.worker")


def build_turns_worker(
    client: Client,
    settings: Settings,
    activities: Sequence[Callable[..., object]],
    *,
    interceptors: Sequence[Interceptor] = (),
) -> Worker | None:
    """Build the worker of model turns, or None if they have no queue of their own, or this worker takes none.

    The server enforces the rate. Turns of sessions that were opened without a queue of their own stay with the other
    worker.
    """
    task_queue = turns_queue(settings)
    if task_queue is None or "models" not in settings.roles:
        return None
    return _activity_worker(
        client,
        settings,
        task_queue,
        _named(activities, TurnActivities.take_turn),
        settings.queues.get("models", settings.max_activities),
        per_second=settings.requests_per_second,
        interceptors=interceptors,
    )


def build_tool_workers(
    client: Client,
    settings: Settings,
    activities: Sequence[Callable[..., object]],
    *,
    interceptors: Sequence[Interceptor] = (),
) -> Sequence[Worker]:
    """Build the workers of tool calls that have a queue of their own, each with its own slots."""
    kinds: tuple[Kind, ...] = ("tools", "sandboxes")
    return [
        _activity_worker(
            client,
            settings,
            queue_name(settings.task_queue, kind),
            _named(activities, ToolActivities.use_tool),
            settings.queues[kind],
            interceptors=interceptors,
        )
        for kind in kinds
        if kind in settings.queues and kind in settings.roles
    ]


def _named(activities: Iterable[Callable[..., object]], wanted: Callable[..., object]) -> Callable[..., object]:
    return next(each for each in activities if each.__name__ == wanted.__name__)


def _activity_worker(
    client: Client,
    settings: Settings,
    task_queue: str,
    function: Callable[..., object],
    at_once: int,
    *,
    per_second: float | None = None,
    interceptors: Sequence[Interceptor] = (),
) -> Worker:
    """Build the worker of one activity on a queue of its own."""
    slots = PacedSlots(at_once)
    return Worker(
        client,
        task_queue=task_queue,
        activities=[function],
        interceptors=[
            *interceptors,
            *_added(client, settings),
            Heartbeats(slots),
            CallerCheck(settings.task_queue),
        ],
        build_id=None if settings.build_id else _ANY_BUILD,
        deployment_config=_deployment(settings),
        tuner=paced_tuner(slots),
        max_task_queue_activities_per_second=per_second,
        graceful_shutdown_timeout=_GRACE,
        max_heartbeat_throttle_interval=_heartbeat_throttle(settings),
        default_heartbeat_throttle_interval=_heartbeat_throttle(settings),
    )


def build_worker(
    client: Client,
    settings: Settings,
    activities: Sequence[Callable[..., object]],
    *,
    cached_workflows: int = 1_000,
    interceptors: Sequence[Interceptor] = (),
) -> Worker:
    """Build the worker of a connected client."""
    slots = PacedSlots(settings.max_activities)
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=versioned(WORKFLOWS) if settings.deployment else WORKFLOWS,
        activities=activities,
        nexus_service_handlers=[SessionOperations()],
        nexus_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
        workflow_runner=workflow_runner(),
        interceptors=[
            *interceptors,
            *_added(client, settings),
            SessionMetrics(),
            RefuseBadInput(),
            *_required_key(settings),
            SetHeartbeatTimeout(timedelta(seconds=settings.heartbeat_timeout)),
            Heartbeats(slots),
            CallerCheck(settings.task_queue),
        ],
        build_id=None if settings.build_id else _ANY_BUILD,
        deployment_config=_deployment(settings),
        max_cached_workflows=cached_workflows,
        tuner=paced_tuner(slots),
        max_concurrent_activity_task_polls=POLLS,
        graceful_shutdown_timeout=_GRACE,
        # Tasks of a killed worker's workflows move to another worker after this long, instead of after ten seconds.
        # With one second, a worker that is merely busy replays whole histories.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        max_heartbeat_throttle_interval=_heartbeat_throttle(settings),
        default_heartbeat_throttle_interval=_heartbeat_throttle(settings),
    )


def _added(client: Client, settings: Settings) -> list[Interceptor]:
    """Return the interceptors that plug-ins add."""
    return [each for extension in installed().interceptors for each in extension.load_function()(settings, client)]


def _heartbeat_throttle(settings: Settings) -> timedelta:
    """Return how far apart the SDK sends the heartbeats of an activity at least, however many there are."""
    return timedelta(seconds=LIVE_SECONDS) * (settings.heartbeat_timeout / HEARTBEAT_TIMEOUT.total_seconds())


def _required_key(settings: Settings) -> list[Interceptor]:
    key = settings.caller_key
    return [RequireCallerKey(CallerKey(key.get_secret_value()))] if key else []


def _deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    """Pin sessions, and everything below them, to the build that they began on, if this worker names its build."""
    if not settings.deployment or not settings.build_id:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=settings.deployment, build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


async def run(settings: Settings, announce: Callable[[], None], member: int | None = None) -> None:
    """Poll until SIGTERM or SIGINT, then let in-flight calls finish within the grace period; announce the polling.

    A member of a group of processes has a number.
    """
    if not settings.artifacts:
        os.umask(0o077)  # whatever is written below the state directory is for this user alone
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runtime = build_runtime(settings)
    async with AsyncExitStack() as closing:
        watching = asyncio.create_task(watch_event_loop(runtime.metric_meter))
        closing.callback(watching.cancel)
        activities = await compose(settings, os.environ, closing)
        client = await _connected(settings, stop, runtime, _client_plugins(settings, closing))
        if client is None:
            return
        if settings.metrics_address:
            measuring = measure_server(client, activity_slots(settings), runtime.metric_meter)
            closing.callback(asyncio.create_task(measuring).cancel)
        async with polling(client, settings, activities, member):
            announce()
            await stop.wait()


@asynccontextmanager
async def polling(
    client: Client, settings: Settings, activities: Sequence[Callable[..., object]], member: int | None = None
) -> AsyncGenerator[None]:
    """Poll for work; on leaving, let in-flight calls finish within the grace period."""
    async with AsyncExitStack() as running:
        await take_over(client, settings.state_dir)
        listed = _list_activities(settings, running)
        workers = [
            build_worker(client, settings, activities, interceptors=listed) if "sessions" in settings.roles else None,
            build_turns_worker(client, settings, activities, interceptors=listed),
            *build_tool_workers(client, settings, activities, interceptors=listed),
        ]
        await _warn_if_unlisted(client)
        if settings.tenants is not None:
            with suppress(RPCError):  # sessions that begin bring the limits, too
                await ledgers(settings).announce_limits(client)
        for worker in filter(None, workers):
            await running.enter_async_context(worker)
        healthy = health_file(settings.health_file, member=member, members=settings.processes)
        await running.enter_async_context(healthy)
        yield


def _list_activities(settings: Settings, closing: AsyncExitStack) -> Sequence[Interceptor]:
    """List what runs for the next worker of this host, where the state directory can hold that."""
    try:
        listed = RunningActivities(settings.state_dir)
    except OSError as error:
        _logger.warning("running activities cannot be listed", extra={"problem": error.strerror})
        return ()
    closing.callback(listed.close)
    return (listed,)


async def _warn_if_unlisted(client: Client) -> None:
    """Log which search attributes of sessions the namespace lacks; sessions run without them."""
    with suppress(RPCError):
        if missing := await missing_attributes(client):
            _logger.warning(
                "search attributes are missing: sessions can be listed, but not by state, crew or tenant; "
                "register them with `chargehand setup`",
                extra={"missing": list(missing)},
            )


@asynccontextmanager
async def serving(client: Client, settings: Settings) -> AsyncGenerator[None]:
    """Run a worker on a client of another program's, whose payloads it converts as Chargehand does."""
    async with AsyncExitStack() as closing:
        activities = await compose(settings, os.environ, closing)
        config = client.config()
        config["data_converter"] = _converter(settings, client.namespace)
        async with polling(Client(**config), settings, activities):
            _announce(settings)
            yield


def build_runtime(settings: Settings) -> Runtime:
    """Build the SDK's runtime, which keeps its metrics and logs.

    Raises:
        SettingsError: the address of the metrics cannot be used.
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


def _converter(settings: Settings, namespace: str) -> DataConverter:
    storage = storage_from(settings.storage, namespace, settings.storage_threshold, results=settings.storage_results)
    return data_converter(encryption(settings), storage)


def _client_plugins(settings: Settings, closing: AsyncExitStack) -> list[Plugin]:
    return [each for extension in installed().client_plugins for each in extension.load_function()(settings, closing)]


async def _connected(
    settings: Settings, stop: asyncio.Event, runtime: Runtime, plugins: Sequence[Plugin]
) -> Client | None:
    """Connect, however long the server takes to come up; None if the worker is told to stop first."""
    options = ClientConfig.load_client_connect_config()
    compression = grpc_compression(options.get("target_host"))
    converter = _converter(settings, options.get("namespace") or "default")
    delay = 0.05
    while not stop.is_set():
        try:
            return await Client.connect(
                **options, grpc_compression=compression, data_converter=converter, runtime=runtime, plugins=plugins
            )
        except RuntimeError as error:
            _logger.warning("no Temporal server yet", extra={"problem": str(error)})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay)
        delay = min(delay * 2, 5.0)
    return None


def _announce(settings: Settings) -> None:
    _logger.info("worker polls", extra={"task_queue": settings.task_queue})


def _run_member(settings: Settings, number: int, announce: Callable[[], None]) -> int:
    """Run one worker of a group, with an address of its own for its metrics."""
    return _reporting(lambda: _run_loop(run(settings.of_process(number), announce, number)), settings, is_worker=True)


def _run_loop(work: Coroutine[object, object, None]) -> None:
    """Run on uvloop where it is installed: an eighth of the processor time less."""
    uvloop = import_module("uvloop") if find_spec("uvloop") else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        runner.run(work)


async def replay(settings: Settings, file: Path) -> int:
    """Replay the histories of a file, and print one result per line; 1 if one of them diverges."""
    namespace = ClientConfig.load_client_connect_config().get("namespace") or "default"
    diverged = 0
    async for result in replay_histories(file, _converter(settings, namespace)):
        sys.stdout.write(result.to_json() + "\n")
        diverged = 1 if result.problem else diverged
    return diverged


_FILE_VERBS: Final[Mapping[str, Callable[[Settings, Path], Coroutine[object, object, int]]]] = {
    "--replay": replay,
    "--crews": list_crews,
}


def main(arguments: Sequence[str], settings: Settings | None = None) -> int:
    """Run the worker, or the verb that is the first argument, with these settings or those of the environment."""
    return _reporting(lambda: _run_verb(settings or _settings(), *arguments), settings, is_worker=not arguments)


def _settings() -> Settings:
    """Read the settings, those of the plug-ins included.

    Raises:
        PluginError: a plug-in cannot be used.
    """
    require_usable(installed())
    return settings_type()()


def _reporting(work: Callable[[], int | None], settings: Settings | None, *, is_worker: bool) -> int:
    """Do the work, and report why it cannot be done; a worker reports it in the form of its log."""
    try:
        return work() or 0
    except ValidationError as error:
        problem = f"The worker's settings cannot be used: {describe_unusable(error)}"
    except HistoriesError as error:
        problem = f"Nothing can be replayed: {error}"
    except (SettingsError, CrewError, PluginError, ProtectionSettingsError) as error:
        problem = f"The worker cannot start: {error}"
    if is_worker and writes_json(settings.log_format if settings else os.environ.get("CHARGEHAND_LOG_FORMAT", "")):
        configure_logging("INFO", "json")
        _logger.critical(problem)
    else:
        sys.stderr.write(f"{problem}\n")
    return BAD_SETTINGS


def _run_verb(settings: Settings, verb: str = "", file: str = "") -> int:
    if verb == "--check-settings":
        choose(settings)
        encryption(settings)
        ledgers(settings)
        return 0
    if verb == "--explain":
        return asyncio.run(explain(settings, os.environ))
    if verb in _FILE_VERBS:
        logging.basicConfig(level=logging.ERROR)
        # The runtime would otherwise write its log among the results.
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
        return asyncio.run(_FILE_VERBS[verb](settings, Path(file)))
    configure_logging(settings.log_level, settings.log_format, names_process=settings.processes > 1)
    disable_core_dumps()
    for warning in describe_unknown(os.environ):
        _logger.warning(warning)
    announce = partial(_announce, settings)
    if settings.processes > 1:
        return ProcessGroup(settings.processes, partial(_run_member, settings), announce).run()
    _run_loop(run(settings, announce))
    return 0


def run_program() -> NoReturn:
    """Do what the command line says, and exit at once.

    The SDK's own threads can abort a process that ends the ordinary way (temporalio/sdk-python#300).
    """
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run_program()
