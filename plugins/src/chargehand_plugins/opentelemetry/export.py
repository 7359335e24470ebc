"""The export of spans by OTLP/HTTP. Imported only by workers that export."""

import asyncio
import logging
import threading
from collections import OrderedDict
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, create_tracer_provider

from chargehand.spans import SCOPE, SpanAttribute
from chargehand_plugins.opentelemetry.activities import AttemptIds
from chargehand_plugins.opentelemetry.settings import TracingSettings

_FLUSH_SECONDS: Final = 5.0
_TRIED_SECONDS: Final = 3
_KEPT: Final = 10_000


class OwnSpans(BatchSpanProcessor):
    """Exports Chargehand's spans, each once.

    Libraries' own spans may contain user text. A workflow's last task is repeated if the server
    did not accept its result, and its span would be exported again.
    """

    def __init__(self, exporter: OTLPSpanExporter, delay_milliseconds: int) -> None:
        super().__init__(exporter, schedule_delay_millis=delay_milliseconds)
        self._ended: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._lock = threading.Lock()

    def on_end(self, span: ReadableSpan) -> None:
        context, scope = span.context, span.instrumentation_scope
        if context is None or scope is None or scope.name != SCOPE:
            return
        if SpanAttribute.ATTEMPT not in (span.attributes or {}):
            key = context.trace_id, context.span_id
            with self._lock:
                if key in self._ended:
                    return
                self._ended[key] = None
                if len(self._ended) > _KEPT:
                    self._ended.popitem(last=False)
        super().on_end(span)


class _Statuses(logging.Handler):
    """Collects the HTTP statuses of refusals, which the library only logs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[int] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.found.update(each for each in record.args or () if isinstance(each, int))


def try_export() -> str:
    """Send an empty export; return why the receiver does not accept it, or an empty text."""
    statuses = _Statuses()
    logger = logging.getLogger(OTLPSpanExporter.__module__)
    logger.addHandler(statuses)
    logger.propagate = False
    exporter = OTLPSpanExporter(timeout=_TRIED_SECONDS)
    is_taken = exporter.export([]) is SpanExportResult.SUCCESS
    exporter.shutdown()
    if is_taken:
        return ""
    match statuses.found & {401, 403, 404}:
        case found if 404 in found:
            return "the receiver has no such path; check OTEL_EXPORTER_OTLP_ENDPOINT, without /v1/traces"
        case found if found:
            return "the receiver refuses the key; check OTEL_EXPORTER_OTLP_HEADERS"
        case _:
            return "no receiver takes spans; check OTEL_EXPORTER_OTLP_ENDPOINT, the network, and whether it is running"


def start_export(settings: TracingSettings, closing: AsyncExitStack) -> OpenTelemetryPlugin:
    """Start exporting this process's spans, and return the tracer for clients.

    OpenTelemetry reads the other settings, which are already validated, itself.
    """
    resource = Resource.create({"service.version": version("chargehand")})
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": SCOPE}))
    provider = create_tracer_provider(resource=resource, shutdown_on_exit=False, id_generator=AttemptIds())
    provider.add_span_processor(OwnSpans(OTLPSpanExporter(), int(settings.otel_schedule_delay or 1_000)))
    trace.set_tracer_provider(provider)
    # Keep libraries from sending trace headers to third parties. Temporal's plugin has its own propagator.
    propagate.set_global_textmap(CompositePropagator([]))

    async def close() -> None:
        # The library may retry an unreachable receiver for a minute.
        flushing = threading.Thread(target=provider.shutdown, name="spans", daemon=True)
        flushing.start()
        await asyncio.to_thread(flushing.join, _FLUSH_SECONDS)

    closing.push_async_callback(close)
    return OpenTelemetryPlugin()
