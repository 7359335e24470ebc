"""`doctor`: find out why nothing happens."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from chargehand.cli.connection import Connection
from chargehand.cli.exits import Exit
from chargehand.cli.place import explain_command
from chargehand.cli.terminal import put
from chargehand.embedded.state import last_lines
from chargehand.errors import NotReachable
from chargehand.render.escaping import one_safe_line

if TYPE_CHECKING:
    from temporalio.client import Client

_LEAST_PYTHON: Final = (3, 11)
_WORKER_SECONDS: Final = 15
_EXPLAIN_SECONDS: Final = 30
_MOST_SESSIONS: Final = 200


class Findings:
    """What was found, put out line by line as it is found."""

    def __init__(self, write: Callable[[str], object] = put) -> None:
        self._write = write
        self.worst = Exit.DONE

    def fine(self, what: str) -> None:
        self._write(f"✔ {what}")

    def note(self, what: str) -> None:
        self._write(f"· {what}")

    def wrong(self, what: str, meaning: Exit = Exit.FAILED) -> None:
        self._write(f"✘ {what}")
        self.worst = max(self.worst, meaning)


async def examine(connection: Connection, findings: Findings) -> Exit:
    """Look at everything that a session needs; never raises for what is wrong with it."""
    _look_at_python(findings)
    await _look_at_application(connection, findings)
    try:
        await connection.open()
    except NotReachable as error:
        findings.wrong(str(error), Exit.UNREACHABLE)
        return findings.worst
    findings.fine(connection.describe())
    await _look_at_worker(connection, findings)
    await _look_at_sessions(connection.chargehand.client, findings)
    await _look_at_strangers(connection, findings)
    return findings.worst


def _look_at_python(findings: Findings) -> None:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] >= _LEAST_PYTHON:
        findings.fine(f"Python {version} at {sys.executable}")
    else:
        findings.wrong(f"Python {version}: 3.11 or newer is needed")


async def _look_at_application(connection: Connection, findings: Findings) -> None:
    place = connection.place
    if place.temporal:
        version = await _output_of(place.temporal, "--version")
        findings.fine(f"{one_safe_line(version) or 'temporal'} at {place.temporal}")
    findings.note(f"State directory {place.state}")
    if place.artefacts is None:
        findings.note("Documents cannot be uploaded: no --artefacts or CHARGEHAND_ARTEFACTS names a shared directory")
    if place.application is None:
        findings.note("No checkout here, so nothing is known of the worker's settings")
        return
    if not place.is_embedded:
        findings.note("What a worker of this checkout would use here; those of the server may be set otherwise:")
    try:
        said = await _output_of(*explain_command(place.application), directory=place.application)
        active = cast("list[dict[str, str]]", cast("dict[str, Any]", json.loads(said))["active"])
    except (OSError, ValueError, KeyError, TypeError, TimeoutError) as error:
        findings.wrong(f"The worker's settings cannot be used: {one_safe_line(str(error), 600)}")
        return
    for each in active:
        findings.fine(one_safe_line(f"{each['neighbour']}: {each['adapter']} ({each['why']})"))


async def _output_of(*command: str | Path, directory: Path | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_EXPLAIN_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise TimeoutError(f"{command[0]} does not answer") from None
    if process.returncode:
        raise ValueError(errors.decode(errors="replace").strip()[-600:])
    return output.decode(errors="replace").strip()


async def _look_at_worker(connection: Connection, findings: Findings) -> None:
    queue = connection.place.task_queue
    give_up_at = time.monotonic() + (_WORKER_SECONDS if connection.place.is_embedded else 0)
    while True:
        pollers = await _pollers(connection.chargehand.client, queue)
        if pollers:
            findings.fine(f"{len(pollers)} worker(s) on task queue '{queue}': {one_safe_line(', '.join(pollers), 300)}")
            return
        if time.monotonic() >= give_up_at:
            break
        await asyncio.sleep(0.2)
    log = connection.place.worker_log
    said = f" The end of {log}:\n{last_lines(log)}" if connection.place.is_embedded else ""
    findings.wrong(f"No worker polls the task queue '{queue}': sessions wait until one does.{said}", Exit.UNREACHABLE)


async def _pollers(client: "Client", queue: str) -> list[str]:
    from temporalio.api.enums.v1 import TaskQueueType  # noqa: PLC0415  # slow to load
    from temporalio.api.taskqueue.v1 import TaskQueue  # noqa: PLC0415  # as above
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest  # noqa: PLC0415  # as above

    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    return sorted({poller.identity for poller in answer.pollers})


async def _look_at_sessions(client: "Client", findings: Findings) -> None:
    """Name the workflows whose task fails again and again: they look like running ones to everybody else."""
    from chargehand.wire import WorkflowType  # noqa: PLC0415  # beside its only use

    types = " OR ".join(f"WorkflowType = '{each}'" for each in WorkflowType)
    running = 0
    stuck = 0
    query = f"ExecutionStatus = 'Running' AND ({types})"
    async for execution in client.list_workflows(query, limit=_MOST_SESSIONS):
        running += 1
        description = await client.get_workflow_handle(execution.id, run_id=execution.run_id).describe()
        task = description.raw_description.pending_workflow_task
        if task.attempt > 1:
            stuck += 1
            findings.wrong(
                f"{one_safe_line(execution.id)} does not get on: its workflow task is at attempt {task.attempt}. "
                "The worker's log says why; it goes on by itself once a worker can carry it on."
            )
    if not stuck:
        findings.fine(f"{running} session(s) and subtask(s) running, none of them stuck")


async def _look_at_strangers(connection: Connection, findings: Findings) -> None:
    """Name what runs on our task queue and is none of ours: no worker takes it up, and nobody else says so."""
    from chargehand.wire import WorkflowType  # noqa: PLC0415  # beside its only use

    ours = " AND ".join(f"WorkflowType != '{each}'" for each in WorkflowType)
    query = f"ExecutionStatus = 'Running' AND TaskQueue = '{connection.place.task_queue}' AND {ours}"
    async for execution in connection.chargehand.client.list_workflows(query, limit=_MOST_SESSIONS):
        kind = one_safe_line(execution.workflow_type, 60)
        meant = get_close_matches(execution.workflow_type, list(WorkflowType), n=1)
        hint = f"was '{meant[0]}' meant? " if meant else ""
        findings.wrong(
            f"{one_safe_line(execution.id)} waits for ever: no worker knows workflows of type '{kind}'; {hint}"
            "Terminate it, and start it again by its right name."
        )
