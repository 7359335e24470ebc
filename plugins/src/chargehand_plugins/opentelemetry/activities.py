"""The spans of activities: one per attempt.

Imported only by workers that trace.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    get_tracer,
    use_span,
)
from temporalio import activity
from temporalio.exceptions import ApplicationError, is_cancelled_exception
from temporalio.worker import ExecuteActivityInput

from activities.around import AroundActivities
from activities.contracts.rounds import ToolRequest, ToolResult
from activities.current_span import DESCRIBE_CONTENT
from activities.turn.contracts import TurnRequest, TurnResult
from chargehand.spans import OPERATIONS, SCOPE, SpanAttribute, span_name
from chargehand_plugins.opentelemetry.content import Content

_BELOW: Final = re.compile(r"(/[0-9a-f]{12}/[^/]+(/[0-9a-f]{16}(-\w+)?)?)+$")
_TOOL_FAILED: Final = "tool_failed"
_NEXT_ID: Final[ContextVar[int | None]] = ContextVar("next_id", default=None)
Attributes = dict[str, str | int | float | bool]


class AttemptIds(RandomIdGenerator):
    """Generates deterministic span ids for activity attempts, and random ones for other spans."""

    def generate_span_id(self) -> int:
        return _NEXT_ID.get() or super().generate_span_id()


class TracedActivities(AroundActivities):
    """Creates a span for every attempt of an activity; without content, it has no user text."""

    def __init__(self, content: Content | None = None) -> None:
        """Take the content describer, if the operator enables content in spans."""
        self._content = content

    async def attempt(self, called: ExecuteActivityInput, run: Callable[[], Awaitable[Any]]) -> Any:
        if not get_current_span().get_span_context().is_valid:  # its workflow is not traced
            return await run()
        request: object = called.args[0] if called.args else None
        tracer, (name, about) = get_tracer(SCOPE), _about(request)
        kind = SpanKind.CLIENT if isinstance(request, TurnRequest) else SpanKind.INTERNAL
        span = _start_attempt(tracer, name, kind, {**_where(), **about})
        # The message of an exception may contain text of users.
        with use_span(span, record_exception=False, set_status_on_exception=False):
            ended_at = None
            if self._content:
                DESCRIBE_CONTENT.set(self._content.of)
                if isinstance(request, ToolRequest):
                    span.set_attributes({**self._content.of_request(request.call)})
            try:
                result = await run()
                if isinstance(request, TurnRequest):
                    ended_at = _add_used(tracer, request, result, self._content)
            except BaseException as error:
                set_error(span, error_type(error))
                raise
            else:
                return _end_span(span, result, self._content)
            finally:
                span.end(ended_at)


def _start_attempt(tracer: Tracer, name: str, kind: SpanKind, attributes: Attributes) -> Span:
    """Start the span of an attempt, linked to the first attempt of the same step if it is a later one."""
    info = activity.info()
    activity_id = info.activity_id or ""
    # `turn-3.again-1` repeats `turn-3`, whose worker was lost.
    own, first = _attempt_id(activity_id, info.attempt), _attempt_id(activity_id.partition(".again-")[0], 1)
    before = _NEXT_ID.set(own)
    span = tracer.start_span(name, kind=kind, attributes=attributes)
    _NEXT_ID.reset(before)
    context = span.get_span_context()
    if own == context.span_id != first:  # an embedding program's provider generates other ids
        span.add_link(SpanContext(context.trace_id, first, is_remote=True, trace_flags=context.trace_flags))
    return span


def _attempt_id(activity_id: str, attempt: int) -> int:
    text = f"{activity.info().workflow_run_id}\n{activity_id}\n{attempt}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def set_error(span: Span, kind: str) -> None:
    span.set_attribute(SpanAttribute.ERROR, kind)
    span.set_status(Status(StatusCode.ERROR))


def error_type(error: BaseException) -> str:
    """Return an error's type; for our own errors, it is from the fixed vocabulary."""
    if isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error):
        return "cancelled"
    return (isinstance(error, ApplicationError) and error.type) or type(error).__name__


def _where() -> Attributes:
    info = activity.info()
    return {
        SpanAttribute.CONVERSATION: root_session(info.workflow_id or ""),
        SpanAttribute.ATTEMPT: info.attempt,
        SpanAttribute.TEMPORAL_ID: f"{info.workflow_id}#{info.activity_id}",
        SpanAttribute.TEMPORAL_RUN: info.workflow_run_id or "",
    }


def _about(request: object) -> tuple[str, Attributes]:
    match request:
        case TurnRequest():
            return span_name("turn", request.model_name), {
                SpanAttribute.STEP_KIND: "turn",
                SpanAttribute.OPERATION: OPERATIONS["turn"],
                SpanAttribute.AGENT: request.agent,
                SpanAttribute.PURPOSE: request.task.kind,
                SpanAttribute.REQUEST_TOKENS: request.max_output_tokens,
            }
        case ToolRequest():
            return _about_tool(request.call.tool, request.agent)
        case _:
            return activity.info().activity_type, {SpanAttribute.STEP_KIND: "other"}


def _about_tool(tool: str, agent: str) -> tuple[str, Attributes]:
    return span_name("tool", tool), {
        SpanAttribute.STEP_KIND: "tool",
        SpanAttribute.OPERATION: OPERATIONS["tool"],
        SpanAttribute.AGENT: agent,
        SpanAttribute.TOOL: tool,
    }


def _end_span(span: Span, result: object, content: Content | None) -> object:
    """Set the final attributes of a span; a turn's result gets the span id, as the parent of its tool calls."""
    if not span.is_recording():
        return result
    if content and isinstance(result, ToolResult):
        span.set_attributes({**content.of_result(result)})
    match result:
        case TurnResult():
            span.set_attributes(
                {
                    SpanAttribute.PROVIDER: result.provider,
                    SpanAttribute.RESPONSE_MODEL: result.model,
                    SpanAttribute.STOP_REASON: result.stop,
                }
            )
            if not getattr(span, "attributes", {}).get(SpanAttribute.FROM_JOURNAL):
                span.set_attributes(_usage(result))
            return result.model_copy(update={"span": f"{span.get_span_context().span_id:016x}"})
        case ToolResult(ok=False):
            set_error(span, _TOOL_FAILED)
        case _:
            pass
    return result


def _add_used(tracer: Tracer, request: TurnRequest, result: TurnResult, content: Content | None) -> int | None:
    """Create spans for tools that ran within the turn, and return the start of the first one."""
    for used in result.used:
        where, tool = _where(), used.result.tool
        name, about = _about_tool(tool, request.agent)
        own_id = f"{where[SpanAttribute.TEMPORAL_ID]}/{used.position + 1}.{tool}"
        attributes = {**where, **about, SpanAttribute.TEMPORAL_ID: own_id}
        span = tracer.start_span(name, attributes=attributes, start_time=_nanoseconds(used.began_at))
        if content:
            span.set_attributes({**content.of_request(result.tool_calls[used.position])})
        _end_span(span, used.result, content)
        span.end(_nanoseconds(used.ended_at))
    return min((_nanoseconds(used.began_at) for used in result.used), default=None)


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000


def _usage(result: TurnResult) -> Attributes:
    usage = result.usage
    return {
        SpanAttribute.INPUT_TOKENS: usage.input_tokens,
        SpanAttribute.CACHED_TOKENS: usage.cached_input_tokens,
        SpanAttribute.OUTPUT_TOKENS: usage.output_tokens,
        SpanAttribute.COST_USD: float(usage.cost_usd),
    }


def root_session(workflow_id: str) -> str:
    """Return the root session's id; ids of its descendants begin with `<session>/<run>/`."""
    return _BELOW.sub("", workflow_id)
