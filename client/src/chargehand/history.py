"""Reads the history of a workflow's run as it grows, however often the server is away."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryResponse,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

_LONG_POLL: Final = timedelta(seconds=40)
"""The server answers after 20 seconds if nothing happens."""
_BATCH_SECONDS: Final = 0.1
"""Between two answers: what happens meanwhile comes with one answer, whatever the number of events."""
_QUIET_SECONDS: Final = 1.0
"""After an answer that came at once with nothing, as those about paused workflows do."""
_LONGEST_PAUSE_SECONDS: Final = 5.0
_FINAL: Final = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED})
"""Answers that another attempt would not change."""

State = Literal["running", "completed", "failed", "timed_out", "cancelled", "terminated"]
_END_STATES: Final[dict[str, State]] = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "timed_out",
    "canceled": "cancelled",
    "terminated": "terminated",
}
"""State after an event, by the end of the event's name."""


async def growing_history(client: Client, workflow_id: str, run_id: str) -> AsyncGenerator[HistoryEvent]:
    """Yield every event of a run once, in order, as it is written; ends when the run has.

    Raises:
        RPCError: the server does not know the run, or refuses to show it.
    """
    page, last, failures = b"", 0, 0
    while True:
        asked_at = time.monotonic()
        try:
            answer = await _ask(client, workflow_id, run_id, page)
        except RPCError as error:
            if error.status in _FINAL:
                raise
            # Whatever is wrong with this page: from the beginning, without what was seen.
            page, failures = b"", failures + 1
            await asyncio.sleep(min(0.1 * 2**failures, _LONGEST_PAUSE_SECONDS))
            continue
        failures = 0
        for event in answer.history.events:
            if event.event_id > last:
                last = event.event_id
                yield event
        page = answer.next_page_token
        if not page:
            return
        is_hasty = not answer.history.events and time.monotonic() - asked_at < _QUIET_SECONDS
        await asyncio.sleep(_QUIET_SECONDS if is_hasty else _BATCH_SECONDS)


async def _ask(client: Client, workflow_id: str, run_id: str, page: bytes) -> GetWorkflowExecutionHistoryResponse:
    asked = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
        wait_new_event=True,
        next_page_token=page,
    )
    return await client.workflow_service.get_workflow_execution_history(asked, timeout=_LONG_POLL)


def end_state(kind: str, prefix: str) -> State | None:
    """Return the state after an event of this kind; None if it ends nothing."""
    return _END_STATES.get(kind.removeprefix(f"{prefix}_").removesuffix("_event_attributes"))


def error_of(failure: Failure) -> str:
    """Name a failure by its type; its message may contain user text, and is left out."""
    innermost = failure
    while innermost.HasField("cause") and not innermost.HasField("application_failure_info"):
        innermost = innermost.cause
    if innermost.HasField("timeout_failure_info"):
        name = TimeoutType.Name(innermost.timeout_failure_info.timeout_type)
        return "".join(word.capitalize() for word in name.removeprefix("TIMEOUT_TYPE_").split("_")) + "Timeout"
    return innermost.application_failure_info.type


def time_of(stamp: Timestamp) -> datetime | None:
    """Read a time; None if it is not set."""
    return stamp.ToDatetime(UTC) if stamp.seconds else None
