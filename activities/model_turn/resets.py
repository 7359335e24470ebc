"""What a `workflow reset` has thrown away and is not to be paid, or begun, a second time.

A reset starts a new run from the middle of an old one. What the old run did after that point is still in its history,
which names every call with its request and its result.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from temporalio import activity
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError

from activities.caller_check import require_session
from activities.contracts import RunningDuplicate, RunningDuplicateRequest
from activities.model_turn.contracts import TurnRequest, TurnResult
from activities.model_turn.journal import kept_alive
from chargehand.visibility import describe, result_of
from chargehand.wire import ActivityType, ErrorType

_MOST_RUNS: Final = 32
"""Runs whose discarded turns are remembered in this worker."""


@dataclass
class DiscardedTurn:
    """A model turn of a run that a reset has ended."""

    request: TurnRequest
    result: TurnResult | None = None
    """None if the call was under way when the run ended."""

    def was_asked(self, request: TurnRequest) -> bool:
        """Whether it was asked exactly what is asked now."""
        return self.request.model_copy(update={"after_reset": True}) == request


class DiscardedTurns:
    """Finds the turns that earlier runs of a workflow took at the same step."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Mapping[str, DiscardedTurn]] = OrderedDict()

    async def at_this_step(self) -> DiscardedTurn | None:
        """Look the running activity up in the runs before the reset; None if they never came here."""
        info = activity.info()
        run_id = info.workflow_run_id or ""
        if run_id not in self._found:
            self._found[run_id] = await _discarded(activity.client(), info.workflow_id or "", run_id)
            if len(self._found) > _MOST_RUNS:
                self._found.popitem(last=False)
        return self._found[run_id].get(info.activity_id)


async def _discarded(client: Client, workflow_id: str, run_id: str) -> dict[str, DiscardedTurn]:
    """Collect the turns of all runs before the newest reset, the latest of each step."""
    turns: dict[str, DiscardedTurn] = {}
    base: str | None = run_id
    while base is not None:
        run, base = base, None
        handle = client.get_workflow_handle(workflow_id, run_id=run)
        scheduled: dict[int, str] = {}
        found: dict[str, DiscardedTurn] = {}
        async for event in _events(handle):
            if event.HasField("workflow_task_failed_event_attributes"):
                failed = event.workflow_task_failed_event_attributes
                if failed.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
                    base = failed.base_run_id
            elif run != run_id:
                await _take_up(client, event, scheduled, found)
        turns = found | turns
    return turns


async def _events(handle: WorkflowHandle[object, object]) -> AsyncIterator[HistoryEvent]:
    try:
        async for event in handle.fetch_history_events():
            yield event
    except RPCError as error:
        raise ApplicationError(f"The run before the reset cannot be read: {error.message}") from error


async def _take_up(
    client: Client, event: HistoryEvent, scheduled: dict[int, str], found: dict[str, DiscardedTurn]
) -> None:
    if event.HasField("activity_task_scheduled_event_attributes"):
        asked = event.activity_task_scheduled_event_attributes
        if asked.activity_type.name == ActivityType.TAKE_TURN:
            [request] = await client.data_converter.decode(list(asked.input.payloads), [TurnRequest])
            scheduled[event.event_id] = asked.activity_id
            found[asked.activity_id] = DiscardedTurn(request)
    elif event.HasField("activity_task_completed_event_attributes"):
        done = event.activity_task_completed_event_attributes
        if done.scheduled_event_id in scheduled:
            [result] = await client.data_converter.decode(list(done.result.payloads), [TurnResult])
            found[scheduled[done.scheduled_event_id]].result = result
    elif event.HasField("activity_task_failed_event_attributes"):
        # The workflow booked what it cost before it went on.
        found.pop(scheduled.get(event.activity_task_failed_event_attributes.scheduled_event_id, ""), None)


def reused(earlier: DiscardedTurn) -> TurnResult:
    """Take the result of the same turn before the reset, which is paid already.

    Raises:
        ApplicationError: `AttemptLost`, if there is none although the call was made.
    """
    if earlier.result is None:
        raise ApplicationError(
            "A reset ended the run that made this call; whether the provider charged for it is not known.",
            0,
            type=ErrorType.ATTEMPT_LOST,
            non_retryable=True,
        )
    return earlier.result


class RunningDuplicateActivities:
    """Waits for children that a run before a reset has started."""

    @activity.defn(name=ActivityType.AWAIT_DUPLICATE)
    async def await_duplicate(self, request: RunningDuplicateRequest) -> RunningDuplicate:
        """Wait for the end of a child of an earlier run of the same workflow."""
        require_session()
        client, info = activity.client(), activity.info()
        handle = client.get_workflow_handle(request.workflow_id)
        parent = (await describe(client, request.workflow_id)).workflow_execution_info.parent_execution
        if parent.workflow_id != info.workflow_id or parent.run_id == info.workflow_run_id:
            return RunningDuplicate(ended="duplicate")
        async with kept_alive():
            try:
                result: JsonValue = await result_of(handle)
            except WorkflowFailureError as error:
                return _badly_ended(error.cause)
            except BaseException:
                await handle.cancel()
                raise
        return RunningDuplicate(ended="completed", result=result)


def _badly_ended(cause: BaseException) -> RunningDuplicate:
    match cause:
        case CancelledError():
            return RunningDuplicate(ended="cancelled")
        case TerminatedError():
            return RunningDuplicate(ended="terminated")
        case ApplicationError():
            return RunningDuplicate(ended="failed", message=cause.message)
        case _:
            return RunningDuplicate(ended="failed", message=str(cause))
