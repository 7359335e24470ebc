"""Real activities for workflows on the in-memory server, which take no time on its clock."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast, get_type_hints
from uuid import uuid4

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities import heartbeat
from chargehand.contracts import Contract
from chargehand_plugins.testing.in_memory import jobs
from chargehand_plugins.testing.in_memory.executions import Execution
from chargehand_plugins.testing.in_memory.sdk import ScheduleActivity
from chargehand_plugins.testing.in_memory.server import Server

_MOST_ATTEMPTS: Final = 5
_LEAST_TIME: Final = 1_000
"""Minimum duration of an activity in nanoseconds, so that it ends after its workflow task."""
_Activity = Callable[..., Any]
_Key = tuple[str, int]
_Ended = tuple[Payload | None, Failure | None]


class Stuck(AssertionError):  # noqa: N818  # it is raised as a statement of fact
    """A session waits for a message that is never sent."""


class _NoServer:
    """An activity's client without a server: heartbeats are dropped, and sessions cannot be listed."""

    def get_async_activity_handle(self, **_: object) -> "_NoServer":
        return self

    async def heartbeat(self, *_: object, **__: object) -> None:
        return None

    async def count_workflows(self, query: str) -> None:
        raise RPCError(f"there is nothing to count: {query}", RPCStatusCode.UNIMPLEMENTED, b"")


@dataclass
class RunningActivities:
    activities: dict[str, _Activity]
    tasks: dict[asyncio.Task[_Ended], tuple[Execution, ScheduleActivity]] = field(
        default_factory=dict[asyncio.Task[_Ended], tuple[Execution, ScheduleActivity]]
    )
    _asked: list[tuple[Execution, ScheduleActivity]] = field(default_factory=list[tuple[Execution, ScheduleActivity]])
    _unwanted: set[_Key] = field(default_factory=set[_Key])
    _id: str = field(default_factory=lambda: uuid4().hex)
    """Part of every run's id, so that a process keeps no state between sessions."""

    def begin(self, execution: Execution, asked: ScheduleActivity) -> None:
        """Queue an activity, which starts after the workflow task."""
        self._asked.append((execution, asked))

    def start(self) -> None:
        """Start queued activities, and cancel abandoned ones."""
        for execution, command in self._asked:
            if (execution.workflow_id, command.seq) not in self._unwanted:
                self.tasks[asyncio.create_task(self._carry_out(execution, command))] = execution, command
        self._asked.clear()
        for task, (execution, command) in self.tasks.items():
            if (execution.workflow_id, command.seq) in self._unwanted:
                task.cancel()
        self._unwanted.clear()

    def abandon(self, execution: Execution, asked: ScheduleActivity) -> None:
        self._unwanted.add((execution.workflow_id, asked.seq))

    def resolve_ended(self, server: Server) -> None:
        """Deliver the results of finished activities to workflows."""
        for task in [task for task in self.tasks if task.done()]:
            execution, command = self.tasks.pop(task)
            if not task.cancelled():
                server.resolve(execution, command, *task.result())

    async def _carry_out(self, execution: Execution, asked: ScheduleActivity) -> _Ended:
        """Make attempts without delays, for as long as a server would."""
        function = self.activities[asked.activity_type]
        kind = next(hint for name, hint in get_type_hints(function).items() if name != "return")
        [argument] = jobs.PAYLOADS.from_payloads(list(asked.arguments), [kind])
        most = asked.retry_policy.maximum_attempts or _MOST_ATTEMPTS
        details: list[Sequence[object]] = [()]
        for attempt in range(1, most + 1):
            environment = ActivityEnvironment(cast("Client", _NoServer()))
            environment.payload_converter = jobs.PAYLOADS
            environment.on_heartbeat = lambda *given: details.append(given)
            info = _info(environment.info, execution, asked, attempt, details[-1])
            environment.info = replace(info, workflow_run_id=f"{execution.run_id} {self._id}")
            try:
                result: Contract = await environment.run(_with_heartbeats(function), argument)
                return jobs.PAYLOADS.to_payload(result), None
            except Exception as error:  # noqa: BLE001  # any exception is the attempt's outcome
                failure = (
                    error
                    if isinstance(error, ApplicationError)
                    else ApplicationError(str(error), type=type(error).__name__)
                )
                if failure.non_retryable or attempt == most:
                    return None, jobs.application_failure(failure)
        raise AssertionError("unreachable")


def _with_heartbeats(function: _Activity) -> _Activity:
    async def run(argument: object) -> object:
        heartbeat.begin().has_beaten = True  # so that the next attempt receives its records
        return await function(argument)

    return run


def _info(
    usual: activity.Info, execution: Execution, asked: ScheduleActivity, attempt: int, details: Sequence[object]
) -> activity.Info:
    now = datetime.now(UTC)
    return replace(
        usual,
        activity_id=asked.activity_id,
        activity_type=asked.activity_type,
        attempt=attempt,
        heartbeat_details=list(details),
        scheduled_time=now,
        started_time=now,
        current_attempt_scheduled_time=now,
        schedule_to_close_timeout=timedelta(minutes=10),
        start_to_close_timeout=timedelta(minutes=10),
        workflow_id=execution.workflow_id,
        workflow_type=execution.workflow_type,
    )


async def run_workflow(
    workflow_id: str,
    workflow_type: str,
    request: Contract,
    activities: Iterable[_Activity],
    before_waiting: Callable[[Server], bool] = lambda _: False,
) -> Execution:
    """Run a workflow and all its children to its end.

    Args:
        workflow_id: of the workflow.
        workflow_type: of the workflow.
        request: its input.
        activities: those that it and its children may call.
        before_waiting: called before the clock advances; returns whether it has sent anything.

    Raises:
        Stuck: it waits for a message that is never sent.
    """
    running = RunningActivities({each.__name__: each for each in activities})
    server = Server(running)
    root = server.start(workflow_id, workflow_type, jobs.PAYLOADS.to_payload(request))
    try:
        while root.is_open:
            # In a thread, since a workflow has its own event loop.
            await asyncio.to_thread(server.run_until, server.now)
            running.start()
            if running.tasks:
                await asyncio.wait(running.tasks, return_when=asyncio.FIRST_COMPLETED)
                server.now += _LEAST_TIME
                running.resolve_ended(server)
            elif root.is_open and not await asyncio.to_thread(lambda: before_waiting(server) or server.step()):
                raise Stuck(f"the session '{workflow_id}' waits for a message that is never sent")
    finally:
        server.close()
        for task in running.tasks:
            task.cancel()
    return root
