"""The worker: settings become adapters, adapters become activities, and the worker polls until it is told to stop.

The only place that reads the environment. `--explain` prints what the settings choose, and why, as JSON;
`--replay FILE` replays recorded histories on the workflows that are here, and `--verify FILE` looks quotations up in
their documents: both print a line of JSON for each.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import Worker, WorkerDeploymentConfig

from activities.backends import (
    artifact_store,
    code_runner,
    conversation_store,
    document_downloads,
    document_library,
    encryption,
    model_adapter,
    model_cards,
    tools_by_name,
)
from activities.crews import CrewError, load_crews
from activities.documents.cleanup import sweep
from activities.heartbeats import BEAT_SECONDS
from activities.log_redaction import SDK_LOGGING, leave_no_core, log_discreetly
from activities.model_turn.activity import TurnActivities
from activities.model_turn.conversations import Conversations
from activities.model_turn.resets import RunningDuplicateActivities
from activities.models.registry import Models
from activities.selection import Choice, absent_tools, choose
from activities.session_facts import SessionActivities
from activities.settings import NoJson, Settings, SettingsError, describe_unknown, describe_unusable
from activities.tool_use import ToolActivities
from activities.tools import tool_capabilities
from activities.watchdog import watch_event_loop
from chargehand.converter import data_converter
from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.payloads.settings import Protection, storage_from
from workflows.registry import WORKFLOWS, RefuseBadInput, workflow_runner
from workflows.replay import HistoriesError
from workflows.replay import replay as replayed

_HERE: Final = Path(__file__).resolve().parent
_GRACE: Final = timedelta(seconds=30)
"""How long calls that are under way may take to finish when a worker is told to stop."""
_BEAT: Final = timedelta(seconds=BEAT_SECONDS)
_ANY_BUILD: Final = "chargehand"
"""Named, since the default is a digest of every loaded module, which takes a second."""
_logger = logging.getLogger("chargehand.worker")


async def compose(settings: Settings, closing: AsyncExitStack) -> Sequence[Callable[..., object]]:
    """Build the adapters that the settings choose, and the activities on top of them."""
    chosen = {choice.backend: choice.adapter for choice in choose(settings)}
    sealing = encryption(settings)
    store = artifact_store(settings, sealing)
    library = document_library(settings, store)
    conversations = Conversations(conversation_store(settings, store, sealing))
    kept = [settings.state_dir / name for name in ("indexes", "fetched-artifacts", "downloads", "conversations")]
    sweeping = asyncio.create_task(asyncio.to_thread(sweep, kept, timedelta(days=settings.index_days)))
    closing.callback(sweeping.cancel)
    runner = await code_runner(settings, chosen["code"], closing)
    tools = tools_by_name(settings, chosen, library, store, runner=runner, closing=closing)
    crews = load_crews(
        [_HERE / "crews", *([settings.crews] if settings.crews else [])],
        tool_capabilities(tools),
        absent=absent_tools(chosen),
    )
    models = Models(
        adapter=model_adapter(settings, chosen["model"], closing), cards=model_cards(settings, chosen["model"])
    )
    return [
        SessionActivities(crews, models, tools, settings.ceilings, turns_queue=turns_queue(settings)).open_session,
        TurnActivities(crews, models, tools, library, conversations).take_turn,
        ToolActivities(crews, tools, library).use_tool,
        RunningDuplicateActivities().await_duplicate,
    ]


def turns_queue(settings: Settings) -> str | None:
    """Name the task queue of model turns: one of their own if their rate is limited, since a queue has one limit."""
    return f"{settings.task_queue}-models" if settings.requests_per_second else None


def build_turns_worker(
    client: Client, settings: Settings, activities: Sequence[Callable[..., object]]
) -> Worker | None:
    """Build the worker of model turns, if their rate is limited; the server holds the limit, whoever asks it for work.

    Turns of sessions that were opened without the limit stay with the other worker.
    """
    task_queue = turns_queue(settings)
    if task_queue is None:
        return None
    return Worker(
        client,
        task_queue=task_queue,
        activities=[one for one in activities if one.__name__ == TurnActivities.take_turn.__name__],
        build_id=None if settings.build_id else _ANY_BUILD,
        deployment_config=_deployment(settings),
        max_concurrent_activities=settings.max_activities,
        max_task_queue_activities_per_second=settings.requests_per_second,
        graceful_shutdown_timeout=_GRACE,
        max_heartbeat_throttle_interval=_BEAT,
        default_heartbeat_throttle_interval=_BEAT,
    )


def build_worker(
    client: Client, settings: Settings, activities: Sequence[Callable[..., object]], *, cached_workflows: int = 1_000
) -> Worker:
    """Build the worker of a connected client."""
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=WORKFLOWS,
        activities=activities,
        workflow_runner=workflow_runner(),
        interceptors=[RefuseBadInput()],
        build_id=None if settings.build_id else _ANY_BUILD,
        deployment_config=_deployment(settings),
        max_cached_workflows=cached_workflows,
        max_concurrent_activities=settings.max_activities,
        max_concurrent_activity_task_polls=20,
        graceful_shutdown_timeout=_GRACE,
        # A killed worker's workflows go on elsewhere after this long, instead of after ten seconds.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_heartbeat_throttle_interval=_BEAT,
        default_heartbeat_throttle_interval=_BEAT,
    )


def _deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    """Keep sessions, with everything below them, on the build that they began on, if builds have names here."""
    if not settings.deployment or not settings.build_id:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=settings.deployment, build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


async def run(settings: Settings) -> None:
    """Poll until SIGTERM or SIGINT; calls that are under way get half a minute to finish."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runtime = _runtime(settings)
    async with AsyncExitStack() as closing:
        watching = asyncio.create_task(watch_event_loop(runtime.metric_meter))
        closing.callback(watching.cancel)
        activities = await compose(settings, closing)
        client = await _connected(settings, stop, runtime)
        if client is None:
            return
        workers = [build_worker(client, settings, activities), build_turns_worker(client, settings, activities)]
        async with AsyncExitStack() as polling:
            for worker in filter(None, workers):
                await polling.enter_async_context(worker)
            _logger.info("worker polls", extra={"task_queue": settings.task_queue})
            await stop.wait()


def protection(settings: Settings, namespace: str) -> Protection:
    """Build what protects payloads, as far as the settings ask for it."""
    return Protection(encryption(settings), storage_from(settings.storage, namespace, settings.storage_threshold))


def _runtime(settings: Settings) -> Runtime:
    address = settings.metrics_address
    metrics = PrometheusConfig(bind_address=address, durations_as_seconds=True) if address else None
    try:
        return Runtime(telemetry=TelemetryConfig(logging=SDK_LOGGING, metrics=metrics))
    except (ValueError, RuntimeError) as error:
        raise SettingsError(
            f"CHARGEHAND_METRICS_ADDRESS: {settings.metrics_address} cannot be used: {error}"
        ) from error


def _converter(settings: Settings, namespace: str) -> DataConverter:
    protected = protection(settings, namespace)
    return data_converter(protected.encryption, protected.storage)


async def _connected(settings: Settings, stop: asyncio.Event, runtime: Runtime) -> Client | None:
    """Connect, however long the server takes to come up; None if the worker is told to stop meanwhile."""
    options = ClientConfig.load_client_connect_config()
    converter = _converter(settings, options.get("namespace") or "default")
    delay = 0.05
    while not stop.is_set():
        try:
            return await Client.connect(**options, data_converter=converter, runtime=runtime)
        except RuntimeError as error:
            _logger.warning("no Temporal server yet", extra={"problem": str(error)})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay)
        delay = min(delay * 2, 5.0)
    return None


async def explain(settings: Settings) -> str:
    """Say what the settings choose, and why, as JSON."""
    active = [vars(await _tried(settings, choice)) for choice in choose(settings)]
    unknown = describe_unknown(os.environ)
    return json.dumps({"active": active, "unknown": unknown, "task_queue": settings.task_queue})


async def _tried(settings: Settings, choice: Choice) -> Choice:
    """Try out the sandbox that a worker would refuse to start with."""
    if choice.adapter != "bubblewrap":
        return choice
    try:
        async with AsyncExitStack() as closing:
            await code_runner(settings, choice.adapter, closing)
    except SettingsError as error:
        return replace(choice, problem=str(error))
    return replace(choice, why=f"{choice.why}; its self-test passes on this host")


async def replay(settings: Settings, file: Path) -> int:
    """Replay the histories of a file, whose payloads are protected as the settings say; 1 if one differs."""
    namespace = ClientConfig.load_client_connect_config().get("namespace") or "default"
    differs = 0
    async for each in replayed(file, _converter(settings, namespace)):
        sys.stdout.write(each.to_json() + "\n")
        differs = 1 if each.problem else differs
    return differs


async def verify(settings: Settings, file: Path) -> int:
    """Look the quotations of a file up in its documents; 1 if one does not stand there."""
    from activities.documents.verify import Quotations, verify_sources

    asked = Quotations.model_validate_json(await asyncio.to_thread(file.read_bytes))
    store = artifact_store(settings, encryption(settings))
    downloads = document_downloads(settings, store)
    checks = await verify_sources(asked.documents, asked.sources, store, settings.document_roots, downloads)
    sys.stdout.writelines(each.model_dump_json() + "\n" for each in checks)
    return 0 if all(each.stands for each in checks) else 1


def main(arguments: Sequence[str]) -> int:
    """Run the worker, or explain what it would use, or replay histories, or look quotations up."""
    try:
        settings = Settings()
        if "--explain" in arguments:
            sys.stdout.write(asyncio.run(explain(settings)) + "\n")
            return 0
        for option, check in (("--replay", replay), ("--verify", verify)):
            if option in arguments:
                logging.basicConfig(level=logging.ERROR)
                Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))  # it would log among the results
                return asyncio.run(check(settings, Path(arguments[arguments.index(option) + 1])))
        log_discreetly(settings.log_level)
        leave_no_core()
        for each in describe_unknown(os.environ):
            _logger.warning(each)
        asyncio.run(run(settings))
    except (ValidationError, NoJson) as error:
        sys.stderr.write(f"The worker's settings cannot be used: {describe_unusable(error)}\n")
        return 2
    except HistoriesError as error:
        sys.stderr.write(f"Nothing can be replayed: {error}\n")
        return 2
    except (SettingsError, CrewError, ProtectionSettingsError) as error:
        sys.stderr.write(f"The worker cannot start: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # The SDK's own threads can abort a process that ends the ordinary way (temporalio/sdk-python#300).
    os._exit(code)
