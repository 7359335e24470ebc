"""The span that is current where this is called; OpenTelemetry is used only if something else has loaded it."""

import sys
from collections.abc import Mapping
from typing import Any

from chargehand.spans import SpanAttribute, span_name


def current_trace_id() -> str:
    """Return the id of the current trace in hexadecimal; empty outside any."""
    context = span.get_span_context() if (span := _current()) else None
    return f"{context.trace_id:032x}" if context and context.is_valid else ""


def describe_call(model: str, provider: str) -> None:
    """Say in the span of a turn which model is called."""
    if (span := _current()) and span.is_recording():
        span.update_name(span_name("turn", model))
        span.set_attributes({SpanAttribute.REQUEST_MODEL: model, SpanAttribute.PROVIDER: provider})


def note(attributes: Mapping[SpanAttribute, str | int | float | bool]) -> None:
    """Add attributes to the current span."""
    if span := _current():
        span.set_attributes(attributes)


def _current() -> Any:
    api = sys.modules.get("opentelemetry.trace")
    return api.get_current_span() if api else None
