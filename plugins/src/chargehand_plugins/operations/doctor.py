"""The verb `doctor`: checks of settings, server, workers and sessions, each problem with its cause and remedy."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from shlex import quote
from typing import Final, cast

from temporalio.api.workflow.v1 import PendingActivityInfo, WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from chargehand import ChargehandError, NotReachable
from chargehand.environment import describe_unknown
from chargehand.failure_causes import failure_cause
from chargehand.history.steps import error_of
from chargehand.messages import Messages
from chargehand.plugins import Hook, installed
from chargehand.visibility import (
    OPEN,
    OURS,
    REPORTED_PROBLEMS,
    UnlessGone,
    describe,
    gather_few,
    is_open,
    list_executions,
    pollers,
    state_word,
    unversioned_builds,
)
from chargehand.wire import WorkflowType
from chargehand_cli.connection import WORKER_SECONDS, Connection
from chargehand_cli.embedded.program import check_temporal
from chargehand_cli.embedded.state import StateDirectory, last_lines
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit, put
from chargehand_cli.worker_settings import WrongSettings
from chargehand_plugins.operations.worker_program import explain

_MAX_UNKNOWN: Final = 100
_MAX_LISTED: Final = 1_000
_QUERIED: Final = 3
_LATELY: Final = timedelta(minutes=2)
"""Polls of a minute each; the server lists ended workers for longer."""
_QUERY_TIMEOUT: Final = timedelta(seconds=3)


class Findings:
    """The findings of `doctor`, written line by line."""

    def __init__(self, write: Callable[[str], object] = put) -> None:
        self._write = write
        self.worst = Exit.DONE

    def good(self, text: str) -> None:
        self._write(f"✔ {text}")

    def note(self, text: str) -> None:
        self._write(f"· {text}")

    def bad(self, text: str, code: Exit = Exit.FAILED) -> None:
        self._write(f"✘ {text}")
        self.worst = max(self.worst, code)


async def examine(connection: Connection, findings: Findings) -> Exit:
    """Check everything that a session needs; problems are findings, not errors."""
    findings.good(f"Python {sys.version.split()[0]} at {sys.executable}")
    for unknown in describe_unknown(os.environ):
        findings.bad(unknown)
    for extension in installed().hooks.get(Hook.CHECK_SETTINGS, ()):
        try:
            extension.build(object, "check of settings")
        except ChargehandError as error:
            findings.bad(one_safe_line(str(error)))
    await _check_worker_program(connection, findings)
    try:
        has_worker = await connection.open_to_query()
    except NotReachable as error:
        findings.bad(str(error), Exit.UNREACHABLE)
        return findings.worst
    except WrongSettings:
        return findings.worst  # the worker's settings, which have been checked above
    findings.good(connection.describe())
    check_database(connection, findings)
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


def check_database(connection: Connection, findings: Findings) -> None:
    """Report a deleted database, with which a running embedded server goes on."""
    database = StateDirectory(connection.location.state).database
    if connection.location.is_embedded and not database.exists():
        findings.bad(
            f"{database} was deleted: the running server keeps its sessions until it stops, and then they are lost. "
            "Read what you need (`chargehand result`, `chargehand trace`), then stop it and start again"
        )


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
    while not (identities := await pollers(connection.chargehand.client, queue)):
        if time.monotonic() >= give_up_at:
            log = connection.location.worker_log
            start = f" Start one with {_settings_of(queue, queue)}."
            words = f" The end of {log}:\n{last_lines(log)}" if connection.location.is_embedded else start
            findings.bad(
                f"No worker polls task queue '{queue}': sessions wait until one does.{words}", Exit.UNREACHABLE
            )
            return
        await asyncio.sleep(0.2)
    builds = await unversioned_builds(connection.chargehand.client, queue, datetime.now(UTC) - _LATELY)
    if len(builds) > 1:
        findings.bad(
            f"Workers of builds {one_safe_line(', '.join(builds), 300)} share task queue '{queue}': stop those of the "
            "old build, or turn Worker Versioning on with CHARGEHAND_DEPLOYMENT"
        )
    workers = f"{len(identities)} worker(s) on task queue '{queue}': {one_safe_line(', '.join(identities), 300)}"
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
    """Query some sessions of a queue, which only a worker can answer; return True if there are none."""

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


_MAX_CHECKED: Final = 1_000
_MAX_REPORTED: Final = 100
_CONCURRENCY: Final = 20
_MANY_ATTEMPTS: Final = 3
_KINDS: Final = ("models", "tools", "sandboxes")
"""Kinds of work that may have a separate task queue, whose name ends in the kind."""
_SEE_LOG: Final = "See the worker's log; the session resumes as soon as a worker can run it."
_TASK_REMEDIES: Final = {
    "NonDeterministicError": (
        "The workers' code has changed incompatibly since the session started: `chargehand replay {id}` shows where. "
        "It resumes on workers of its original build; it went on last by build '{build}'."
    ),
    "BadSearchAttributes": (
        "The namespace has lost search attributes of sessions: register them with `chargehand setup`. It then resumes."
    ),
}


async def check_sessions(connection: Connection, findings: Findings) -> None:
    """Report stuck sessions and subtasks, which look like running ones elsewhere."""
    client = connection.chargehand.client
    ours = f"{OPEN} AND {OURS}"
    reported = await _failing_workflows(client, ours)
    newest = [each async for each in list_executions(client, ours, _MAX_CHECKED)]
    descriptions = await _describe_all(client, [*reported, *newest])
    problems = [problem for each in descriptions for problem in _problems(connection, each)]
    for problem in problems[:_MAX_REPORTED]:
        findings.bad(problem)
    if len(problems) > _MAX_REPORTED:
        findings.bad(f"… and {len(problems) - _MAX_REPORTED} more stuck sessions and subtasks")
    unserved = await _unserved_queues(connection, descriptions)
    for problem in unserved:
        findings.bad(problem, Exit.UNREACHABLE)
    total = max(len(newest), (await client.count_workflows(ours)).count)
    if total > _MAX_CHECKED:
        findings.note(
            f"{total} sessions and subtasks are running; only the newest {len(newest)} were checked individually, and "
            "those whose workflow task failed five times in a row"
        )
    if not problems and not unserved:
        findings.good(f"{total} session(s) and subtask(s) running, none stuck")


async def _failing_workflows(client: Client, ours: str) -> list[WorkflowExecutionInfo]:
    """List workflows that the server reports as failing, regardless of how many are running."""
    reported = f"{ours} AND {REPORTED_PROBLEMS} IS NOT NULL"
    try:
        return [each async for each in list_executions(client, reported, _MAX_CHECKED)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return []  # a server without this search attribute


async def _describe_all(
    client: Client, executions: Sequence[WorkflowExecutionInfo]
) -> list[DescribeWorkflowExecutionResponse]:
    async def one(run: tuple[str, str]) -> DescribeWorkflowExecutionResponse | None:
        with UnlessGone():
            return await describe(client, *run)
        return None  # it has ended and its history is no longer retained

    runs = dict.fromkeys((each.execution.workflow_id, each.execution.run_id) for each in executions)
    described = await gather_few(_CONCURRENCY, one, runs)
    return [each for each in described if each and is_open(each.workflow_execution_info)]


def _problems(connection: Connection, described: DescribeWorkflowExecutionResponse) -> Iterator[str]:
    info = described.workflow_execution_info
    name = one_safe_line(info.execution.workflow_id, 300)
    if state_word(info) == "paused":
        by = described.workflow_extended_info.pause_info.identity
        unpause = connection.temporal_command(f"workflow unpause --workflow-id {quote(name)}")
        yield f"{name} was paused{_by(by)}. Resume it: `{unpause}`"
    elif described.pending_workflow_task.attempt > 1:
        cause = _cause(info)
        build = one_safe_line(info.most_recent_worker_version_stamp.build_id, 100) or "unknown"
        remedy = _TASK_REMEDIES.get(cause, _SEE_LOG).format(id=name, build=build)
        attempt = f"attempt {described.pending_workflow_task.attempt}{f' ({cause})' if cause else ''}"
        yield f"{name} is stuck: its workflow task is at {attempt}. {remedy}"
    for activity in described.pending_activities:
        if problem := _activity_problem(connection, name, activity):
            yield problem


def _activity_problem(connection: Connection, name: str, activity: PendingActivityInfo) -> str:
    activity_id = one_safe_line(activity.activity_id)
    what = f"{name}: {activity.activity_type.name} '{activity_id}'"
    if activity.paused:
        names = f"--workflow-id {quote(name)} --activity-id {quote(activity_id)}"
        unpause = connection.temporal_command(f"activity unpause {names}")
        return f"{what} was paused{_by(activity.pause_info.manual.identity)}. Resume it: `{unpause}`"
    if activity.attempt < _MANY_ATTEMPTS:
        return ""
    error = one_safe_line(error_of(activity.last_failure), 60)
    why = failure_cause(error)
    return f"{what} is at attempt {activity.attempt}; last error: {error or 'unknown'}. {why.cause} {why.remedy}"


def _by(identity: str) -> str:
    return f" by {one_safe_line(identity, 60)}" if identity else ""


def _cause(info: WorkflowExecutionInfo) -> str:
    payload = info.search_attributes.indexed_fields.get(REPORTED_PROBLEMS)
    problems = cast("list[str]", json.loads(payload.data)) if payload else []
    causes = [each.removeprefix("cause=WorkflowTaskFailedCause") for each in problems if each.startswith("cause=")]
    return one_safe_line(causes[0], 60) if causes else ""


async def _unserved_queues(
    connection: Connection, descriptions: Sequence[DescribeWorkflowExecutionResponse]
) -> Sequence[str]:
    """Report other task queues where work is waiting without a worker."""
    own = connection.location.task_queue
    waiting: defaultdict[tuple[str, str, bool], list[str]] = defaultdict(list)
    for each in descriptions:
        info = each.workflow_execution_info
        waiting[info.task_queue, info.task_queue, False].append(info.execution.workflow_id)
        for queue in {activity.activity_options.task_queue.name for activity in each.pending_activities}:
            waiting[queue, info.task_queue, True].append(info.execution.workflow_id)
    problems: list[str] = []
    for (queue, of_session, for_activities), ids in waiting.items():
        if queue in ("", own) or await pollers(connection.chargehand.client, queue, of_activities=for_activities):
            continue
        wait = f"and {len(ids) - 1} more are waiting" if len(ids) > 1 else "is waiting"
        problems.append(
            f"No worker polls task queue '{one_safe_line(queue, 100)}' for "
            f"{'activities' if for_activities else 'workflows'}; {one_safe_line(ids[0], 300)} {wait} on it. Start a "
            f"worker with {_settings_of(queue, of_session)}."
        )
    return problems


def _settings_of(queue: str, of_session: str) -> str:
    """Return the settings for a worker of a queue: a session's own, or a separate one for a kind of work."""
    named = f"CHARGEHAND_TASK_QUEUE={one_safe_line(of_session, 100)}"
    kind = next((each for each in _KINDS if queue == f"{of_session}-{each}"), None)
    if kind is None:
        return f"CHARGEHAND_TASK_QUEUE={one_safe_line(queue, 100)}"
    own = f'CHARGEHAND_QUEUES={{"{kind}": 10}}'
    if kind == "models":
        own += " or CHARGEHAND_REQUESTS_PER_SECOND, as the others have it,"
    return f"{named} and {own} whose CHARGEHAND_ROLES, if set, include {kind}"
