"""The caller check: activities run only for sessions of this installation's workers.

An activity trusts its caller's limits, so the caller must be our own workflow code. Runs executed by workers of this
process are already known. For other runs, the server is asked once for the workflow type, the task queue whose workers
execute it, and the parent.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import ExecuteActivityInput

from activities.around import AroundActivities
from activities.contracts.session import OpenSessionRequest
from activities.single_flight import Newest, SingleFlight
from chargehand.converter import non_retryable_error
from chargehand.visibility import describe
from chargehand.wire import SESSIONS, ActivityType, ErrorType, WorkflowType

_CALLERS: Final[Mapping[str, frozenset[str]]] = {
    ActivityType.VERIFY_REPORT: frozenset({WorkflowType.VERIFICATION}),
    ActivityType.FIND_ENDED: frozenset({WorkflowType.TENANT}),
    ActivityType.COUNT_SPENT: frozenset({WorkflowType.TENANT}),
}
"""Activities that only one workflow type may call."""
_OURS: Final[frozenset[str]] = frozenset(WorkflowType) - frozenset[str]().union(*_CALLERS.values())
_WITHOUT_PARENT: Final = SESSIONS | {WorkflowType.VERIFICATION, WorkflowType.TENANT}
_PATIENCE: Final = timedelta(seconds=3)
"""Less than a heartbeat timeout."""
_MOST_RUNS: Final = 10_000
_Run = tuple[str, str]
"""Workflow id and run id."""


@dataclass(frozen=True)
class _Caller:
    """What the server knows about a workflow run."""

    type: str = ""
    task_queue: str = ""
    parent: _Run | None = None


_carried_out: Final = Newest[_Run, _Caller](_MOST_RUNS)
"""The latest runs that workers of this process started or took over."""


def recognise(info: workflow.Info) -> None:
    """Record a run executed by a worker of this process, so that the server need not be asked.

    A continued run is left to the server, which knows its first run.
    """
    if info.first_execution_run_id != info.run_id or info.continued_run_id is not None:
        return
    parent = (info.parent.workflow_id, info.parent.run_id) if info.parent else None
    _carried_out[info.workflow_id, info.run_id] = _Caller(info.workflow_type, info.task_queue, parent)


class CallerCheck(AroundActivities):
    """Refuses activities called by anything other than a session of one task queue."""

    def __init__(self, task_queue: str) -> None:
        self._task_queue = task_queue
        self._known = Newest[_Run, _Caller](_MOST_RUNS)
        self._asking = SingleFlight[_Caller]()

    async def attempt(self, called: ExecuteActivityInput, run: Callable[[], Awaitable[Any]]) -> Any:
        is_delegated = any(isinstance(each, OpenSessionRequest) and each.request.delegation for each in called.args)
        await self.require_session(is_delegated=is_delegated)
        return await run()

    async def require_session(self, *, is_delegated: bool) -> None:
        """Raise unless a session of this task queue scheduled the running activity.

        A subtask and a nested session spend what their parent granted, so their parent must be such a session too.

        Raises:
            ApplicationError: `NotStandalone`.
        """
        info = activity.info()
        caller, ours = _Caller(), _CALLERS.get(info.activity_type, _OURS)
        if info.workflow_type in ours and info.workflow_id and info.workflow_run_id:
            caller = await self._look_up((info.workflow_id, info.workflow_run_id))
        is_ours = caller.type in ours and caller.task_queue == self._task_queue
        if is_ours and (is_delegated or caller.type not in _WITHOUT_PARENT):
            parent = await self._look_up(caller.parent) if caller.parent else _Caller()
            is_ours = parent.type in SESSIONS and parent.task_queue == self._task_queue
        if not is_ours:
            raise non_retryable_error(
                ErrorType.NOT_STANDALONE,
                "This activity spends money or reaches out, and runs only within a session of the task queue "
                f"'{self._task_queue}', whose limits hold. Start a '{WorkflowType.SUPERVISOR}' there instead.",
            )

    async def _look_up(self, run: _Run) -> _Caller:
        caller = _carried_out.get(run) or self._known.get(run)
        if caller is None:
            caller = self._known[run] = await self._asking.run(run, partial(_ask_server, run))
        return caller


async def _ask_server(run: _Run) -> _Caller:
    try:
        described = await describe(activity.client(), *run, _PATIENCE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return _Caller()
        raise
    about = described.workflow_execution_info
    parent = about.parent_execution
    caller = _Caller(
        type=about.type.name,
        task_queue=described.execution_config.task_queue.name,
        parent=(parent.workflow_id, parent.run_id) if parent.workflow_id else None,
    )
    if about.first_run_id not in {"", about.execution.run_id}:
        # A workflow can continue as new as any type and on any task queue. Its first run may have been deleted.
        first = await _ask_server((about.execution.workflow_id, about.first_run_id))
        if first.type and (first.type, first.task_queue) != (caller.type, caller.task_queue):
            return _Caller()
    return caller
