"""The current span; OpenTelemetry is used only if it is already loaded."""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from chargehand.spans import SpanAttribute, span_name

if TYPE_CHECKING:
    from activities.models.protocol import ModelCall, ModelReply

DESCRIBE_CONTENT: Final[ContextVar["Callable[[ModelCall | ModelReply], Mapping[SpanAttribute, str]] | None"]] = (
    ContextVar("describe_content", default=None)
)
"""Describes model input and output in spans, if the operator enables that."""


def current_trace_id() -> str:
    """Return the current trace id in hexadecimal; empty without a trace."""
    context = span.get_span_context() if (span := _current()) else None
    return f"{context.trace_id:032x}" if context and context.is_valid else ""


def describe_call(call: "ModelCall", provider: str) -> None:
    """Add the called model to the span of a turn."""
    if (span := _current()) and span.is_recording():
        span.update_name(span_name("turn", call.model))
        span.set_attributes({SpanAttribute.REQUEST_MODEL: call.model, SpanAttribute.PROVIDER: provider})
        note_content(call)


def note_content(said: "ModelCall | ModelReply") -> None:
    """Add content to the current span, if the operator enables that."""
    if (describe := DESCRIBE_CONTENT.get()) and (span := _current()) and span.is_recording():
        span.set_attributes(describe(said))


def note(attributes: Mapping[SpanAttribute, str | int | float | bool]) -> None:
    if span := _current():
        span.set_attributes(attributes)


def _current() -> Any:
    api = sys.modules.get("opentelemetry.trace")
    return api.get_current_span() if api else None
