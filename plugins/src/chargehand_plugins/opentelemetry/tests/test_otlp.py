"""Traces for OpenTelemetry, what spans contain of conversations, and unusable settings."""

import base64
import json
from typing import Final

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from activities.contracts.rounds import ToolCall
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.protocol import Message, ToolText
from chargehand.contracts import Trace
from chargehand.spans import SpanAttribute
from chargehand_plugins.opentelemetry.content import Content
from chargehand_plugins.opentelemetry.otlp import otlp
from tests.unit.cli.reports import HOSTILE_TRACE as TRACE
from tests.unit.cli.reports import at
from worker import program


def spans(trace: Trace) -> dict[str, Span]:
    """Read the spans as a collector does: protobuf JSON, except that ids are hexadecimal."""
    written = json.loads(otlp(trace))
    for span in written["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            span[name] = base64.b64encode(bytes.fromhex(span.get(name, ""))).decode()
    request = ParseDict(written, ExportTraceServiceRequest())
    return {span.name: span for span in request.resource_spans[0].scope_spans[0].spans}


def test_trace_steps_are_exported_as_nested_spans() -> None:
    """Session, subtask, turn and tool have OpenTelemetry's names; a step that never began has no span."""
    found = spans(TRACE)

    session, subtask = found["invoke_agent supervisor"], found["invoke_agent reader"]
    turn, tool = found["chat m"], found["execute_tool search"]
    assert len(found) == 4
    assert {len(span.trace_id) for span in found.values()} == {16}
    above = [each.parent_span_id for each in (session, subtask, turn, tool)]
    assert above == [b"", session.span_id, subtask.span_id, turn.span_id]
    assert turn.end_time_unix_nano - turn.start_time_unix_nano == 10_500_000_000
    states = [Status.STATUS_CODE_UNSET, Status.STATUS_CODE_OK, Status.STATUS_CODE_ERROR]
    assert [each.status.code for each in (session, turn, tool)] == states
    facts = {each.key: each.value for each in turn.attributes}
    assert facts["gen_ai.usage.input_tokens"].int_value == 12
    assert facts["gen_ai.response.model"].string_value == "m"
    assert {each.key: each.value.string_value for each in tool.attributes}["gen_ai.tool.call.result"] == "s1/run#7"


def test_a_trace_exported_again_has_the_same_ids() -> None:
    """Ids depend only on the session, its run and its steps, not on the time of export."""
    later = spans(TRACE.model_copy(update={"exported_at": at(90)}))
    another = spans(TRACE.model_copy(update={"run": "run-2"}))

    first = {(span.trace_id, span.span_id) for span in spans(TRACE).values()}
    assert {(span.trace_id, span.span_id) for span in later.values()} == first
    assert first.isdisjoint((span.trace_id, span.span_id) for span in another.values())


SECRET: Final = "the-worker-s-own-key"


def _text(words: str, times: int, secret: str) -> str:
    return words * times + secret * 2


def _call(text: str) -> ToolCall:
    return ToolCall(id="1", tool="search", arguments={"query": [text]})


def _message(role: str, text: str) -> Message:
    match role:
        case "user":
            return Message(role="user", text=text)
        case "tools":
            return Message(role="tools", results=(ToolText(call_id="1", text=text),))
        case _:
            return Message(role="assistant", calls=(_call(text),))


_TEXTS: Final = st.builds(_text, st.text(min_size=1), st.integers(1, 3_000), st.sampled_from(["", SECRET]))
_MESSAGES: Final = st.builds(_message, st.sampled_from(["user", "assistant", "tools"]), _TEXTS)


@given(st.lists(_MESSAGES, min_size=1, max_size=20))
def test_exported_messages_are_the_latest_in_order_without_secrets(messages: list[Message]) -> None:
    """The JSON has a bounded size and ends with the latest message, however long the conversation is."""
    call = ModelCall.model_construct(system=f"Be {SECRET}.", messages=tuple(messages))

    written = Content([SECRET]).of(call)

    text = written[SpanAttribute.INPUT_MESSAGES]
    read = json.loads(text)
    roles = [message.role.removesuffix("s") for message in messages]
    assert [each["role"] for each in read] == roles[-len(read) :]
    assert all(each["parts"] for each in read)
    assert SECRET not in f"{written}"
    assert len(read) == 1 or sum(len(json.dumps(each["parts"], ensure_ascii=False)) for each in read) <= 2 * 64_000


@given(st.sampled_from(["answer", "tools", "truncated", "refused", "empty", "malformed"]), st.builds(_call, _TEXTS))
def test_a_reply_has_a_finish_reason_of_the_convention(stop: str, call: ToolCall) -> None:
    """Its text and the tool calls it requests are parts of one message."""
    reply = ModelReply.model_construct(stop=stop, text="Known.", tool_calls=(call,))

    [message] = json.loads(Content([]).of(reply)[SpanAttribute.OUTPUT_MESSAGES])

    assert [part["type"] for part in message["parts"]] == ["text", "tool_call"]
    assert message["finish_reason"] in {"stop", "tool_call", "length", "content_filter", "error"}


_BAD_WITH_SPANS = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("grpc", "http/json"),
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": ("grpc",),
    "OTEL_EXPORTER_OTLP_HEADERS": ("sk-secret-key", "Authorization: Bearer sk-secret-key"),
    "OTEL_TRACES_SAMPLER": ("often", "parentbased_jaeger_remote"),
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": ("EVENT_ONLY", "SPAN_AND_EVENT", "yes"),
    "OTEL_BSP_SCHEDULE_DELAY": ("0", "-5", "1s"),
    "OTEL_TRACES_SAMPLER_ARG": ("", "2", "-0.1", "half"),
}
"""Variables that other programs may use too; they have to be valid only if spans are exported."""


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in _BAD_WITH_SPANS.items() for value in values]
)
def test_invalid_otel_settings_are_refused_if_spans_are_exported(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the setting and shows no key; a worker that exports no spans ignores it."""
    if name == "OTEL_TRACES_SAMPLER_ARG":
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv(name, value)

    assert program.main(["--check-settings"]) == 0
    for variable, exported in (("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"), ("OTEL_SDK_DISABLED", "true")):
        monkeypatch.setenv(variable, exported)
        told = program.main(["--check-settings"]), capsys.readouterr().err

        assert told[0] == (0 if exported == "true" else 2)
        assert (name in told[1]) == (exported != "true")
        assert "sk-secret-key" not in told[1]
