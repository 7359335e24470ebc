"""The three wires: how requests are read and how replies are written on each."""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

from activities.models.replies import within
from activities.turn_kinds.work import CompactTask, WorkTask
from tests.scripted_provider.exchange import NO_USAGE, ScriptedMessage, ScriptedReply, ScriptedRequest, ToolUse, Wire

Body = dict[str, Any]

PATHS: Mapping[str, Wire] = {"/v1/messages": "anthropic", "/v1/responses": "responses", "/v1/chat/completions": "chat"}
_CLOUDS: Mapping[re.Pattern[str], str] = {
    re.compile(r"/projects/house/locations/\w+/publishers/anthropic/models/count-tokens:rawPredict"): (
        "/v1/messages/count_tokens"
    ),
    re.compile(r"/projects/house/locations/\w+/publishers/anthropic/models/[\w.@-]+:streamRawPredict"): "/v1/messages",
    re.compile(r"/openai/responses"): "/v1/responses",
    re.compile(r"/openai/responses/input_tokens"): "/v1/responses/input_tokens",
}
"""Paths on clouds that correspond to the vendors' own paths."""


def own_path(path: str) -> str:
    """Return the vendor's own path that corresponds to a cloud's."""
    return next((own for pattern, own in _CLOUDS.items() if pattern.fullmatch(path)), path)


COUNTERS: Mapping[str, Wire] = {"/v1/messages/count_tokens": "anthropic", "/v1/responses/input_tokens": "responses"}
"""Where prompts are counted."""


def read(wire: Wire, body: Body, headers: Mapping[str, str], sequence: int, arrived_at: float) -> ScriptedRequest:
    """Convert a request into a form that is independent of its wire."""
    system, messages, answer = {"anthropic": _anthropic, "responses": _responses, "chat": _chat}[wire](body)
    last = messages[-1].text if messages else ""
    forbidden = any(task.last_request in last for task in (WorkTask, CompactTask))
    tools = () if forbidden else tuple(tool.get("function", tool)["name"] for tool in body.get("tools") or ())
    return ScriptedRequest(
        sequence=sequence,
        wire=wire,
        model=body.get("model", ""),
        system=system,
        messages=tuple(_joined(messages)),
        tools=tools,
        answer=answer,
        arrived_at=arrived_at,
        headers=headers,
        body=body,
    )


def write(request: ScriptedRequest, reply: ScriptedReply) -> Body:
    """Write a reply on the wire that the request came by."""
    writer = {"anthropic": _write_anthropic, "responses": _write_responses, "chat": _write_chat}[request.wire]
    return writer(request, reply)


def write_error(wire: Wire, status: int) -> Body:
    message = f"scripted {status}"
    if wire == "anthropic":
        return {"type": "error", "error": {"type": _ANTHROPIC_ERRORS.get(status, "api_error"), "message": message}}
    return {"error": {"message": message, "type": _OPENAI_ERRORS.get(status, "server_error"), "code": None}}


_ANTHROPIC_ERRORS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip
_OPENAI_ERRORS = {400: "invalid_request_error", 401: "invalid_request_error", 404: "invalid_request_error"}

Told = tuple[str, list[ScriptedMessage], str]


def _joined(messages: Iterable[ScriptedMessage]) -> Iterable[ScriptedMessage]:
    """Join consecutive messages of one side."""
    for role, group in groupby(messages, attrgetter("role")):
        yield ScriptedMessage(role, "\n".join(message.text for message in group))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or part.get("refusal") or "" for part in content or ())


def _call_text(name: str, arguments: Any) -> str:
    return f"{name}({arguments if isinstance(arguments, str) else json.dumps(arguments)})"


def _anthropic(body: Body) -> Told:
    messages: list[ScriptedMessage] = []
    for message in body.get("messages", ()):
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "text":
                    messages.append(ScriptedMessage(message["role"], block["text"]))
                case "tool_use":
                    messages.append(ScriptedMessage("assistant", _call_text(block["name"], block["input"])))
                case "tool_result":
                    messages.append(ScriptedMessage("tools", _text(block.get("content"))))
                case _:
                    pass
    return _text(body.get("system")), messages, within(body, "output_config", "format", "schema", "title") or ""


def _write_anthropic(request: ScriptedRequest, reply: ScriptedReply) -> Body:
    content: list[Body] = []
    if reply.thought:
        content.append({"type": "thinking", "thinking": "", "signature": reply.thought})
    if reply.text and reply.kind != "refusal":
        content.append({"type": "text", "text": reply.text})
    content += [
        {"type": "tool_use", "id": identity, "name": tool.tool, "input": _input(tool)}
        for identity, tool in _identified("toolu", request, reply)
    ]
    stops = {"tools": "tool_use", "truncated": "max_tokens", "refusal": "refusal"}
    tokens = reply.tokens
    written: Body = {
        "id": f"msg_{request.sequence}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or request.model,
        "content": content,
        "stop_reason": stops.get(reply.kind, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens.input,
            "cache_creation_input_tokens": tokens.cache_write,
            "cache_read_input_tokens": tokens.cached,
            "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
            "output_tokens": tokens.output,
            "service_tier": "standard",
        },
    }
    if reply.kind == "refusal":
        written["stop_details"] = {"type": "refusal", "category": "general_harms", "explanation": reply.text}
    if tokens == NO_USAGE:
        del written["usage"]
    return written


def _input(tool: ToolUse) -> Any:
    if not isinstance(tool.arguments, str):
        return dict(tool.arguments)
    try:
        return json.loads(tool.arguments)
    except (ValueError, RecursionError):
        return tool.arguments


def _identified(prefix: str, request: ScriptedRequest, reply: ScriptedReply) -> list[tuple[str, ToolUse]]:
    return [
        (tool.id or f"{prefix}_{request.sequence}_{number}", tool) for number, tool in enumerate(reply.tools, start=1)
    ]


def arguments_of(tool: ToolUse) -> str:
    """Write a tool's arguments as the model wrote them, valid or not."""
    return tool.arguments if isinstance(tool.arguments, str) else json.dumps(dict(tool.arguments))


def _responses(body: Body) -> Told:
    messages: list[ScriptedMessage] = []
    given = body.get("input", ())
    items: list[Body] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    for item in items:
        match item.get("type", "message"):
            case "message":
                messages.append(ScriptedMessage(item["role"], _text(item["content"])))
            case "function_call":
                messages.append(ScriptedMessage("assistant", _call_text(item["name"], item["arguments"])))
            case "function_call_output":
                messages.append(ScriptedMessage("tools", _text(item["output"])))
            case _:
                pass
    return body.get("instructions") or "", messages, within(body, "text", "format", "name") or ""


def _write_responses(request: ScriptedRequest, reply: ScriptedReply) -> Body:
    tokens = reply.tokens
    parts: list[Body] = []
    if reply.kind == "refusal":
        parts = [{"type": "refusal", "refusal": reply.text}]
    elif reply.text:
        parts = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
    output: list[Body] = []
    at = request.sequence
    if "reasoning.encrypted_content" in (request.body.get("include") or ()):
        output.append({"type": "reasoning", "id": f"rs_{at}", "summary": [], "encrypted_content": f"sealed-{at}"})
    status = "incomplete" if reply.kind == "truncated" else "completed"
    if parts:
        output.append({"type": "message", "id": f"msg_{at}", "status": status, "role": "assistant", "content": parts})
    for number, (identity, tool) in enumerate(_identified("call", request, reply), start=1):
        call = {"call_id": identity, "name": tool.tool, "arguments": arguments_of(tool)}
        output.append({"type": "function_call", "id": f"fc_{at}_{number}", **call, "status": "completed"})
    total_input = tokens.input + tokens.cached + tokens.cache_write
    written: Body = {
        "id": f"resp_{at}",
        "object": "response",
        "created_at": int(request.arrived_at),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if reply.kind == "truncated" else None,
        "model": reply.model or request.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "service_tier": "default",
        "usage": {
            "input_tokens": total_input,
            "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": total_input + tokens.output,
        },
    }
    if tokens == NO_USAGE:
        written["usage"] = None
    return written


def _chat(body: Body) -> Told:
    system: list[str] = []
    messages: list[ScriptedMessage] = []
    for message in body.get("messages", ()):
        text = _text(message.get("content"))
        match message["role"]:
            case "system" | "developer":
                system.append(text)
            case "tool":
                messages.append(ScriptedMessage("tools", text))
            case _:
                calls = [
                    _call_text(call["function"]["name"], call["function"]["arguments"])
                    for call in message.get("tool_calls") or ()
                ]
                told = "\n".join(filter(None, [text, *calls]))
                messages.append(ScriptedMessage("assistant" if message["role"] == "assistant" else "user", told))
    answer: str = within(body, "response_format", "json_schema", "name") or ""
    instructions = "\n\n".join(system)
    if not answer:
        # The schema may be given as text instead: a JSON Schema with its title.
        found = re.search(r'"title": ?"(\w+)"', instructions)
        answer = found[1] if found else ""
    return instructions, messages, answer


def _write_chat(request: ScriptedRequest, reply: ScriptedReply) -> Body:
    message: Body = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.kind == "refusal":
        message |= {"content": None, "refusal": reply.text}
    if reply.tools:
        message["tool_calls"] = [
            {"id": identity, "type": "function", "function": {"name": tool.tool, "arguments": arguments_of(tool)}}
            for identity, tool in _identified("call", request, reply)
        ]
    stops = {"tools": "tool_calls", "truncated": "length"}
    tokens = reply.tokens
    total_input = tokens.input + tokens.cached + tokens.cache_write
    written: Body = {
        "id": f"chatcmpl-{request.sequence}",
        "object": "chat.completion",
        "created": int(request.arrived_at),
        "model": reply.model or request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": stops.get(reply.kind, "stop"), "logprobs": None}],
        "usage": {
            "prompt_tokens": total_input,
            "completion_tokens": tokens.output,
            "total_tokens": total_input + tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
        },
    }
    if tokens == NO_USAGE:
        del written["usage"]
    return written
