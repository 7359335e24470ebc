"""The build of a worker: a digest of its own code, by which workers on one task queue are told apart."""

import hashlib
import logging
from functools import cache
from inspect import getfile
from pathlib import Path
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client

from activities.backends import SettingsError
from activities.opening.backlogs import describe_queue, is_recent
from chargehand.contracts import Contract
from chargehand.visibility import build_of
from worker.settings import Settings
from workflows.supervisor import SupervisorWorkflow

_logger: Final = logging.getLogger("chargehand.worker")
_INSIDE: Final = (SettingsError, SupervisorWorkflow, Contract)
"""One of each package whose code decides how sessions go on."""
_DIGITS: Final = 12


@cache
def own_build() -> str:
    """Name this build: the same wherever the same code is installed. It takes a few hundredths of a second."""
    digest = hashlib.sha256()
    for each in _INSIDE:
        above = each.__module__.count(".")
        package = Path(getfile(each)).parents[above - 1]
        for file in sorted(package.rglob("*.py")):
            digest.update(f"{file.relative_to(package.parent).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:_DIGITS]


async def check_builds(client: Client, settings: Settings) -> None:
    """Say which other builds poll the task queue of sessions; refuse to serve one that would give this worker nothing.

    Raises:
        SettingsError: by Worker Versioning the queue belongs to a deployment, and this worker has none.
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
