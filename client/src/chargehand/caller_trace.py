"""The trace of the program that starts a session: the session's spans become part of it.

It travels as Temporal's own OpenTelemetry plugin sends it, without the caller's baggage, which histories would keep.
"""

import sys
from collections.abc import Mapping
from typing import Any

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


class CallerTrace(Interceptor):
    """Sends the caller's trace along with a session; does nothing in programs without OpenTelemetry."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # the SDK's own name
        """Return the interceptor of a client's calls."""
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
    if "opentelemetry.trace" not in sys.modules:
        return headers
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415  # optional

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    if not carrier:
        return headers
    return {**headers, "_tracer-data": PayloadConverter.default.to_payloads([carrier])[0]}
