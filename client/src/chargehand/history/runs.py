"""Reads the histories of a workflow's runs: complete, or as they grow, through outages of the server."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ContinueAsNewInitiator
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from chargehand.visibility import UnlessGone, describe
from chargehand.wire import ActivityType, ErrorType

_LONG_POLL: Final = timedelta(seconds=40)
"""The server answers after 20 seconds if nothing happens."""
_BATCH_SECONDS: Final = 0.1
"""Pause between two polls, so that one answer carries all events in between."""
_QUIET_SECONDS: Final = 1.0
"""Pause after an immediate empty answer, as for paused workflows."""
_LONGEST_PAUSE_SECONDS: Final = 2.0
_REFUSALS: Final = frozenset({ErrorType.INVALID_INPUT, ErrorType.LIMIT_TOO_SMALL, ErrorType.TENANT_LIMIT})
_FINAL: Final = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED})
"""Status codes that a retry would not change."""
_STARTING: Final = "Namespace "
"""Beginning of the message of a server that does not know a namespace, as just after its start."""


async def growing_history(client: Client, workflow_id: str, run_id: str) -> AsyncGenerator[HistoryEvent]:
    """Yield every event of a run once, in order, as it is written, until the run ends."""
    page, last, failures = b"", 0, 0
    while True:
        polled_at = time.monotonic()
        try:
            answer = await _poll(client, workflow_id, run_id, page)
        except RPCError as error:
            if error.status in _FINAL and not error.message.startswith(_STARTING):
                raise
            # Whatever is wrong with this page token: restart, skipping the events already yielded.
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
        is_hasty = not answer.history.events and time.monotonic() - polled_at < _QUIET_SECONDS
        await asyncio.sleep(_QUIET_SECONDS if is_hasty else _BATCH_SECONDS)


async def _poll(client: Client, workflow_id: str, run_id: str, page: bytes) -> GetWorkflowExecutionHistoryResponse:
    request = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
        wait_new_event=True,
        next_page_token=page,
    )
    return await client.workflow_service.get_workflow_execution_history(request, timeout=_LONG_POLL)


async def refusal(client: Client, workflow_id: str) -> tuple[str, ErrorType] | None:
    """Wait until a session or conversation has been opened; return why it was refused, if it was."""
    async with aclosing(growing_history(client, workflow_id, "")) as events:
        async for event in events:
            failure = event.workflow_execution_failed_event_attributes.failure
            if failure.application_failure_info.type in _REFUSALS:
                return failure.message, ErrorType(failure.application_failure_info.type)
            memo = event.workflow_properties_modified_event_attributes.upserted_memo.fields
            states = await client.data_converter.decode([memo["state"]], [str]) if "state" in memo else ()
            activity = event.activity_task_scheduled_event_attributes.activity_type.name
            if activity not in {"", ActivityType.OPEN_SESSION} or "awaiting_message" in states:
                break
    return None


async def histories(client: Client, workflow_id: str, run_id: str | None = None) -> list[WorkflowHistory]:
    """Fetch the histories of all runs of a workflow, oldest first.

    `run_id` is the first run; by default, the newest run and those before it are looked up.
    """
    read = [await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()]
    while run_id is None and (before := _continues(read[0].events[0])):
        with UnlessGone():
            read.insert(0, await client.get_workflow_handle(workflow_id, run_id=before).fetch_history())
            continue
        break
    while run_id is not None and (
        after := read[-1].events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    ):
        read.append(await client.get_workflow_handle(workflow_id, run_id=after).fetch_history())
    return read


async def run_before(client: Client, workflow_id: str, run_id: str) -> str:
    """Return the run that a run continues; empty if there is none or it is no longer retained."""
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    before = _continues(await anext(handle.fetch_history_events(page_size=1)))
    with UnlessGone():
        if before:
            await describe(client, workflow_id, before)
        return before
    return ""


def _continues(first: HistoryEvent) -> str:
    """Return the run that this one continues; each run of a cron schedule is a separate session."""
    started = first.workflow_execution_started_event_attributes
    is_continued = started.initiator == ContinueAsNewInitiator.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
    return started.continued_execution_run_id if is_continued else ""
