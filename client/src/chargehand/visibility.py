"""Lists and describes workflows and the workers that poll task queues.

The SDK's own methods are not used, since those of temporalio 1.35 raise `ValueError` for workflows that an operator has
paused.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode, WorkflowExecutionStatus
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from chargehand.errors import SessionNotFound
from chargehand.wire import SESSIONS, WorkflowType

T = TypeVar("T")
_Item = TypeVar("_Item")

_NO_END_YET: Final = "No completion event found"
_WHILE_PAUSED_SECONDS: Final = 1.0
_PAGE: Final = 200
"""Page size; each entry has a memo with its plan, and a page must fit into one response of the server."""
_TYPES: Final = ", ".join(f"'{each}'" for each in sorted(SESSIONS))
ROOT_RUNS: Final = f"WorkflowType IN ({_TYPES}) AND ParentWorkflowId IS NULL"
"""Query for runs of root sessions."""
ROOT_SESSIONS: Final = f"{ROOT_RUNS} AND ExecutionStatus != 'ContinuedAsNew'"
"""Query for root sessions; of one that has continued as new, only the newest run."""
OPEN: Final = "CloseTime IS NULL"
"""Query for running and paused workflows; `ExecutionStatus = 'Running'` excludes paused ones."""
OURS: Final = f"WorkflowType IN ({', '.join(repr(str(each)) for each in WorkflowType)})"
"""Query for all workflows of Chargehand."""
REPORTED_PROBLEMS: Final = "TemporalReportedProblems"
"""Search attribute with which the server marks workflows whose task failed five times in a row."""


class UnlessGone:
    """Ignores what the server does not know or no longer retains."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        return isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND


async def list_executions(client: Client, query: str, limit: int | None = None) -> AsyncIterator[WorkflowExecutionInfo]:
    """List the workflows that match a query, newest first."""
    left = limit
    page = b""
    while left is None or left > 0:
        request = ListWorkflowExecutionsRequest(
            namespace=client.namespace, query=query, page_size=min(left or _PAGE, _PAGE), next_page_token=page
        )
        answer = await client.workflow_service.list_workflow_executions(request, retry=True)
        for execution in answer.executions[:left]:
            yield execution
        left = None if left is None else left - len(answer.executions)
        page = answer.next_page_token
        if not page:
            return


async def describe(
    client: Client, workflow_id: str, run_id: str = "", patience: timedelta | None = None
) -> DescribeWorkflowExecutionResponse:
    """Describe a workflow, with its pending activities."""
    request = DescribeWorkflowExecutionRequest(
        namespace=client.namespace, execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
    )
    return await client.workflow_service.describe_workflow_execution(request, retry=True, timeout=patience)


async def describe_session(client: Client, session_id: str) -> WorkflowExecutionInfo:
    """Describe a session; any other workflow raises `SessionNotFound`."""
    execution = (await describe(client, session_id)).workflow_execution_info
    if execution.type.name not in SESSIONS:
        raise SessionNotFound(session_id)
    return execution


async def result_of(handle: WorkflowHandle[Any, T]) -> T:
    """Wait for a workflow's result, even while it is paused, in which case the SDK's method fails."""
    while True:
        try:
            return await handle.result()
        except RuntimeError as error:
            if _NO_END_YET not in str(error):
                raise
        # The server answers immediately instead of waiting.
        await asyncio.sleep(_WHILE_PAUSED_SECONDS)


def is_open(execution: WorkflowExecutionInfo) -> bool:
    """Whether a workflow is running or paused."""
    return not execution.HasField("close_time")


async def pollers(
    client: Client, task_queue: str, *, of_activities: bool = False, since: datetime | None = None
) -> Sequence[str]:
    """List the identities of workers polling a task queue; the server remembers ended ones for minutes."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY if of_activities else TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
    return sorted({each.identity for each in await _pollers(client, task_queue, kind, since)})


async def unversioned_builds(client: Client, task_queue: str, since: datetime) -> Sequence[str]:
    """List the builds of workers without Worker Versioning that have polled a task queue of workflows."""
    found = await _pollers(client, task_queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, since)
    return sorted({build for deployment, build in map(build_of, found) if not deployment})


async def _pollers(
    client: Client, task_queue: str, kind: "TaskQueueType.ValueType", since: datetime | None
) -> Sequence[PollerInfo]:
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=task_queue), task_queue_type=kind
    )
    answer = await client.workflow_service.describe_task_queue(asked, retry=True)
    return [each for each in answer.pollers if since is None or each.last_access_time.ToDatetime(UTC) >= since]


async def unserved_queues(client: Client, workflow_id: str) -> Sequence[str]:
    """List the task queues without pollers on which activities of a workflow are waiting."""
    pending = (await describe(client, workflow_id)).pending_activities
    queues = sorted(
        {each.activity_options.task_queue.name for each in pending if not each.HasField("last_started_time")}
    )
    return [queue for queue in queues if queue and not await pollers(client, queue, of_activities=True)]


def build_of(poller: PollerInfo) -> tuple[str, str]:
    """Return deployment and build of a polling worker; without Worker Versioning, no deployment."""
    options = poller.deployment_options
    if options.worker_versioning_mode == WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED:
        return options.deployment_name, options.build_id
    return "", poller.worker_version_capabilities.build_id


def state_word(execution: WorkflowExecutionInfo) -> str:
    """Return a workflow's Temporal state, such as running, paused, completed or timed_out."""
    return WorkflowExecutionStatus.Name(execution.status).removeprefix("WORKFLOW_EXECUTION_STATUS_").lower()


async def gather_few(most: int, look: Callable[[_Item], Awaitable[T]], items: Iterable[_Item]) -> list[T]:
    """Look at items, at most some at once, so that a server is not flooded."""
    places = asyncio.Semaphore(most)

    async def one(item: _Item) -> T:
        async with places:
            return await look(item)

    return await asyncio.gather(*map(one, items))
