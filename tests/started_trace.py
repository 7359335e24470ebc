"""The trace that a session was started in, as its history has it."""

import json
from typing import Any

from temporalio.client import Client


async def started_trace(client: Client, session: str) -> Any:
    """Read the carrier of OpenTelemetry that came with the start of a session; None if none came."""
    started = await anext(client.get_workflow_handle(session).fetch_history_events())
    fields = started.workflow_execution_started_event_attributes.header.fields
    return json.loads(fields["_tracer-data"].data) if "_tracer-data" in fields else None
