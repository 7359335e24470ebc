"""`doctor`: find out why nothing happens."""

import asyncio
import json
import os
import sys
import time
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, cast

from chargehand.errors import NotReachable
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.state import last_lines
from chargehand_cli.exit_codes import Exit
from chargehand_cli.findings import Findings
from chargehand_cli.location import application_command
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.stuck_sessions import look_at_sessions
from chargehand_cli.worker_program import worker_settings

if TYPE_CHECKING:
    from temporalio.client import Client

_LEAST_PYTHON: Final = (3, 11)
_WORKER_SECONDS: Final = 15
_EXPLAIN_SECONDS: Final = 30
_MOST_STRANGERS: Final = 100
_MOST_LISTED: Final = 1_000
_ASKED: Final = 3
_ANSWER: Final = timedelta(seconds=3)


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
    from temporalio.service import RPCError  # noqa: PLC0415  # slow to load

    try:
        await _look_at_worker(connection, findings)
        await look_at_sessions(connection, findings)
        await _look_at_strangers(connection, findings)
    except RPCError as error:
        findings.wrong(f"The Temporal server does not say more: {one_safe_line(error.message)}", Exit.UNREACHABLE)
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
    if place.artifacts is None:
        findings.note("Documents cannot be uploaded: no --artifacts or CHARGEHAND_ARTIFACTS names a shared directory")
    if place.application is None:
        findings.note("No checkout here, so nothing is known of the worker's settings")
        return
    if not place.is_embedded:
        findings.note("What a worker of this checkout would use here; those of the server may be set otherwise:")
    try:
        command = application_command(place.application, "--explain")
        said = await _output_of(*command, directory=place.application, settings=worker_settings(place))
        explained = cast("dict[str, Any]", json.loads(said))
        active = cast("list[dict[str, str]]", explained["active"])
    except (OSError, ValueError, KeyError, TypeError, TimeoutError) as error:
        problem = str(error).removeprefix("The worker's settings cannot be used: ")
        findings.wrong(f"The worker's settings cannot be used: {one_safe_line(problem, 600)}")
        return
    for each in cast("list[str]", explained.get("unknown", [])):
        findings.note(f"Ignored: {one_safe_line(each)}")
    for each in active:
        chosen = one_safe_line(f"{each['backend']}: {each['adapter']} ({each['why']})")
        if problem := each.get("problem"):
            findings.wrong(f"{chosen}: {one_safe_line(problem, 600)}")
        else:
            findings.fine(chosen)


async def _output_of(
    *command: str | Path, directory: Path | None = None, settings: dict[str, str] | None = None
) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env=os.environ | (settings or {}),
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
    from chargehand.visibility import pollers  # noqa: PLC0415  # slow to load

    queue = connection.place.task_queue
    give_up_at = time.monotonic() + (_WORKER_SECONDS if connection.place.is_embedded else 0)
    while True:
        if found := await pollers(connection.chargehand.client, queue):
            named = f"{len(found)} worker(s) on task queue '{queue}': {one_safe_line(', '.join(found), 300)}"
            if await _somebody_answers(connection.chargehand.client, queue):
                findings.fine(named)
            else:
                findings.wrong(
                    f"No worker answers within {_ANSWER.seconds} s, although the server names {named}. It goes on "
                    "naming them for minutes after they were killed; if they still run, they have too much to do.",
                    Exit.UNREACHABLE,
                )
            return
        if time.monotonic() >= give_up_at:
            break
        await asyncio.sleep(0.2)
    log = connection.place.worker_log
    said = f" The end of {log}:\n{last_lines(log)}" if connection.place.is_embedded else ""
    findings.wrong(f"No worker polls the task queue '{queue}': sessions wait until one does.{said}", Exit.UNREACHABLE)


async def _somebody_answers(client: "Client", queue: str) -> bool:
    """Ask some of the sessions on a queue where they stand, which only a worker knows; True if that cannot be told."""
    from temporalio.client import WorkflowQueryFailedError  # noqa: PLC0415  # slow to load
    from temporalio.service import RPCError, RPCStatusCode  # noqa: PLC0415  # as above

    from chargehand.visibility import list_executions  # noqa: PLC0415  # as above
    from chargehand.wire import QueryName, WorkflowType  # noqa: PLC0415  # beside its only use

    async def answers(workflow_id: str) -> bool | None:
        try:
            await client.get_workflow_handle(workflow_id).query(QueryName.STATUS, rpc_timeout=_ANSWER)
        except RPCError as error:
            is_silence = error.status in {RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED}
            return False if is_silence else None  # the server's own answer: it has not begun, or is stuck
        except WorkflowQueryFailedError:
            pass  # an answer nevertheless
        return True

    ours = f"WorkflowType = '{WorkflowType.SUPERVISOR}' AND ExecutionStatus = 'Running' AND TaskQueue = '{queue}'"
    running = [each.execution.workflow_id async for each in list_executions(client, ours, _MOST_LISTED)]
    # The oldest of them: the newest may wait for their first step behind all others.
    answered = await asyncio.gather(*(answers(each) for each in running[-_ASKED:]))
    return True in answered or False not in answered


async def _look_at_strangers(connection: Connection, findings: Findings) -> None:
    """Name what runs on our task queue and is none of ours: no worker takes it up, and nobody else says so."""
    from chargehand.visibility import OPEN, list_executions  # noqa: PLC0415  # slow to load
    from chargehand.wire import WorkflowType  # noqa: PLC0415  # beside its only use

    client = connection.chargehand.client
    ours = " AND ".join(f"WorkflowType != '{each}'" for each in WorkflowType)
    query = f"{OPEN} AND TaskQueue = '{connection.place.task_queue}' AND {ours}"
    named = 0
    async for execution in list_executions(client, query, _MOST_STRANGERS):
        named += 1
        kind = one_safe_line(execution.type.name, 60)
        meant = get_close_matches(execution.type.name, list(WorkflowType), n=1)
        hint = f"was '{meant[0]}' meant? " if meant else ""
        name = one_safe_line(execution.execution.workflow_id, 300)
        terminate = connection.temporal_command(f"workflow terminate --workflow-id {quote(name)}")
        findings.wrong(
            f"{name} waits for ever: no worker knows workflows of type '{kind}'; {hint}`{terminate}` ends it, and then "
            "it is started again by its right name."
        )
    if named == _MOST_STRANGERS and (total := (await client.count_workflows(query)).count) > named:
        findings.wrong(f"… and {total - named} more of the kind.")
