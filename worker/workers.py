"""Builds the Temporal workers for sessions, model turns and tools, and identifies their build."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from inspect import getfile
from pathlib import Path
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Interceptor, PollerBehaviorSimpleMaximum, Worker, WorkerDeploymentConfig

from activities.backends import SettingsError
from activities.caller_check import CallerCheck
from activities.opening.backlogs import describe_queue, is_recent
from activities.turn.activity import TurnActivities
from activities.turn.tool_use import ToolActivities
from chargehand.contracts import Contract
from chargehand.plugins import installed
from chargehand.visibility import build_of
from worker.composition import activity_slots, turns_queue
from worker.heartbeat_sender import Heartbeats, heartbeat_throttle, set_heartbeat_timeout
from worker.logs import LogFailedAttempts
from worker.settings import Settings
from worker.shutdown import GRACEFUL_SHUTDOWN_TIMEOUT
from worker.slots import POLLS, WORKFLOW_POLLS, PacedSlots, paced_tuner
from workflows.registry import INTERCEPTORS, WORKFLOWS, added_workflows, workflow_runner
from workflows.supervisor import SupervisorWorkflow

_logger: Final = logging.getLogger("chargehand.worker")
_INSIDE: Final = (SettingsError, SupervisorWorkflow, Contract)
"""One module from each package whose code affects workflow decisions."""
_DIGITS: Final = 12
_CODE: Final = frozenset({".py", ".json", ".md"})
"""Suffixes of modules, and of the word lists and prompts next to them."""


def build_workers(
    client: Client,
    settings: Settings,
    activities: Sequence[Callable[..., object]],
    *,
    interceptors: Sequence[Interceptor] = (),
) -> Sequence[Worker]:
    """Build a worker for each task queue of this process: sessions, model turns and tool calls.

    The server enforces the rate of turns. Turns of sessions opened without a separate queue stay with the
    worker of sessions.
    """
    turns = turns_queue(settings)
    functions = {each.__name__: each for each in activities}

    def build(queue: str, at_once: int) -> Worker:
        if queue == settings.task_queue:
            return build_worker(client, settings, activities, interceptors=interceptors)
        activity = TurnActivities.take_turn if queue == turns else ToolActivities.use_tool
        return _worker(
            client,
            settings,
            queue,
            PacedSlots(at_once),
            activities=[functions[activity.__name__]],
            interceptors=[*interceptors, *_added_interceptors(client, settings)],
            per_second=settings.requests_per_second if queue == turns else None,
        )

    return [build(queue, at_once) for queue, at_once in activity_slots(settings).items()]


def build_worker(
    client: Client,
    settings: Settings,
    activities: Sequence[Callable[..., object]],
    *,
    cached_workflows: int = 1_000,
    interceptors: Sequence[Interceptor] = (),
) -> Worker:
    """Build the worker of sessions, which also runs everything without a separate task queue."""
    return _worker(
        client,
        settings,
        settings.task_queue,
        PacedSlots(settings.max_activities),
        activities=activities,
        workflows=[*WORKFLOWS, *added_workflows(with_versioning=bool(settings.deployment))],
        nexus_handlers=[each.build(object, "Nexus handler") for each in installed().nexus_handlers],
        cached_workflows=cached_workflows,
        interceptors=[
            *interceptors,
            *_added_interceptors(client, settings),
            *INTERCEPTORS,
            set_heartbeat_timeout(timedelta(seconds=settings.heartbeat_timeout)),
        ],
    )


def _worker(
    client: Client,
    settings: Settings,
    queue: str,
    slots: PacedSlots,
    *,
    activities: Sequence[Callable[..., object]],
    interceptors: Sequence[Interceptor],
    workflows: Sequence[type] = (),
    nexus_handlers: Sequence[object] = (),
    cached_workflows: int = 0,
    per_second: float | None = None,
) -> Worker:
    throttle = heartbeat_throttle(timedelta(seconds=settings.heartbeat_timeout))
    return Worker(
        client,
        task_queue=queue,
        workflows=workflows,
        activities=activities,
        nexus_service_handlers=nexus_handlers,
        nexus_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
        workflow_runner=workflow_runner(),
        interceptors=[*interceptors, LogFailedAttempts(), Heartbeats(slots), CallerCheck(settings.task_queue)],
        build_id=None if settings.deployment else own_build(),
        deployment_config=_deployment(settings),
        max_cached_workflows=cached_workflows,
        disable_payload_error_limit=True,  # a refusal repeats the whole update; the data converter has the limits
        tuner=paced_tuner(slots),
        max_concurrent_activity_task_polls=POLLS,
        max_concurrent_workflow_task_polls=WORKFLOW_POLLS,
        nonsticky_to_sticky_poll_ratio=0.5,
        max_task_queue_activities_per_second=per_second,
        graceful_shutdown_timeout=GRACEFUL_SHUTDOWN_TIMEOUT,
        # Tasks of a killed worker's workflows move to another worker after this time instead of after ten seconds.
        # With one second, a merely busy worker would replay whole histories.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        max_heartbeat_throttle_interval=throttle,
        default_heartbeat_throttle_interval=throttle,
    )


def _added_interceptors(client: Client, settings: Settings) -> list[Interceptor]:
    added = installed().interceptors
    return [each for extension in added for each in extension.list_of(Interceptor, "interceptors", settings, client)]


def _deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    if not settings.deployment:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=settings.deployment, build_id=settings.build_id or own_build()),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


@cache
def own_build() -> str:
    """Return this build's id, the same wherever the same code is installed; takes hundredths of a second."""
    digest = hashlib.sha256()
    for each in _INSIDE:
        package = Path(getfile(each)).parents[each.__module__.count(".") - 1]
        for file in sorted(file for file in package.rglob("*.*") if file.suffix in _CODE):
            digest.update(f"{file.relative_to(package.parent).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:_DIGITS]


async def check_builds(client: Client, settings: Settings) -> None:
    """Report other builds that poll the task queue of sessions; refuse a queue that would give this worker no tasks.

    Raises:
        SettingsError: the queue belongs to a versioned deployment, and this worker has none.
    """
    if "sessions" not in settings.roles:
        return
    queue = settings.task_queue
    described = await describe_queue(client, queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
    current = described.versioning_info.current_deployment_version
    own = f"{settings.deployment}.{settings.build_id or own_build()}" if settings.deployment else own_build()
    if current.build_id and not settings.deployment:
        raise SettingsError(
            f"Task queue '{queue}' belongs to build '{current.deployment_name}.{current.build_id}', and this worker "
            f"is build '{own}' of no deployment, which gets no sessions. Set CHARGEHAND_DEPLOYMENT="
            f"{current.deployment_name}, and make the build the current one."
        )
    others = {".".join(filter(None, build_of(each))) for each in described.pollers if is_recent(each)} - {own}
    if others and not settings.deployment:
        _logger.warning(
            "task queue '%s' is polled by build %s too, and this worker is build %s: end the others after an update",
            queue,
            ", ".join(sorted(others)),
            own,
        )
