"""The spans of sessions, as a receiver of OTLP/HTTP gets them from real workers."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from opentelemetry import context, trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from temporalio.api.common.v1 import Header, Payload, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import Limits, Report, SessionRequest, Trace
from chargehand.session import Session
from chargehand_plugins.opentelemetry.otlp import otlp
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.otlp_receiver import Received, attributes, receive_spans
from tests.scripted_provider import (
    ScriptedProvider,
    ScriptedReply,
    ScriptedRequest,
    ToolUse,
    answer,
    calling,
    error,
    plan,
    report,
    subtask,
)

pytestmark = pytest.mark.slow

CANARY: Final = "zanzibar"
KEY: Final = "a-key-of-the-worker-4711"
GOAL: Final = SessionRequest(
    goal=f"Look into all parts of {CANARY}, please.", limits=Limits(max_turns=40, max_rounds=20), review="never"
)
SMALL: Final = SessionRequest(goal="Say hello, that is all.", review="never")
_NO_CACHE: Final = """
import sys
from functools import partial
from worker import program, workers
from workflows import run_end
run_end.MOST_EVENTS = 20
workers.build_worker = partial(workers.build_worker, cached_workflows=0)
sys.exit(program.main([]))
"""
"""A worker that replays each workflow from its start in every task and continues it as new early."""
CALLER: Final = SpanContext(0xAB << 120, 0xCD << 56, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
BAD_TRACES: Final = (
    Payload(metadata={"encoding": b"json/plain"}, data=b'["no", "carrier"]'),
    Payload(metadata={"encoding": b"json/plain"}, data=b'{"traceparent": 7}'),
    Payload(metadata={"encoding": b"binary/encrypted"}, data=b"\x00"),
)
UNSAMPLED: Final = SpanContext(0xEF << 120, 0xCD << 56, is_remote=False, trace_flags=TraceFlags(0))


@dataclass(frozen=True)
class Traced:
    """A traced session and what it left."""

    received: Received
    report: Report
    trace: Trace
    sent: list[Mapping[str, str]]
    """The headers of the requests sent to the provider."""

    @property
    def spans(self) -> list[tuple[Span, dict[str, object]]]:
        """All spans, with their attributes."""
        return [(span, attributes(span)) for span in self.received.spans]

    def of(self, kind: str) -> list[tuple[Span, dict[str, object]]]:
        """The spans of steps of a kind."""
        return [(span, facts) for span, facts in self.spans if facts["chargehand.step.kind"] == kind]


class Script:
    """Plans an agent that makes many tool calls and a nested session; one call fails and one waits."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.go_on = asyncio.Event()
        self.failed = False

    async def respond(self, request: ScriptedRequest) -> ScriptedReply:
        if request.answer == "PlanAnswer":
            return _plan(request)
        if request.answer == "SynthesisAnswer":
            return report(f"All about {CANARY}.")
        if "query_data" in request.tools and "Compare" in request.text and request.rounds < 2:
            sql = ToolUse("query_data", {"sql": f"SELECT '{CANARY}' AS place"})
            return calling(ToolUse("run_code", {"code": "6 * 7"}) if request.rounds else sql)
        if "Look into" not in request.text or "Compare" in request.text:
            return answer(f"It is {CANARY}.")
        if not self.failed:
            self.failed = True
            return error(429, {"retry-after": "0"}, {"error": {"message": f"cannot read {CANARY}"}})
        if request.rounds == 1:
            self.held.set()
            await self.go_on.wait()
        return calling(ToolUse("search", {"query": f"{CANARY} {request.rounds}"})) if request.rounds < 3 else answer()


def _plan(request: ScriptedRequest) -> ScriptedReply:
    if SMALL.goal in request.text:
        return plan(subtask("T1", "analyst", "Say hello."))
    if "as a whole" in request.messages[-1].text:
        return plan(subtask("T1", "analyst", f"Compare the figures of {CANARY}."))
    return plan(
        subtask("T1", "researcher", f"Look into {CANARY}: give the facts and the figures."),
        subtask("T2", "supervisor", f"Look into the other side of {CANARY} as a whole."),
    )


async def _start(client: Client, queue: str, request: SessionRequest, caller: SpanContext) -> Session:
    token = context.attach(trace.set_span_in_context(NonRecordingSpan(caller)))
    try:
        chargehand = await Chargehand.connect(client.service_client.config.target_host, task_queue=queue)
        return await chargehand.start(request)
    finally:
        context.detach(token)


async def _disturb(client: Client, session: str) -> None:
    """Send signals whose trace header contains no trace."""
    for value in BAD_TRACES:
        asked = SignalWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=session),
            signal_name="disturb",
            header=Header(fields={"_tracer-data": value}),
        )
        await client.workflow_service.signal_workflow_execution(asked)


@pytest.fixture(scope="module")
async def traced(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Traced]:
    """Run a session on two successive workers that keep no workflow in memory between tasks."""
    script, folder = Script(), tmp_path_factory.mktemp("traced")
    async with ScriptedProvider(script.respond) as server:
        with receive_spans() as received:
            chosen = settings("openai_compatible", server.base_url, client, folder)
            chosen |= {"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, "CHARGEHAND_STORAGE": str(folder / "payloads")}
            queue = chosen["CHARGEHAND_TASK_QUEUE"]
            async with worker_process(chosen, "-", program=_NO_CACHE) as first:
                session = await _start(client, queue, GOAL, CALLER)
                await script.held.wait()
                await _disturb(client, session.id)
                first.send_signal(signal.SIGTERM)
                script.go_on.set()
                await first.wait()
            async with worker_process(chosen, "-", program=_NO_CACHE) as second:
                result = await session.result()
                unsampled = await _start(client, queue, SMALL, UNSAMPLED)
                await unsampled.result()
                steps = await session.trace()
                second.send_signal(signal.SIGTERM)
                await second.wait()
        yield Traced(received, result, steps, [request.headers for request in server.requests])


@pytest.mark.nightly
async def test_a_session_is_one_tree_in_the_trace_of_its_caller(traced: Traced) -> None:
    """Retries, a second worker, replays, continue-as-new and a nested session do not split it."""
    spans = traced.received.spans
    ids = [span.span_id for span in spans]
    missing = {span.parent_span_id for span in spans} - set(ids)

    assert traced.report.stop_reason == "completed"
    assert {span.trace_id.hex() for span in spans} == {f"{CALLER.trace_id:032x}"}
    assert [number for number in Counter(ids).values() if number > 1] == []
    assert missing == {CALLER.span_id.to_bytes(8, "big")}
    assert {facts["gen_ai.conversation.id"] for _, facts in traced.of("turn")} == {traced.trace.session}
    assert sum(facts.get("chargehand.stop_reason") == "continued_as_new" for _, facts in traced.of("subtask")) > 0


async def test_spans_nest_as_session_subtask_turn_and_tool(traced: Traced) -> None:
    """An agent's work is below its run, and each tool call below the turn that requested it."""
    known = {span.span_id: facts for span, facts in traced.spans}
    pairs = [(facts, known[span.parent_span_id]) for span, facts in traced.spans if span.parent_span_id in known]
    above = {(facts["chargehand.step.kind"], parent["chargehand.step.kind"]) for facts, parent in pairs}
    in_plans = [facts for facts, parent in pairs if parent["chargehand.step.kind"] == "plan"]
    tools = [
        (str(facts["temporal.id"]), parent["temporal.id"]) for facts, parent in pairs if "gen_ai.tool.name" in facts
    ]

    assert above >= {("subtask", "session"), ("session", "session"), ("turn", "session"), ("turn", "subtask")}
    assert above >= {("plan", "session"), ("turn", "plan")}
    assert {facts["chargehand.purpose"] for facts in in_plans} == {"plan"}
    planned, sessions = ([str(facts["temporal.id"]) for _, facts in traced.of(kind)] for kind in ("plan", "session"))
    assert sorted(planned) == sorted(set(sessions))
    assert {parent for kind, parent in above if kind == "tool"} == {"turn"}
    names = {f"execute_tool {name}" for name in ("search", "query_data", "run_code")}
    assert {span.name for span, _ in traced.of("tool")} == names
    assert len(tools) == len(traced.of("tool"))
    assert {"/" in tool.rpartition("#")[2] for tool, _ in tools} == {True, False}
    assert [tool for tool, turn in tools if not tool.startswith((f"{turn}.", f"{turn}/"))] == []


async def test_every_attempt_of_a_call_is_a_span_and_costs_are_counted_once(traced: Traced) -> None:
    """A retry is a span that links to the failed one; tokens and dollars add up to the report's."""
    turns = [facts for _, facts in traced.of("turn")]
    attempts = Counter(facts["temporal.id"] for facts in turns)
    (repeated,) = [step for step, number in attempts.items() if number > 1]
    (one, first), (other, second) = ((s, facts) for s, facts in traced.of("turn") if facts["temporal.id"] == repeated)

    assert (first["chargehand.attempt"], second["chargehand.attempt"]) == (1, 2)
    assert "error.type" in first
    assert "error.type" not in second
    assert one.parent_span_id == other.parent_span_id
    links = [(link.trace_id, link.span_id) for link in other.links]
    assert links == [(one.trace_id, one.span_id)]
    assert [span.name for span, facts in traced.of("turn") if span.links and facts["temporal.id"] != repeated] == []
    usage = traced.report.usage
    tokens, dollars = (
        sum(float(str(facts.get(name, 0))) for facts in turns)
        for name in ("gen_ai.usage.input_tokens", "chargehand.cost_usd")
    )
    assert tokens == usage.input_tokens
    assert dollars == pytest.approx(float(usage.cost_usd - usage.possibly_billed_twice_usd))


async def test_spans_have_no_user_text_and_providers_get_no_trace_headers(traced: Traced) -> None:
    """No goal, instruction, argument, answer or error is exported."""
    assert traced.received.bodies
    assert [body for body in traced.received.bodies if CANARY.encode() in body] == []
    assert {name for headers in traced.sent for name in headers} & {"traceparent", "tracestate", "baggage"} == set()


async def test_an_exported_trace_matches_the_workers_spans(traced: Traced) -> None:
    """`chargehand trace --format otlp` gives each step the same name and values as its worker."""
    written = json.loads(otlp(traced.trace))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    exported: dict[object, tuple[str, dict[str, object]]] = {}
    for span in written:
        facts = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
        exported[facts["chargehand.step.kind"], facts["temporal.id"]] = (span["name"], facts)
    live = [
        (span.name, facts)
        for kind in ("session", "plan", "subtask", "turn", "tool")
        for span, facts in traced.of(kind)
        if "error.type" not in facts
    ]

    assert live
    for name, facts in live:
        other_name, others = exported[facts["chargehand.step.kind"], facts["temporal.id"]]
        assert name == other_name
        shared = set(facts) & set(others) - {"chargehand.cost_usd"}
        assert {key: str(facts[key]) for key in shared} == {key: str(others[key]) for key in shared}


@pytest.mark.nightly
async def test_message_content_is_exported_on_request_without_keys(client: Client, tmp_path: Path) -> None:
    """Prompts, replies, arguments and results are in the spans they belong to; the worker's keys are not."""

    async def respond(request: ScriptedRequest) -> ScriptedReply:
        if request.answer == "PlanAnswer":
            return plan(subtask("T1", "analyst", f"Compare the figures of {CANARY}."))
        if "query_data" in request.tools and not request.rounds:
            return calling(ToolUse("query_data", {"sql": f"SELECT '{CANARY} {KEY}' AS place"}))
        return answer(f"It is {CANARY}, and the key is {KEY}.")

    async with ScriptedProvider(respond) as server:
        with receive_spans() as received:
            chosen = settings("openai", server.base_url, client, tmp_path) | {
                "OPENAI_API_KEY": KEY,
                "OTEL_EXPORTER_OTLP_ENDPOINT": received.url,
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            }
            async with worker_process(chosen) as worker:
                session = await _start(client, chosen["CHARGEHAND_TASK_QUEUE"], GOAL, CALLER)
                await session.result()
                worker.send_signal(signal.SIGTERM)
                await worker.wait()
    spans = [attributes(span) for span in received.spans]
    turns = [facts for facts in spans if facts.get("gen_ai.operation.name") == "chat"]
    [tool] = [facts for facts in spans if facts.get("gen_ai.operation.name") == "execute_tool"]
    sent, said = (
        [json.loads(str(facts[f"gen_ai.{side}.messages"])) for facts in turns] for side in ("input", "output")
    )

    assert all("gen_ai.system_instructions" in facts for facts in turns)
    assert GOAL.goal in sent[0][0]["parts"][0]["content"]
    last = [(each[-1]["role"], each[-1]["parts"][-1]["type"]) for each in sent[1:3]]
    assert last == [("user", "text"), ("tool", "tool_call_response")]
    ends = [(each["role"], each["finish_reason"], each["parts"][-1]["type"]) for [each] in said[1:3]]
    assert ends == [("assistant", "tool_call", "tool_call"), ("assistant", "stop", "text")]
    assert "It is zanzibar, and the key is [redacted]" in said[2][0]["parts"][0]["content"]
    assert CANARY in str(tool["gen_ai.tool.call.arguments"])
    assert "This session has no tables" in str(tool["gen_ai.tool.call.result"])
    assert [body for body in received.bodies if KEY.encode() in body] == []
