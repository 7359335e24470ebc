"""Results from before a `workflow reset`, so that no turn is paid and no child started a second time.

A reset starts a new run from the middle of an old one. The old run's history still contains every later call, with its
request and its result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from temporalio import activity
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError

from activities.contracts.session import RunningDuplicate, RunningDuplicateRequest
from activities.single_flight import Newest
from activities.turn.contracts import TurnRequest, TurnResult
from chargehand.converter import non_retryable_error
from chargehand.visibility import describe, result_of
from chargehand.wire import ActivityType, ErrorType

_MOST_RUNS: Final = 32
"""Maximum runs whose discarded turns this worker caches."""


@dataclass
class DiscardedTurn:
    request: TurnRequest
    result: TurnResult | None = None
    """None if the call was running when the run ended."""

    def matches(self, request: TurnRequest) -> bool:
        """Whether the requests are the same, apart from the output cap, which depends on the ledger."""
        same = {"after_reset": True, "max_output_tokens": request.max_output_tokens}
        return self.request.replace(**same) == request


class DiscardedTurns:
    """Finds the turns that earlier runs of a workflow took at the same step."""

    def __init__(self) -> None:
        self._found = Newest[str, Mapping[str, DiscardedTurn]](_MOST_RUNS)

    async def at_this_step(self) -> DiscardedTurn | None:
        """Find the current activity in the runs before the reset; None if they did not reach it."""
        info = activity.info()
        run_id = info.workflow_run_id or ""
        if run_id not in self._found:
            self._found[run_id] = await _discarded_turns(activity.client(), info.workflow_id or "", run_id)
        return self._found[run_id].get(info.activity_id)


async def _discarded_turns(client: Client, workflow_id: str, run_id: str) -> dict[str, DiscardedTurn]:
    """Collect the turns of all runs before the newest reset, keeping the latest for each step."""
    turns: dict[str, DiscardedTurn] = {}
    base: str | None = run_id
    while base is not None:
        run, base = base, None
        handle = client.get_workflow_handle(workflow_id, run_id=run)
        scheduled: dict[int, str] = {}
        run_turns: dict[str, DiscardedTurn] = {}
        try:
            async for event in handle.fetch_history_events():
                if event.HasField("workflow_task_failed_event_attributes"):
                    failed = event.workflow_task_failed_event_attributes
                    if failed.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW:
                        base = failed.base_run_id
                elif run != run_id:
                    await _read_event(client, event, scheduled, run_turns)
        except RPCError as error:
            raise ApplicationError(f"The run before the reset cannot be read: {error.message}") from error
        turns = run_turns | turns
    return turns


async def _read_event(
    client: Client, event: HistoryEvent, scheduled: dict[int, str], found: dict[str, DiscardedTurn]
) -> None:
    if event.HasField("activity_task_scheduled_event_attributes"):
        scheduled_event = event.activity_task_scheduled_event_attributes
        if scheduled_event.activity_type.name == ActivityType.TAKE_TURN:
            [request] = await client.data_converter.decode(list(scheduled_event.input.payloads), [TurnRequest])
            scheduled[event.event_id] = scheduled_event.activity_id
            found[scheduled_event.activity_id] = DiscardedTurn(request)
    elif event.HasField("activity_task_completed_event_attributes"):
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id in scheduled:
            [result] = await client.data_converter.decode(list(completed.result.payloads), [TurnResult])
            found[scheduled[completed.scheduled_event_id]].result = result
    elif event.HasField("activity_task_failed_event_attributes"):
        # The workflow charged its cost before it continued.
        found.pop(scheduled.get(event.activity_task_failed_event_attributes.scheduled_event_id, ""), None)


def reuse(earlier: DiscardedTurn) -> TurnResult:
    """Return the paid result of the same turn before the reset. Raises `AttemptLost` if only the call is known."""
    if earlier.result is None:
        raise non_retryable_error(
            ErrorType.ATTEMPT_LOST,
            "A reset ended the run that made this call; whether the provider charged for it is not known.",
        )
    return earlier.result


class RunningDuplicateActivities:
    @activity.defn(name=ActivityType.AWAIT_DUPLICATE)
    async def await_duplicate(self, request: RunningDuplicateRequest) -> RunningDuplicate:
        """Wait for a child of an earlier run of the same workflow to end."""
        client, info = activity.client(), activity.info()
        handle = client.get_workflow_handle(request.workflow_id)
        parent = (await describe(client, request.workflow_id)).workflow_execution_info.parent_execution
        if parent.workflow_id != info.workflow_id or parent.run_id == info.workflow_run_id:
            return RunningDuplicate(ended="duplicate")
        try:
            result: JsonValue = await result_of(handle)
        except WorkflowFailureError as error:
            return _failed_end(error.cause)
        except BaseException:
            await handle.cancel()
            raise
        return RunningDuplicate(ended="completed", result=result)


def _failed_end(cause: BaseException) -> RunningDuplicate:
    if isinstance(cause, CancelledError):
        return RunningDuplicate(ended="cancelled")
    if isinstance(cause, TerminatedError):
        return RunningDuplicate(ended="terminated")
    return RunningDuplicate(
        ended="failed", message=cause.message if isinstance(cause, ApplicationError) else str(cause)
    )
