"""Temporal workers as the settings want them: of sessions, of model turns, of tools."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Interceptor, PollerBehaviorSimpleMaximum, Worker, WorkerDeploymentConfig

from activities.caller_check import CallerCheck
from activities.queues import Kind, queue_name
from activities.turn.activity import TurnActivities
from activities.turn.tool_use import ToolActivities
from chargehand.caller_key import CallerKey
from chargehand.plugins import installed
from worker.caller_key import RequireCallerKey
from worker.composition import turns_queue
from worker.heartbeat_sender import Heartbeats, SetHeartbeatTimeout, heartbeat_throttle
from worker.settings import Settings
from worker.slots import POLLS, PacedSlots, paced_tuner
from workflows.metrics import SessionMetrics
from workflows.registry import WORKFLOWS, RefuseBadInput, added_workflows, workflow_runner

GRACE: Final = timedelta(seconds=30)
"""How long in-flight calls may take to finish when a worker is told to stop."""
_ANY_BUILD: Final = "chargehand"
"""Named, since the default is a digest of every loaded module, which takes a second."""


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
        interceptors=[*interceptors, *_added(client, settings), Heartbeats(slots), CallerCheck(settings.task_queue)],
        build_id=None if settings.build_id else _ANY_BUILD,
        deployment_config=_deployment(settings),
        tuner=paced_tuner(slots),
        max_task_queue_activities_per_second=per_second,
        graceful_shutdown_timeout=GRACE,
        max_heartbeat_throttle_interval=heartbeat_throttle(timedelta(seconds=settings.heartbeat_timeout)),
        default_heartbeat_throttle_interval=heartbeat_throttle(timedelta(seconds=settings.heartbeat_timeout)),
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
        workflows=[*WORKFLOWS, *added_workflows(with_versioning=bool(settings.deployment))],
        activities=activities,
        nexus_service_handlers=[extension.load(type)() for extension in installed().nexus_handlers],
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
        graceful_shutdown_timeout=GRACE,
        # Tasks of a killed worker's workflows move to another worker after this long, instead of after ten seconds.
        # With one second, a worker that is merely busy replays whole histories.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        max_heartbeat_throttle_interval=heartbeat_throttle(timedelta(seconds=settings.heartbeat_timeout)),
        default_heartbeat_throttle_interval=heartbeat_throttle(timedelta(seconds=settings.heartbeat_timeout)),
    )


def _added(client: Client, settings: Settings) -> list[Interceptor]:
    """Return the interceptors that plug-ins add."""
    return [each for extension in installed().interceptors for each in extension.load_function()(settings, client)]


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
