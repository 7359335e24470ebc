"""The spans of activities: one for each attempt of a model turn, a tool call or anything else.

Imported only by workers that trace.
"""

import asyncio
from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span, get_tracer
from temporalio import activity
from temporalio.exceptions import ApplicationError, is_cancelled_exception
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.contracts import ToolRequest, ToolResult
from activities.model_turn.contracts import TurnRequest, TurnResult
from chargehand.spans import OPERATIONS, SCOPE, SpanAttribute, root_session, span_name

Attributes = dict[str, str | int | float | bool]


class TracedActivities(Interceptor):
    """Makes a span of every attempt of a workflow's activity, without any text of users."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002  # the SDK's own name
        """Return the interceptor of activities."""
        return _Traced(next)


class _Traced(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002  # the SDK's own name
        if not get_current_span().get_span_context().is_valid:  # its workflow is not traced
            return await super().execute_activity(input)
        request: object = input.args[0] if input.args else None
        kind = "turn" if isinstance(request, TurnRequest) else "tool" if isinstance(request, ToolRequest) else "other"
        with get_tracer(SCOPE).start_as_current_span(
            _name(request),
            kind=SpanKind.CLIENT if kind == "turn" else SpanKind.INTERNAL,
            attributes={SpanAttribute.STEP_KIND: kind, **_where(), **_begun(request)},
            # The message of an exception may contain text of users.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await super().execute_activity(input)
            except BaseException as error:
                set_error(span, error_type(error))
                raise
            if not span.is_recording():
                return result
            _end(span, result)
            if isinstance(result, TurnResult):
                return result.model_copy(update={"span": f"{span.get_span_context().span_id:016x}"})
            return result


def set_error(span: Span, kind: str) -> None:
    """Mark a span as failed."""
    span.set_attribute(SpanAttribute.ERROR, kind)
    span.set_status(Status(StatusCode.ERROR))


def error_type(error: BaseException) -> str:
    """Name an error by its type, from the fixed vocabulary if it is one of ours."""
    if isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error):
        return "cancelled"
    return (isinstance(error, ApplicationError) and error.type) or type(error).__name__


def _name(request: object) -> str:
    match request:
        case TurnRequest():
            return span_name("turn", request.model_name)
        case ToolRequest():
            return span_name("tool", request.call.tool)
        case _:
            return activity.info().activity_type


def _where() -> Attributes:
    info = activity.info()
    return {
        SpanAttribute.CONVERSATION: root_session(info.workflow_id or ""),
        SpanAttribute.ATTEMPT: info.attempt,
        SpanAttribute.TEMPORAL_ID: f"{info.workflow_id}#{info.activity_id}",
        SpanAttribute.TEMPORAL_RUN: info.workflow_run_id or "",
    }


def _begun(request: object) -> Attributes:
    match request:
        case TurnRequest():
            return {
                SpanAttribute.OPERATION: OPERATIONS["turn"],
                SpanAttribute.AGENT: request.agent,
                SpanAttribute.PURPOSE: request.task.kind,
                SpanAttribute.REQUEST_TOKENS: request.max_output_tokens,
            }
        case ToolRequest():
            return {
                SpanAttribute.OPERATION: OPERATIONS["tool"],
                SpanAttribute.AGENT: request.agent,
                SpanAttribute.TOOL: request.call.tool,
            }
        case _:
            return {}


def _end(span: Span, result: object) -> None:
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
        case ToolResult(ok=False):
            set_error(span, "tool_failed")
        case _:
            pass


def _usage(result: TurnResult) -> Attributes:
    usage = result.usage
    return {
        SpanAttribute.INPUT_TOKENS: usage.input_tokens,
        SpanAttribute.CACHED_TOKENS: usage.cached_input_tokens,
        SpanAttribute.OUTPUT_TOKENS: usage.output_tokens,
        SpanAttribute.COST_USD: float(usage.cost_usd),
    }
