"""What a worker that exports spans gets, and the header by which traces travel, of which no worker takes a bad one."""

import json
from contextlib import AsyncExitStack
from typing import Final

from temporalio.api.common.v1 import Payload
from temporalio.client import Client, Plugin
from temporalio.worker import Interceptor

from activities.backends import secret_values
from chargehand_plugins.opentelemetry.settings import TracingSettings, choose
from worker.settings import Settings, settings_of
from workflows.sdk import WorkflowActivation

_HEADER: Final = "_tracer-data"
_LARGEST_BYTES: Final = 16_384
"""W3C allows 512 characters of state and 8,192 of baggage."""


def client_plugins(settings: Settings, closing: AsyncExitStack) -> list[Plugin]:
    """Begin to export spans, if the settings say so, and return what clients need for that."""
    if choose(settings)[0].adapter == "none":
        return []
    from chargehand_plugins.opentelemetry.export import start_export

    return [start_export(settings_of(settings, TracingSettings), closing)]


def interceptors(settings: Settings, client: Client) -> list[Interceptor]:
    """Return what makes spans, for a client that traces. Others load nothing of OpenTelemetry's."""
    if not any(plugin.name() == "OpenTelemetryPlugin" for plugin in client.config()["plugins"]):
        return []
    from chargehand_plugins.opentelemetry.content import Content
    from chargehand_plugins.opentelemetry.workflows import Traced

    wanted = settings_of(settings, TracingSettings).otel_content.lower()
    with_content = wanted in ("span_only", "true")  # the second is the convention's word of before
    return [Traced(Content(secret_values(settings)) if with_content else None)]


def drop_unreadable_traces(activation: WorkflowActivation) -> None:
    """Drop the header from starts, signals and updates in which it is no carrier, before Temporal's plugin reads it.

    Any client that may write to the namespace can send one. An error while a message is applied would fail the
    workflow's tasks for ever.
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
