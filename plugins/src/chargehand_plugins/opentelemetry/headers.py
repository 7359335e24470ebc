"""The header by which traces travel: one that cannot be read is dropped, before Temporal's plugin reads it.

Any client that may write to the namespace can send one. An error while a message is applied would fail the workflow's
tasks for ever.
"""

import json
from typing import Final

from temporalio.api.common.v1 import Payload

from workflows.sdk import WorkflowActivation

_HEADER: Final = "_tracer-data"
_LARGEST_BYTES: Final = 16_384
"""W3C allows 512 characters of state and 8,192 of baggage."""


def drop_unreadable_traces(activation: WorkflowActivation) -> None:
    """Drop the header from starts, signals and updates in which it is no carrier of OpenTelemetry."""
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
