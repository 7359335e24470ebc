"""The part of `doctor` that finds stuck sessions, their causes and remedies.

Failures are described by type only, since their messages may contain user text.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from shlex import quote
from typing import Final, cast

from temporalio.api.workflow.v1 import PendingActivityInfo, WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from chargehand.failure_causes import failure_cause
from chargehand.history.steps import error_of
from chargehand.visibility import (
    OPEN,
    OURS,
    REPORTED_PROBLEMS,
    UnlessGone,
    describe,
    is_open,
    list_executions,
    pollers,
    state_word,
)
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import Exit, put

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


async def check_sessions(connection: Connection, findings: Findings) -> None:
    """Report stuck sessions and subtasks, which look like running ones elsewhere."""
    client = connection.chargehand.client
    ours = f"{OPEN} AND {OURS}"
    reported = await _reported(client, ours)
    newest = [each async for each in list_executions(client, ours, _MAX_CHECKED)]
    descriptions = await _describe_all(client, [*reported, *newest])
    problems = [problem for each in descriptions for problem in _problems(connection, each)]
    for problem in problems[:_MAX_REPORTED]:
        findings.bad(problem)
    if len(problems) > _MAX_REPORTED:
        findings.bad(f"… and {len(problems) - _MAX_REPORTED} more stuck sessions and subtasks")
    unserved = await _unserved(connection, descriptions)
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


async def _reported(client: Client, ours: str) -> list[WorkflowExecutionInfo]:
    """List workflows that the server reports as failing, however many are running."""
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
    at_once = asyncio.Semaphore(_CONCURRENCY)

    async def one(workflow_id: str, run_id: str) -> DescribeWorkflowExecutionResponse | None:
        async with at_once:
            with UnlessGone():
                return await describe(client, workflow_id, run_id)
        return None  # it has ended and is no longer retained

    runs = dict.fromkeys((each.execution.workflow_id, each.execution.run_id) for each in executions)
    described = await asyncio.gather(*(one(*run) for run in runs))
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


async def _unserved(connection: Connection, descriptions: Sequence[DescribeWorkflowExecutionResponse]) -> Sequence[str]:
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
