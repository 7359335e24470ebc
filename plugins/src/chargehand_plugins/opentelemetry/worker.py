"""Extensions of a worker that exports spans, and validation of the trace header in all workers."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from temporalio.api.common.v1 import Payload
from temporalio.client import Client, Plugin
from temporalio.worker import Interceptor

from activities.backends import Choice, secret_values
from chargehand_plugins.opentelemetry.settings import TracingSettings, choose
from worker.settings import Settings, settings_of
from workflows.registry import AroundWorkflows
from workflows.sdk import WorkflowActivation

_HEADER: Final = "_tracer-data"
_LARGEST_BYTES: Final = 16_384
"""W3C allows 512 characters of state and 8,192 of baggage."""


def client_plugins(settings: Settings, closing: AsyncExitStack) -> list[Plugin]:
    """Start exporting spans, if configured, and return the client plugins for it."""
    if choose(settings)[0].adapter == "none":
        return []
    from chargehand_plugins.opentelemetry.export import start_export

    return [start_export(settings_of(settings, TracingSettings), closing)]


async def examine(settings: Settings, _: object) -> list[Choice]:
    """Send an empty export to the receiver, for `doctor`."""
    [choice] = choose(settings)
    if choice.adapter == "none":
        return []
    from chargehand_plugins.opentelemetry.export import try_export

    return [replace(choice, problem=await asyncio.to_thread(try_export))]


def interceptors(settings: Settings, client: Client) -> list[Interceptor]:
    """Return the tracing interceptors for a tracing client; others do not load OpenTelemetry."""
    if not any(plugin.name() == "OpenTelemetryPlugin" for plugin in client.config()["plugins"]):
        return []
    from chargehand_plugins.opentelemetry.activities import TracedActivities
    from chargehand_plugins.opentelemetry.content import Content
    from chargehand_plugins.opentelemetry.workflows import TracedWorkflow

    wanted = settings_of(settings, TracingSettings).otel_content.lower()
    with_content = wanted in ("span_only", "true")  # the second is the former name in the conventions
    content = Content(secret_values(settings)) if with_content else None
    return [TracedActivities(content), AroundWorkflows(TracedWorkflow)]


def drop_unreadable_traces(activation: WorkflowActivation) -> None:
    """Drop malformed trace headers from starts, signals and updates, before Temporal's plugin reads them.

    Any client with access to the namespace can send one. An error while applying a message would fail the
    workflow's tasks forever.
    """
    for job in activation.jobs:
        for received in (job.initialize_workflow, job.signal_workflow, job.do_update):
            headers = received.headers
            if _HEADER in headers and not _is_carrier(headers[_HEADER]):
                del headers[_HEADER]


def _is_carrier(payload: Payload) -> bool:
    if payload.metadata.get("encoding") != b"json/plain" or len(payload.data) > _LARGEST_BYTES:
        return False
    try:
        carrier = json.loads(payload.data)
    except (ValueError, RecursionError):
        return False
    return isinstance(carrier, dict) and all(isinstance(each, str) for each in carrier.values())  # pyright: ignore[reportUnknownVariableType]  # of any JSON
