"""The spans of workflows, which contain those of their activities.

There is one per run of a session or subtask, and one for the planning of a session. Each has the same id in every
replay, and the worker on which it ends exports it. Imported only by workers that trace.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind
from temporalio import workflow
from temporalio.contrib.opentelemetry._context import attached_context
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import ActivityHandle, ChildWorkflowHandle

from activities.turn.contracts import TurnResult
from chargehand.contracts import Report
from chargehand.spans import OPERATIONS, SCOPE, SUPERVISOR, SpanAttribute, span_name
from chargehand.wire import ActivityType, WorkflowType
from chargehand_plugins.opentelemetry.activities import Attributes, error_type, root_session, set_error
from workflows.contracts import SubtaskRequest, SubtaskResult, SupervisorRequest
from workflows.steps.plan import OPEN_SPAN, Phase

_PHASE: Final[ContextVar[Context | None]] = ContextVar("phase", default=None)
"""The trace context of the current phase."""


class _Run:
    def __init__(self) -> None:
        self.above = Context()
        """The context in which it was started."""
        self.own = Context()
        self._turn: ActivityHandle[Any] | None = None

    def begin(self, above: Context, span: Span) -> None:
        """Record the span of the run and its parent context."""
        self.above, self.own = above, trace.set_span_in_context(span, above)

    def take(self, turn: ActivityHandle[Any]) -> None:
        self._turn = turn

    @contextmanager
    def phase(self, kind: Phase) -> Generator[None]:
        """Wrap a phase of the run in a span."""
        attributes: Attributes = {
            **_where(kind),
            SpanAttribute.OPERATION: OPERATIONS[kind],
            SpanAttribute.AGENT: SUPERVISOR,
        }
        span = trace.get_tracer(SCOPE).start_span(span_name(kind, SUPERVISOR), self.own, attributes=attributes)
        before = _PHASE.set(trace.set_span_in_context(span, self.own))
        try:
            yield
        except (FailureError, asyncio.CancelledError) as error:
            set_error(span, error_type(error))
            _end(span)
            raise
        _PHASE.reset(before)
        _end(span)

    @property
    def current(self) -> Context:
        return _PHASE.get() or self.own

    @property
    def successor(self) -> Context:
        """The context for the run that continues this one: its parent context or, for a root, its own."""
        return self.above if trace.get_current_span(self.above).get_span_context().is_valid else self.own

    @property
    def of_tools(self) -> Context:
        """The context of a tool call: its turn."""
        turn, run = self._turn, trace.get_current_span(self.own).get_span_context()
        if turn is None or not turn.done() or turn.cancelled() or turn.exception():
            return self.own
        result = turn.result()
        if not isinstance(result, TurnResult) or not result.span:
            return self.own
        span = SpanContext(run.trace_id, int(result.span, 16), is_remote=True, trace_flags=run.trace_flags)
        return trace.set_span_in_context(NonRecordingSpan(span), self.own)


class TracedWorkflow(WorkflowInboundInterceptor):
    """Creates the spans of a workflow; Temporal's plugin propagates their context."""

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self._run = _Run()
        super().init(_TracedCalls(outbound, self._run))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002  # the SDK's own name
        if workflow.info().workflow_type == WorkflowType.TENANT:  # it serves many sessions and belongs to none
            with attached_context(self._run.own):
                return await super().execute_workflow(input)
        span = trace.get_tracer(SCOPE).start_span(*_begun(input))
        self._run.begin(get_current(), span)
        OPEN_SPAN.set(self._run.phase)
        with attached_context(self._run.own):
            try:
                result = await super().execute_workflow(input)
            except (FailureError, asyncio.CancelledError) as error:
                set_error(span, error_type(error))
                _end(span)
                raise
            except workflow.ContinueAsNewError:
                span.set_attribute(SpanAttribute.STOP_REASON, "continued_as_new")
                _end(span)
                raise
            span.set_attributes(_end_attributes(result))
            _end(span)
            return result


class _TracedCalls(WorkflowOutboundInterceptor):
    """Makes a run's span the parent of everything that the run starts, from any message handler."""

    def __init__(self, next: WorkflowOutboundInterceptor, run: _Run) -> None:  # noqa: A002  # the SDK's own name
        super().__init__(next)
        self._run = run

    def start_activity(self, input: StartActivityInput) -> ActivityHandle[Any]:  # noqa: A002  # as above
        with attached_context(self._run.of_tools if input.activity == ActivityType.USE_TOOL else self._run.current):
            handle = super().start_activity(input)
        if input.activity == ActivityType.TAKE_TURN:
            self._run.take(handle)
        return handle

    def start_local_activity(self, input: StartLocalActivityInput) -> ActivityHandle[Any]:  # noqa: A002  # as above
        with attached_context(self._run.current):
            return super().start_local_activity(input)

    async def start_child_workflow(self, input: StartChildWorkflowInput) -> ChildWorkflowHandle[Any, Any]:  # noqa: A002  # as above
        with attached_context(self._run.own):
            return await super().start_child_workflow(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:  # noqa: A002  # as above
        with attached_context(self._run.successor):
            super().continue_as_new(input)


def _begun(started: ExecuteWorkflowInput) -> tuple[str, None, SpanKind, Attributes]:
    request: object = started.args[0] if started.args else None
    info, kind, agent = workflow.info(), "other", ""
    about: Attributes = {}
    match request:
        case SupervisorRequest():
            kind, agent = "session", SUPERVISOR
            about = {SpanAttribute.CREW: request.crew}
        case SubtaskRequest():
            kind, agent = "subtask", request.agent.name
            about = {SpanAttribute.TASK_HASH: info.workflow_id.rpartition("/")[2].partition("-")[0]}
        case _:
            pass
    if agent:
        about |= {SpanAttribute.AGENT: agent, SpanAttribute.OPERATION: OPERATIONS[kind]}
    name = span_name(kind, agent) if agent else info.workflow_type
    return name, None, SpanKind.INTERNAL, {**_where(kind), **about}


def _where(kind: str) -> Attributes:
    info = workflow.info()
    return {
        SpanAttribute.STEP_KIND: kind,
        SpanAttribute.CONVERSATION: root_session(info.workflow_id),
        SpanAttribute.TEMPORAL_ID: info.workflow_id,
        SpanAttribute.TEMPORAL_RUN: info.run_id,
    }


def _end_attributes(result: object) -> Attributes:
    match result:
        case Report():
            return {
                SpanAttribute.STOP_REASON: result.stop_reason,
                SpanAttribute.SESSION_COST_USD: float(result.usage.cost_usd),
                SpanAttribute.SESSION_TURNS: result.usage.turns,
            }
        case SubtaskResult():
            return {SpanAttribute.OUTCOME: result.outcome.kind}
        case _:
            return {}


def _end(span: Span) -> None:
    """Export the span, unless the run is replayed or discarded by the garbage collector."""
    if workflow.in_workflow():
        span.end()
