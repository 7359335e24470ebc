"""A trace for OpenTelemetry."""

import base64
import json

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from chargehand.contracts import Trace
from chargehand_plugins.opentelemetry.otlp import otlp
from tests.unit.cli.reports import HOSTILE_TRACE as TRACE
from tests.unit.cli.reports import at


def spans(trace: Trace) -> dict[str, Span]:
    """Read the spans as a collector does: JSON by protobuf's rules, but for ids, which are hexadecimal."""
    written = json.loads(otlp(trace))
    for span in written["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            span[name] = base64.b64encode(bytes.fromhex(span.get(name, ""))).decode()
    request = ParseDict(written, ExportTraceServiceRequest())
    return {span.name: span for span in request.resource_spans[0].scope_spans[0].spans}


def test_steps_are_spans_that_a_collector_takes() -> None:
    """Spans nest as session, subtask, turn and tool, with the names that OpenTelemetry has for such work; a step that
    was never begun is none."""
    found = spans(TRACE)

    session, subtask = found["invoke_agent supervisor"], found["invoke_agent reader"]
    turn, tool = found["chat m"], found["execute_tool search"]
    assert len(found) == 4
    assert {len(span.trace_id) for span in found.values()} == {16}
    assert [each.parent_span_id for each in (session, subtask, turn, tool)] == [
        b"",
        session.span_id,
        subtask.span_id,
        turn.span_id,
    ]
    assert turn.end_time_unix_nano - turn.start_time_unix_nano == 10_500_000_000
    assert [each.status.code for each in (session, turn, tool)] == [
        Status.STATUS_CODE_UNSET,
        Status.STATUS_CODE_OK,
        Status.STATUS_CODE_ERROR,
    ]
    facts = {each.key: each.value for each in turn.attributes}
    assert facts["gen_ai.usage.input_tokens"].int_value == 12
    assert facts["gen_ai.response.model"].string_value == "m"
    assert {each.key: each.value.string_value for each in tool.attributes}["gen_ai.tool.call.result"] == "s1/run#7"


def test_a_trace_that_is_exported_again_is_the_same_trace() -> None:
    """Ids depend on the session, its run and its steps only: not on the time, and not on another run of that id."""
    later = spans(TRACE.model_copy(update={"exported_at": at(90)}))
    another = spans(TRACE.model_copy(update={"run": "run-2"}))

    first = {(span.trace_id, span.span_id) for span in spans(TRACE).values()}
    assert {(span.trace_id, span.span_id) for span in later.values()} == first
    assert first.isdisjoint((span.trace_id, span.span_id) for span in another.values())
