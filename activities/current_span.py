"""The span that is current where this is called; OpenTelemetry is used only if something else has loaded it."""

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
"""Describes what a model is sent and replies, in workers whose operator wants that in spans."""


def current_trace_id() -> str:
    """Return the id of the current trace in hexadecimal; empty outside any."""
    context = span.get_span_context() if (span := _current()) else None
    return f"{context.trace_id:032x}" if context and context.is_valid else ""


def describe_call(call: "ModelCall", provider: str) -> None:
    """Say in the span of a turn which model is called."""
    if (span := _current()) and span.is_recording():
        span.update_name(span_name("turn", call.model))
        span.set_attributes({SpanAttribute.REQUEST_MODEL: call.model, SpanAttribute.PROVIDER: provider})
        note_content(call)


def note_content(said: "ModelCall | ModelReply") -> None:
    """Add what is said to the current span, if the operator wants that."""
    if (describe := DESCRIBE_CONTENT.get()) and (span := _current()) and span.is_recording():
        span.set_attributes(describe(said))


def note(attributes: Mapping[SpanAttribute, str | int | float | bool]) -> None:
    if span := _current():
        span.set_attributes(attributes)


def _current() -> Any:
    api = sys.modules.get("opentelemetry.trace")
    return api.get_current_span() if api else None
