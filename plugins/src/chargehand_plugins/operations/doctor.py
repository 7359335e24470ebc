"""Diagnose an installation."""

import asyncio
import os
import re
import subprocess
import sys
import time
from datetime import timedelta
from difflib import get_close_matches
from shlex import quote
from typing import Final, cast

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from chargehand import ChargehandError, NotReachable
from chargehand.environment import describe_unknown
from chargehand.messages import Messages
from chargehand.plugins import Hook, installed
from chargehand.visibility import OPEN, list_executions, pollers
from chargehand.wire import WorkflowType
from chargehand_cli.connection import WORKER_SECONDS, Connection
from chargehand_cli.embedded.program import check_temporal
from chargehand_cli.embedded.state import last_lines
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit
from chargehand_cli.worker_settings import WrongSettings
from chargehand_plugins.operations.stuck_sessions import Findings, check_sessions
from chargehand_plugins.operations.worker_program import explain

_MAX_UNKNOWN: Final = 100
_MAX_LISTED: Final = 1_000
_QUERIED: Final = 3
_QUERY_TIMEOUT: Final = timedelta(seconds=3)


async def examine(connection: Connection, findings: Findings) -> Exit:
    """Check everything that a session needs; problems are findings, not errors."""
    findings.good(f"Python {sys.version.split()[0]} at {sys.executable}")
    for unknown in describe_unknown(os.environ):
        findings.bad(unknown)
    for check in installed().functions(Hook.CHECK_SETTINGS):
        try:
            check()
        except ChargehandError as error:
            findings.bad(one_safe_line(str(error)))
    await _check_worker_program(connection, findings)
    try:
        has_worker = await connection.open_to_query()
    except NotReachable as error:
        findings.bad(str(error), Exit.UNREACHABLE)
        return findings.worst
    except WrongSettings:
        return findings.worst  # the worker's settings, which were checked above
    findings.good(connection.describe())
    try:
        if has_worker:
            await _check_worker(connection, findings)
        else:
            findings.note(
                "No worker was started, since it would resume the unfinished sessions: `chargehand list` shows them, "
                "`chargehand up` resumes them all"
            )
        await _check_search_attributes(connection, findings)
        await check_sessions(connection, findings)
        await _check_unknown_workflows(connection, findings)
    except RPCError as error:
        findings.bad(f"The Temporal server reports an error: {one_safe_line(error.message)}", Exit.UNREACHABLE)
    return findings.worst


async def _check_worker_program(connection: Connection, findings: Findings) -> None:
    location = connection.location
    if location.temporal:
        await asyncio.to_thread(check_temporal, location.temporal, location.state)
        version = await asyncio.to_thread(subprocess.check_output, [location.temporal, "--version"], text=True)
        findings.good(f"{one_safe_line(version)} at {location.temporal}")
    findings.note(f"State directory {location.state}")
    if location.artifacts is None:
        findings.note(
            "Documents cannot be uploaded: no shared directory is named by --artifacts or CHARGEHAND_ARTIFACTS"
        )
    if location.worker is None:
        findings.note("The workers' settings are unknown: there is no worker program on this machine")
        return
    if not location.is_embedded:
        findings.note("What a worker on this machine would use; the server's workers may have other settings:")
    try:
        explained = await explain(location.worker)
        active = cast("list[dict[str, str]]", explained["active"])
    except (BadRequest, TimeoutError) as error:
        findings.bad(f"The worker's settings could not be checked: {one_safe_line(str(error), 600)}")
        return
    except (ValueError, KeyError, TypeError) as error:
        problem = re.sub("^The worker(?:'s settings cannot be used| cannot start): ", "", str(error))
        findings.bad(f"The worker's settings are invalid: {one_safe_line(problem, 600)}")
        return
    for each in active:
        chosen = one_safe_line(f"{each['backend']}: {each['adapter']} ({each['why']})")
        if problem := each.get("problem"):
            findings.bad(f"{chosen}: {one_safe_line(problem, 600)}")
        else:
            findings.good(chosen)


async def _check_worker(connection: Connection, findings: Findings) -> None:

    queue = connection.location.task_queue
    give_up_at = time.monotonic() + (WORKER_SECONDS if connection.location.is_embedded else 0)
    while not (found := await pollers(connection.chargehand.client, queue)):
        if time.monotonic() >= give_up_at:
            log = connection.location.worker_log
            words = f" The end of {log}:\n{last_lines(log)}" if connection.location.is_embedded else ""
            findings.bad(
                f"No worker polls task queue '{queue}': sessions wait until one does.{words}", Exit.UNREACHABLE
            )
            return
        await asyncio.sleep(0.2)
    workers = f"{len(found)} worker(s) on task queue '{queue}': {one_safe_line(', '.join(found), 300)}"
    if await _answers(connection.chargehand.client, queue):
        findings.good(workers)
    else:
        findings.bad(
            f"No worker answers within {_QUERY_TIMEOUT.seconds} s, although the server lists {workers}. The server "
            "lists workers for minutes after they were killed; if they are running, they are overloaded.",
            Exit.UNREACHABLE,
        )


async def _check_search_attributes(connection: Connection, findings: Findings) -> None:
    missing = await connection.chargehand.missing_search_attributes()
    if not missing:
        findings.good("Search attributes of sessions are registered")
        return
    findings.note(
        f"Sessions cannot be listed by state, crew, tenant or cost: the namespace lacks {', '.join(missing)}. "
        "Register them: `chargehand setup`"
    )


async def _answers(client: Client, queue: str) -> bool:
    """Query some sessions of a queue, which only a worker can answer; True if there are none."""

    async def answers(workflow_id: str) -> bool | None:
        try:
            await client.get_workflow_handle(workflow_id).query(Messages.status.name, rpc_timeout=_QUERY_TIMEOUT)
        except RPCError as error:
            is_silence = error.status in {RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED}
            return False if is_silence else None  # the server itself answered: the session is new or stuck
        except WorkflowQueryFailedError:
            pass  # a worker answered
        return True

    ours = f"WorkflowType = '{WorkflowType.SUPERVISOR}' AND ExecutionStatus = 'Running' AND TaskQueue = '{queue}'"
    running = [each.execution.workflow_id async for each in list_executions(client, ours, _MAX_LISTED)]
    # The oldest ones, since the newest may still be waiting for their first workflow task.
    answered = await asyncio.gather(*(answers(each) for each in running[-_QUERIED:]))
    return True in answered or False not in answered


async def _check_unknown_workflows(connection: Connection, findings: Findings) -> None:
    """Report workflows of unknown types on our task queue, which wait forever and are not reported elsewhere."""
    client = connection.chargehand.client
    others = " AND ".join(f"WorkflowType != '{each}'" for each in WorkflowType)
    query = f"{OPEN} AND TaskQueue = '{connection.location.task_queue}' AND {others}"
    count = 0
    async for execution in list_executions(client, query, _MAX_UNKNOWN):
        count += 1
        kind = one_safe_line(execution.type.name, 60)
        similar = get_close_matches(execution.type.name, list(WorkflowType), n=1)
        hint = f" Did you mean '{similar[0]}'?" if similar else ""
        name = one_safe_line(execution.execution.workflow_id, 300)
        terminate = connection.temporal_command(f"workflow terminate --workflow-id {quote(name)}")
        findings.bad(
            f"{name} will never run: no worker has a workflow type '{kind}'.{hint} Terminate it: `{terminate}` and "
            f"start it again with `--type {WorkflowType.SUPERVISOR}`"
        )
    if count == _MAX_UNKNOWN and (total := (await client.count_workflows(query)).count) > count:
        findings.bad(f"… and {total - count} more workflows of unknown types")
