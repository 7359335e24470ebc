"""The part of `doctor` that looks at sessions: which of them do not get on, why, and what helps.

Whatever is told of a failure is its type: messages may hold what users wrote.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final, cast

from chargehand_cli.connection import Connection
from chargehand_cli.exit_codes import Exit
from chargehand_cli.findings import Findings
from chargehand_cli.rendering.escaping import one_safe_line

if TYPE_CHECKING:
    from temporalio.api.workflow.v1 import PendingActivityInfo, WorkflowExecutionInfo
    from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
    from temporalio.client import Client

_MOST_LOOKED_AT: Final = 1_000
_MOST_NAMED: Final = 100
_AT_ONCE: Final = 20
_MANY_ATTEMPTS: Final = 3
_REPORTED: Final = "TemporalReportedProblems"
_OF_MODELS: Final = "-models"
"""Ends the name of the task queue on which model turns wait if their rate is limited."""
_IN_ITS_LOG: Final = "The worker's log says why; it goes on by itself once a worker can carry it on."
_TASK_REMEDIES: Final = {
    "NonDeterministicError": (
        "The workers' code decides otherwise than when it began: `chargehand replay {id}` shows where. It goes on by "
        "itself with workers of the build that it began on."
    ),
}
_ACTIVITY_REMEDIES: Final = {
    "ProviderUnavailable": "The models' provider does not answer; it is tried again by itself.",
    "RateLimited": "The models' provider takes no more now; CHARGEHAND_REQUESTS_PER_SECOND keeps below its limit.",
    "ToolUnavailable": "What the tool needs does not answer; it is tried again by itself.",
    "AttemptLost": "Workers were lost while they did it: look at why they end, and at their memory.",
    "HeartbeatTimeout": "Workers were lost, or stood still, while they did it: look at their logs and their memory.",
    "StartToCloseTimeout": "It took longer than it may each time; the worker's log says what it was at.",
}


async def look_at_sessions(connection: Connection, findings: Findings) -> None:
    """Name the sessions and subtasks that do not get on: they look like running ones to everybody else."""
    from chargehand.visibility import OPEN, list_executions  # noqa: PLC0415  # slow to load
    from chargehand.wire import WorkflowType  # noqa: PLC0415  # as above

    client = connection.chargehand.client
    types = ", ".join(f"'{each}'" for each in WorkflowType)
    ours = f"{OPEN} AND WorkflowType IN ({types})"
    reported = await _reported(client, ours)
    newest = [each async for each in list_executions(client, ours, _MOST_LOOKED_AT)]
    descriptions = await _described(client, [*reported, *newest])
    troubles = [trouble for each in descriptions for trouble in _troubles(connection, each)]
    for trouble in troubles[:_MOST_NAMED]:
        findings.wrong(trouble)
    if len(troubles) > _MOST_NAMED:
        findings.wrong(f"… and {len(troubles) - _MOST_NAMED} more of the kind.")
    unserved = await _unserved(connection, descriptions)
    for trouble in unserved:
        findings.wrong(trouble, Exit.UNREACHABLE)
    total = max(len(newest), (await client.count_workflows(ours)).count)
    if total > _MOST_LOOKED_AT:
        findings.note(
            f"{total} sessions and subtasks run, and only the newest {len(newest)} of them were looked at one by one, "
            "with all whose workflow task failed five times in a row"
        )
    if not troubles and not unserved:
        findings.fine(f"{total} session(s) and subtask(s) running, none of them stuck")


async def _reported(client: "Client", ours: str) -> "list[WorkflowExecutionInfo]":
    """List those that the server itself reports, however many others run."""
    from temporalio.service import RPCError, RPCStatusCode  # noqa: PLC0415  # slow to load

    from chargehand.visibility import list_executions  # noqa: PLC0415  # as above

    try:
        return [each async for each in list_executions(client, f"{ours} AND {_REPORTED} IS NOT NULL", _MOST_LOOKED_AT)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return []  # a server that reports no problems yet


async def _described(
    client: "Client", executions: "Sequence[WorkflowExecutionInfo]"
) -> "list[DescribeWorkflowExecutionResponse]":
    from temporalio.service import RPCError, RPCStatusCode  # noqa: PLC0415  # slow to load

    from chargehand.visibility import describe, is_open  # noqa: PLC0415  # as above

    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(workflow_id: str, run_id: str) -> "DescribeWorkflowExecutionResponse | None":
        async with at_once:
            try:
                return await describe(client, workflow_id, run_id)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                return None  # it has ended, and is forgotten

    runs = dict.fromkeys((each.execution.workflow_id, each.execution.run_id) for each in executions)
    described = await asyncio.gather(*(one(*run) for run in runs))
    return [each for each in described if each and is_open(each.workflow_execution_info)]


def _troubles(connection: Connection, described: "DescribeWorkflowExecutionResponse") -> Iterator[str]:
    from chargehand.visibility import state_word  # noqa: PLC0415  # slow to load

    info = described.workflow_execution_info
    name = one_safe_line(info.execution.workflow_id, 300)
    if state_word(info) == "paused":
        by = described.workflow_extended_info.pause_info.identity
        unpause = connection.temporal_command(f"workflow unpause --workflow-id {quote(name)}")
        yield f"{name} was paused{_by(by)}, and nothing of it goes on. `{unpause}` lets it go on."
    elif described.pending_workflow_task.attempt > 1:
        cause = _cause(info)
        remedy = _TASK_REMEDIES.get(cause, _IN_ITS_LOG).format(id=name)
        attempt = f"attempt {described.pending_workflow_task.attempt}{f' ({cause})' if cause else ''}"
        yield f"{name} does not get on: its workflow task is at {attempt}. {remedy}"
    for activity in described.pending_activities:
        if trouble := _trouble_with(connection, name, activity):
            yield trouble


def _trouble_with(connection: Connection, name: str, activity: "PendingActivityInfo") -> str:
    from chargehand.trace_reader import error_of  # noqa: PLC0415  # slow to load

    activity_id = one_safe_line(activity.activity_id)
    what = f"{name}: {activity.activity_type.name} '{activity_id}'"
    if activity.paused:
        names = f"--workflow-id {quote(name)} --activity-id {quote(activity_id)}"
        unpause = connection.temporal_command(f"activity unpause {names}")
        return f"{what} was paused{_by(activity.pause_info.manual.identity)}. `{unpause}` lets it go on."
    if activity.attempt < _MANY_ATTEMPTS:
        return ""
    error = one_safe_line(error_of(activity.last_failure), 60)
    remedy = _ACTIVITY_REMEDIES.get(error, "The worker's log says why; it is tried again by itself.")
    return f"{what} is at attempt {activity.attempt}, the one before ended by {error or 'an error'}. {remedy}"


def _by(identity: str) -> str:
    return f" by {one_safe_line(identity, 60)}" if identity else ""


def _cause(info: "WorkflowExecutionInfo") -> str:
    """Read why workflow tasks fail, as far as the server has reported it."""
    payload = info.search_attributes.indexed_fields.get(_REPORTED)
    problems = cast("list[str]", json.loads(payload.data)) if payload else []
    causes = [each.removeprefix("cause=WorkflowTaskFailedCause") for each in problems if each.startswith("cause=")]
    return one_safe_line(causes[0], 60) if causes else ""


async def _unserved(
    connection: Connection, descriptions: "Sequence[DescribeWorkflowExecutionResponse]"
) -> Sequence[str]:
    """Name the task queues, other than the command's own, on which something waits and no worker asks for it."""
    from chargehand.visibility import pollers  # noqa: PLC0415  # slow to load

    own = connection.place.task_queue
    waiting: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for each in descriptions:
        info = each.workflow_execution_info
        waiting[info.task_queue, False].append(info.execution.workflow_id)
        for queue in {activity.activity_options.task_queue.name for activity in each.pending_activities}:
            waiting[queue, True].append(info.execution.workflow_id)
    troubles: list[str] = []
    for (queue, of_activities), ids in waiting.items():
        if queue in ("", own) or await pollers(connection.chargehand.client, queue, of_activities=of_activities):
            continue
        name = one_safe_line(queue, 100)
        setting = f"CHARGEHAND_TASK_QUEUE={name}"
        if of_activities and name.endswith(_OF_MODELS):
            setting = f"CHARGEHAND_TASK_QUEUE={name.removesuffix(_OF_MODELS)} and CHARGEHAND_REQUESTS_PER_SECOND"
        wait = f"and {len(ids) - 1} more wait" if len(ids) > 1 else "waits"
        troubles.append(
            f"No worker polls the task queue '{name}' for {'activities' if of_activities else 'workflows'}, and "
            f"{one_safe_line(ids[0], 300)} {wait} there: start one with {setting}."
        )
    return troubles
