"""Propagation of the trace of a program that starts a session; the session's spans become part of it.

It uses the header of Temporal's OpenTelemetry plugin, but without the caller's baggage, which histories would store.
"""

import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    StartWorkflowUpdateWithStartInput,
    WorkflowHandle,
    WorkflowUpdateHandle,
)
from temporalio.converter import PayloadConverter

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(r"[ -~]{1,512}")
_received: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("received_trace", default=None)


@contextmanager
def received_trace(parent: str, state: str = "") -> Generator[None]:
    """Make sessions started in the block part of the trace of a caller's request.

    Args:
        parent: W3C `traceparent`; any other text is ignored.
        state: W3C `tracestate`; ignored above 512 characters.
    """
    carrier = {"traceparent": parent} if _PARENT.fullmatch(parent) else {}
    if carrier and _STATE.fullmatch(state):
        carrier["tracestate"] = state
    before = _received.set(carrier)
    try:
        yield
    finally:
        _received.reset(before)


class CallerTrace(Interceptor):
    """Sends a trace along with a session start: this program's current one, or else the received one."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # the SDK's own name
        return _SendTrace(next)


class _SendTrace(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002  # as above
        input.headers = _with_trace(input.headers)
        return await super().start_workflow(input)

    async def start_update_with_start_workflow(
        self,
        input: StartWorkflowUpdateWithStartInput,  # noqa: A002  # as above
    ) -> WorkflowUpdateHandle[Any]:
        input.start_workflow_input.headers = _with_trace(input.start_workflow_input.headers)
        return await super().start_update_with_start_workflow(input)


def _with_trace(headers: Mapping[str, Payload]) -> Mapping[str, Payload]:
    carrier = carried()
    if not carrier:
        return headers
    return {**headers, "_tracer-data": PayloadConverter.default.to_payloads([carrier])[0]}


def carried() -> Mapping[str, str]:
    """Return the trace headers for a session started now; empty without a trace."""
    carrier: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # optional

        TraceContextTextMapPropagator().inject(carrier)
    return carrier or _received.get() or {}
