"""A Temporal server in memory with a worker, as seen by the SDK's client: sessions without processes or sockets.

It answers the calls that clients make for sessions. It keeps no readable histories and lists nothing: tests of that are
marked `real_server`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.enums.v1 import (
    HistoryEventFilterType,
    UpdateWorkflowExecutionLifecycleStage,
    WorkflowExecutionStatus,
)
from temporalio.api.errordetails.v1 import WorkflowExecutionAlreadyStartedFailure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.update.v1 import Outcome
from temporalio.api.workflowservice import v1
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from chargehand.converter import data_converter
from chargehand_plugins.testing.in_memory import jobs
from chargehand_plugins.testing.in_memory.activities import RunningActivities
from chargehand_plugins.testing.in_memory.executions import Execution, at
from tests.recording_server import OVER, RecordedExecution, RecordingServer, Saved, Task, Update

_COMPLETED: Final = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED
_ACCEPTED: Final = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED
_STATUS: Final = {
    "running": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING,
    "completed": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED,
    "failed": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED,
    "cancelled": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED,
    "terminated": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED,
}
"""How Temporal names the ends of workflows."""


class _ForgetfulServer(RecordingServer):
    """A server whose worker forgets a workflow after each of its tasks."""

    def after_task(self, execution: RecordedExecution, task: Task, given: Sequence[Any]) -> None:  # noqa: ARG002  # as the server calls it
        if execution.is_open:
            execution.rebuild()


class InMemoryTemporal:
    """The part of Temporal's `WorkflowService` that sessions need, and the worker that serves them in real time."""

    def __init__(self, activities: Iterable[Callable[..., Any]], *, forgets: bool, saved: Saved | None) -> None:
        self._activities = RunningActivities({each.__name__: each for each in activities})
        since_epoch = datetime.now(UTC) - at(0)
        self._began = int(since_epoch.total_seconds() * 1e9) - time.monotonic_ns()
        self._server = (_ForgetfulServer if forgets else RecordingServer)(self._activities, now=self._now())
        if saved is not None:
            with _no_loop_runs():
                self._server.load(saved)
            self._began = self._server.now - time.monotonic_ns()
        self._reasons: dict[str, str] = {}
        """Why workflows were terminated."""
        self._changed = asyncio.Event()
        self._round = asyncio.get_running_loop().create_future()
        """Done once everything that can happen now has happened."""

    async def run(self) -> None:
        try:
            while True:
                self._changed.clear()
                self._go_on()
                done, self._round = self._round, asyncio.get_running_loop().create_future()
                done.set_result(None)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._seconds_left()):
                        await self._changed.wait()
        except Exception as error:
            self._round.set_exception(error)
            raise
        finally:
            for task in self._activities.tasks:
                task.cancel()
            await asyncio.gather(*self._activities.tasks, return_exceptions=True)
            with _no_loop_runs():
                self._server.close()

    def skip(self, time: timedelta) -> None:
        self._began += int(time.total_seconds() * 1e9)
        self._changed.set()

    def forget_updates(self) -> None:
        """Forget answered updates, as a server forgets those of earlier runs."""
        self._server.updates.clear()

    async def saved(self) -> Saved:
        """Copy the server's state once everything that can happen by now has happened."""
        await self._until(lambda: True)
        return self._server.saved()

    def runs(self, workflow_id: str) -> int:
        return self._find(workflow_id).runs + 1

    async def start_workflow_execution(
        self, asked: v1.StartWorkflowExecutionRequest, **_: object
    ) -> v1.StartWorkflowExecutionResponse:
        known = self._server.executions.get(asked.workflow_id)
        if known is None:
            (argument,) = asked.input.payloads
            known = self._server.start(asked.workflow_id, asked.workflow_type.name, argument)
            self._changed.set()
        else:
            raise _already_started(known)
        return v1.StartWorkflowExecutionResponse(run_id=known.run_id)

    async def query_workflow(self, asked: v1.QueryWorkflowRequest, **_: object) -> v1.QueryWorkflowResponse:
        execution = self._find(asked.execution.workflow_id)
        await self._until(lambda: bool(execution.tasks))
        with _no_loop_runs():
            if not execution.is_open:
                execution.rebuild()
            answer = execution.ask(jobs.queried(asked.query.query_type), self._server.now).respond_to_query
        if answer.HasField("failed"):
            raise RPCError(answer.failed.message, RPCStatusCode.INVALID_ARGUMENT, b"")
        found = v1.QueryWorkflowResponse()
        found.query_result.payloads.append(answer.succeeded.response)
        return found

    async def update_workflow_execution(
        self, asked: v1.UpdateWorkflowExecutionRequest, **_: object
    ) -> v1.UpdateWorkflowExecutionResponse:
        execution = self._find(asked.workflow_execution.workflow_id, is_open=True)
        meta, call = asked.request.meta, asked.request.input
        update = self._server.update(execution.workflow_id, meta.update_id, call.name, call.args.payloads)
        self._changed.set()
        waits_for_result = asked.wait_policy.lifecycle_stage == _COMPLETED
        stage, outcome = await self._outcome(
            execution, update, lambda: update.is_answered or (update.accepted and not waits_for_result)
        )
        answer = v1.UpdateWorkflowExecutionResponse(stage=stage, outcome=outcome)
        answer.update_ref.workflow_execution.run_id = execution.run_id
        return answer

    async def poll_workflow_execution_update(
        self, asked: v1.PollWorkflowExecutionUpdateRequest, **_: object
    ) -> v1.PollWorkflowExecutionUpdateResponse:
        execution = self._find(asked.update_ref.workflow_execution.workflow_id)
        update = self._server.updates[asked.update_ref.update_id]
        stage, outcome = await self._outcome(execution, update, lambda: update.is_answered)
        return v1.PollWorkflowExecutionUpdateResponse(stage=stage, outcome=outcome)

    async def signal_workflow_execution(
        self, asked: v1.SignalWorkflowExecutionRequest, **_: object
    ) -> v1.SignalWorkflowExecutionResponse:
        workflow_id = self._find(asked.workflow_execution.workflow_id, is_open=True).workflow_id
        self._server.signal(workflow_id, asked.signal_name, asked.input.payloads)
        self._changed.set()
        return v1.SignalWorkflowExecutionResponse()

    async def request_cancel_workflow_execution(
        self, asked: v1.RequestCancelWorkflowExecutionRequest, **_: object
    ) -> v1.RequestCancelWorkflowExecutionResponse:
        self._server.cancel(self._find(asked.workflow_execution.workflow_id, is_open=True).workflow_id, asked.reason)
        self._changed.set()
        return v1.RequestCancelWorkflowExecutionResponse()

    async def terminate_workflow_execution(
        self, asked: v1.TerminateWorkflowExecutionRequest, **_: object
    ) -> v1.TerminateWorkflowExecutionResponse:
        workflow_id = self._find(asked.workflow_execution.workflow_id, is_open=True).workflow_id
        self._reasons[workflow_id] = asked.reason or "terminated by user via frontend"
        with _no_loop_runs():
            self._server.terminate(workflow_id)
        self._changed.set()
        return v1.TerminateWorkflowExecutionResponse()

    async def describe_workflow_execution(
        self, asked: v1.DescribeWorkflowExecutionRequest, **_: object
    ) -> v1.DescribeWorkflowExecutionResponse:
        execution = self._find(asked.execution.workflow_id)
        described = v1.DescribeWorkflowExecutionResponse()
        info = described.workflow_execution_info
        info.execution.workflow_id, info.execution.run_id = execution.workflow_id, execution.run_id
        info.type.name, info.status = execution.workflow_type, _STATUS[execution.status]
        return described

    async def describe_task_queue(self, _: v1.DescribeTaskQueueRequest, **__: object) -> v1.DescribeTaskQueueResponse:
        """Answer a client that has waited for long, as on a slow machine: the worker is polling."""
        poller = PollerInfo()
        poller.last_access_time.GetCurrentTime()
        return v1.DescribeTaskQueueResponse(pollers=[poller])

    async def get_workflow_execution_history(
        self, asked: v1.GetWorkflowExecutionHistoryRequest, **_: object
    ) -> v1.GetWorkflowExecutionHistoryResponse:
        execution = self._find(asked.execution.workflow_id)
        found = v1.GetWorkflowExecutionHistoryResponse()
        if asked.history_event_filter_type == HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT:
            await self._until(lambda: not execution.is_open)
            found.history.events.append(_end(execution, self._reasons.get(execution.workflow_id, "")))
        elif asked.maximum_page_size == 1:
            started = HistoryEvent(event_id=1)
            about = started.workflow_execution_started_event_attributes
            about.workflow_type.name = execution.workflow_type
            about.input.payloads.extend(execution.arguments)
            found.history.events.append(started)
        else:
            raise NotImplementedError("There is no history in memory: mark this test `real_server`.")
        return found

    async def _outcome(
        self, execution: Execution, update: Update, is_enough: Callable[[], bool]
    ) -> tuple[UpdateWorkflowExecutionLifecycleStage.ValueType, Outcome | None]:
        await self._until(lambda: is_enough() or not execution.is_open)
        if not update.is_answered:
            if not execution.is_open:
                raise _not_found(OVER)
            return _ACCEPTED, None
        outcome = Outcome()
        if update.failure is None:
            outcome.success.payloads.extend([update.result] if update.result else [])
        elif update.failure.message == OVER:
            raise _not_found(OVER)
        else:
            outcome.failure.CopyFrom(update.failure)
        return _COMPLETED, outcome

    def _find(self, workflow_id: str, *, is_open: bool = False) -> RecordedExecution:
        execution = self._server.find(workflow_id)
        if execution is None:
            raise _not_found(f"workflow not found for ID: {workflow_id}")
        if is_open and not execution.is_open:
            raise _not_found(OVER)
        return execution

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Let everything happen that can happen by now, and continue until a condition holds."""
        self._changed.set()
        await asyncio.shield(self._round)
        while not holds():
            await asyncio.shield(self._round)

    def _go_on(self) -> None:
        self._activities.resolve_ended(self._server)
        known = set(self._activities.tasks)
        with _no_loop_runs():
            self._server.run_until(self._now())
        self._activities.start()
        for task in self._activities.tasks.keys() - known:
            task.add_done_callback(lambda _: self._changed.set())

    def _now(self) -> int:
        return self._began + time.monotonic_ns()

    def _seconds_left(self) -> float | None:
        next_at = self._server.next_at
        return None if next_at is None else max(0.0, (next_at - self._now()) / 1e9)


@asynccontextmanager
async def in_memory_client(
    activities: Iterable[Callable[..., Any]], *, cached_workflows: int = 1_000, saved: Saved | None = None
) -> AsyncGenerator[Client]:
    """Connect the SDK's client to a server in memory whose worker has these activities.

    `saved` is the state of an earlier server, which has lost everything else.
    """
    temporal = InMemoryTemporal(activities, forgets=not cached_workflows, saved=saved)
    serving = asyncio.create_task(temporal.run())
    try:
        service: Any = SimpleNamespace(workflow_service=temporal, config=SimpleNamespace(identity="test"))
        yield Client(service, data_converter=data_converter())
    finally:
        if not serving.done():
            serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


@contextmanager
def _no_loop_runs() -> Generator[None]:
    """Let workflows run their own event loops in this thread."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)


def _end(execution: Execution, reason: str) -> HistoryEvent:
    event = HistoryEvent(event_id=2)
    match execution.status:
        case "completed":
            completed = event.workflow_execution_completed_event_attributes
            completed.result.payloads.extend([execution.result] if execution.result else [])
        case "failed":
            event.workflow_execution_failed_event_attributes.failure.CopyFrom(cast("Any", execution.failure))
        case "cancelled":
            event.workflow_execution_canceled_event_attributes.SetInParent()
        case _:
            event.workflow_execution_terminated_event_attributes.reason = reason
    return event


def _not_found(message: str) -> RPCError:
    return RPCError(message, RPCStatusCode.NOT_FOUND, b"")


def _already_started(known: Execution) -> RPCError:
    details = AnyMessage()
    details.Pack(WorkflowExecutionAlreadyStartedFailure(run_id=known.run_id))
    status = GrpcStatus(details=[details])
    return RPCError("Workflow execution already started", RPCStatusCode.ALREADY_EXISTS, status.SerializeToString())
