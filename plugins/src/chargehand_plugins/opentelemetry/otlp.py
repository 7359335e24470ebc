"""A trace as OpenTelemetry spans in OTLP/JSON, for `POST /v1/traces` of any collector.

Names and attributes match the spans exported by workers. Ids are hashes of workflow and run ids, so that a trace
exported twice is the same trace.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from pydantic_core import to_json

from chargehand import Step, Trace
from chargehand.contracts import Recorded
from chargehand.spans import OPERATIONS, PLANNING, SCOPE, SUPERVISOR, SpanAttribute, span_name

_INTERNAL: Final = 1
_CLIENT: Final = 3
_OK: Final = 1
_ERROR: Final = 2
_EPOCH: Final = datetime.fromtimestamp(0, UTC)

_Json = dict[str, Any]


def otlp(trace: Trace) -> str:
    """Convert started steps to spans."""
    plans = _plans(trace)
    parents = _call_turns(trace) | {turn.id: _plan_id(session) for session, turns in plans.items() for turn in turns}
    spans = [_span(trace, step, parents.get(step.id, step.parent)) for step in trace.steps if step.started_at]
    spans += [_plan(trace, session, turns) for session, turns in plans.items()]
    scope = {"name": SCOPE, "version": version("chargehand")}
    resource = {"attributes": _attributes({"service.name": SCOPE})}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})


def _plans(trace: Trace) -> dict[str, list[Step]]:
    plans: dict[str, list[Step]] = {}
    for step in trace.steps:
        if step.kind == "turn" and step.started_at and step.parent and step.purpose in PLANNING:
            plans.setdefault(step.parent, []).append(step)
    return plans


def _plan_id(session: str) -> str:
    return f"{session}\nplan"


def _plan(trace: Trace, session: str, turns: list[Step]) -> _Json:
    """Build the span of a session's planning, from its first to its last planning turn."""
    last = turns[-1]
    begun = turns[0].model_copy(
        update={"id": _plan_id(session), "ended_at": last.ended_at, "state": last.state, "error": last.error}
    )
    facts: dict[str, object] = {
        SpanAttribute.OPERATION: OPERATIONS["plan"],
        SpanAttribute.CONVERSATION: trace.session,
        SpanAttribute.AGENT: SUPERVISOR,
        SpanAttribute.ERROR: last.error,
        SpanAttribute.STEP_KIND: "plan",
        SpanAttribute.TEMPORAL_ID: session,
    }
    name = span_name("plan", SUPERVISOR)
    return {**_span(trace, begun, session), "name": name, "kind": _INTERNAL, "attributes": _attributes(facts)}


def _call_turns(trace: Trace) -> dict[str, str]:
    """Map each tool call to its turn: `turn-3` for the calls `turn-3.1.search` and `turn-3/1.search`."""
    turns = {step.id for step in trace.steps if step.kind == "turn" and step.started_at}
    calls = {step.id: _turn_of(step.id) for step in trace.steps if step.kind == "tool"}
    return {call: turn for call, turn in calls.items() if turn in turns}


def _turn_of(call: str) -> str:
    workflow, _, name = call.rpartition("#")
    turn, in_turn, _ = name.partition("/")
    return f"{workflow}#{turn if in_turn else turn.partition('.')[0]}"


def _span(trace: Trace, step: Step, parent: str | None) -> _Json:
    ended_at = step.ended_at or trace.exported_at
    span: _Json = {
        "traceId": _hash(f"{trace.session}\n{trace.run}", 16),
        "spanId": _hash(f"{trace.run}\n{step.id}", 8),
        "name": _name(step),
        "kind": _CLIENT if step.kind == "turn" else _INTERNAL,
        "startTimeUnixNano": _nanoseconds(step.started_at or ended_at),
        "endTimeUnixNano": _nanoseconds(ended_at),
        "attributes": _attributes(_facts(trace, step)),
    }
    if parent is not None:
        span["parentSpanId"] = _hash(f"{trace.run}\n{parent}", 8)
    if step.state == "completed":
        span["status"] = {"code": _OK}
    elif step.state != "running":
        span["status"] = {"code": _ERROR, "message": step.error or step.state}
    return span


def _name(step: Step) -> str:
    about = {"session": step.agent, "subtask": step.agent, "turn": step.model, "tool": step.tool}
    return span_name(step.kind, about.get(step.kind, ""))


def _facts(trace: Trace, step: Step) -> dict[str, object]:
    usage = step.usage
    return {
        SpanAttribute.OPERATION: OPERATIONS.get(step.kind, ""),
        SpanAttribute.CONVERSATION: trace.session,
        SpanAttribute.AGENT: step.agent,
        SpanAttribute.RESPONSE_MODEL: step.model,
        SpanAttribute.INPUT_TOKENS: usage.input_tokens,
        SpanAttribute.CACHED_TOKENS: usage.cached_input_tokens,
        SpanAttribute.OUTPUT_TOKENS: usage.output_tokens,
        SpanAttribute.TOOL: step.tool,
        SpanAttribute.TOOL_ARGUMENTS: _value_text(step.arguments),
        SpanAttribute.TOOL_RESULT: _value_text(step.result),
        SpanAttribute.ERROR: step.error,
        SpanAttribute.STEP_KIND: step.kind,
        SpanAttribute.STEP_NAME: step.name,
        SpanAttribute.SUBTASK: step.subtask,
        SpanAttribute.TASK_HASH: step.task_hash,
        SpanAttribute.PURPOSE: step.purpose,
        SpanAttribute.PLAN: to_json(step.plan, exclude_none=True).decode() if step.plan else "",
        SpanAttribute.ROUTE_REASON: step.route.reason if step.route else "",
        SpanAttribute.ATTEMPTS: step.attempts,
        SpanAttribute.WORKER: step.worker,
        SpanAttribute.COST_USD: float(usage.cost_usd),
        SpanAttribute.TEMPORAL_ID: step.id,
    }


def _value_text(value: Recorded | None) -> str:
    if value is None:
        return ""
    return value.reference or to_json(value.value, inf_nan_mode="null").decode()


def _attributes(facts: Mapping[str, object]) -> list[_Json]:
    return [{"key": key, "value": _value(value)} for key, value in facts.items() if value]


def _value(value: object) -> _Json:
    match value:
        case float():
            return {"doubleValue": value}
        case int():
            # Protobuf's JSON form of 64-bit integers.
            return {"intValue": str(value)}
        case _:
            return {"stringValue": str(value)}


def _hash(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * size]


def _nanoseconds(at: datetime) -> str:
    since = at - _EPOCH
    return str((since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000)
