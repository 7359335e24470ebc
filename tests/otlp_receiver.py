"""A receiver of OTLP/HTTP on loopback, which decodes what a collector would get."""

import gzip
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from temporalio.client import Client

from tests.loopback_http import LoopbackHandler, serve_http


@dataclass
class Received:
    url: str = ""
    bodies: list[bytes] = field(default_factory=list[bytes])

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    @property
    def spans(self) -> list[Span]:
        """All spans by start time."""
        found = (
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        )
        return sorted(found, key=lambda span: span.start_time_unix_nano)


def attributes(span: Span) -> dict[str, object]:
    values = {each.key: each.value for each in span.attributes}
    return {name: getattr(value, str(value.WhichOneof("value"))) for name, value in values.items()}


@contextmanager
def receive_spans() -> Generator[Received]:
    received = Received()

    class Handler(LoopbackHandler):
        def reply(self) -> None:
            body = self.body()
            received.bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.answer(200 if self.path == "/v1/traces" else 404)

    with serve_http(Handler) as received.url:
        yield received


async def started_trace(client: Client, session: str) -> Any:
    """Read the OpenTelemetry carrier that a session was started with; None if there was none."""
    started = await anext(client.get_workflow_handle(session).fetch_history_events())
    fields = started.workflow_execution_started_event_attributes.header.fields
    return json.loads(fields["_tracer-data"].data) if "_tracer-data" in fields else None
