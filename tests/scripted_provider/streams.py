"""The three wires as server-sent events: the same replies, in pieces."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.scripted_provider.exchange import ScriptedReply, ScriptedRequest, ToolUse
from tests.scripted_provider.wires import Body, arguments_of, write

_PIECE_CHARACTERS = 40
_WITH_TOKENS = (b'"content_block_', b'"response.output_', b'"response.content_', b'"chat.completion.chunk"')
_EMPTY: dict[str, Body] = {"text": {"text": ""}, "tool_use": {"input": {}}, "thinking": {"signature": ""}}


def events(request: ScriptedRequest, reply: ScriptedReply) -> Sequence[bytes]:
    body = write(request, reply)
    match request.wire:
        case "anthropic":
            return [_named(event) for event in _anthropic(body, reply)]
        case "responses":
            numbered = enumerate(_responses(body))
            return [_named({**event, "sequence_number": number}) for number, event in numbered]
        case "chat":
            options: Body = request.body.get("stream_options") or {}
            usage_wanted = bool(options.get("include_usage"))
            return [*(_data(event) for event in _chat(body, usage_wanted=usage_wanted)), b"data: [DONE]\n\n"]


def has_token(event: bytes) -> bool:
    """Whether an event contains something that the model has written, or announces it."""
    return any(kind in event for kind in _WITH_TOKENS)


def _named(event: Body) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


def _data(event: Body) -> bytes:
    # Not all servers escape non-ASCII text, and some of it looks like a line end.
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARACTERS):
        yield text[start : start + _PIECE_CHARACTERS]


def _anthropic(body: Body, reply: ScriptedReply) -> Iterator[Body]:
    usage: Body = body.get("usage", {})
    begun: Body = {**body, "content": [], "stop_reason": None}
    begun.pop("stop_details", None)
    if usage:
        begun["usage"] = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    uses = iter(reply.tools)
    for index, block in enumerate(body["content"]):
        empty = _EMPTY[block["type"]]
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in _deltas(block, uses):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {name: body[name] for name in ("stop_reason", "stop_sequence", "stop_details") if name in body}
    # The last count is complete: each number replaces the initial one.
    used = {"usage": {"output_tokens": usage["output_tokens"]}} if usage else {}
    yield {"type": "message_delta", "delta": ended, **used}
    yield {"type": "message_stop"}


def _deltas(block: Body, uses: Iterator[ToolUse]) -> Iterator[Body]:
    match block["type"]:
        case "thinking":
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in _pieces(block["text"]))
        case _:
            written = arguments_of(next(uses))
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _pieces(written))


def _responses(body: Body) -> Iterator[Body]:
    begun: Body = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    yield {"type": "keepalive"}
    for place, item in enumerate(body["output"]):
        yield from _response_item(place, item)
    yield {"type": f"response.{body['status']}", "response": body}


def _response_item(place: int, item: Body) -> Iterator[Body]:
    added: Body = {}
    where: Body = {"output_index": place, "item_id": item["id"]}
    match item["type"]:
        case "message":
            added = {"content": [], "status": "in_progress"}
        case "function_call":
            added = {"arguments": "", "status": "in_progress"}
        case _:
            pass
    yield {"type": "response.output_item.added", "output_index": place, "item": {**item, **added}}
    if item["type"] == "message":
        for number, part in enumerate(item["content"]):
            at = {**where, "content_index": number}
            name = "text" if part["type"] == "output_text" else "refusal"
            yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
            for piece in _pieces(part[name]):
                yield {"type": f"response.{part['type']}.delta", **at, "delta": piece, "logprobs": []}
            yield {"type": f"response.{part['type']}.done", **at, name: part[name], "logprobs": []}
            yield {"type": "response.content_part.done", **at, "part": part}
    if item["type"] == "function_call":
        for piece in _pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **where, "delta": piece}
        whole: Body = {"name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **where, **whole}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _chat(body: Body, *, usage_wanted: bool) -> Iterator[Body]:
    (choice,) = body["choices"]
    message = choice["message"]
    common: Body = {**body, "object": "chat.completion.chunk", "choices": [], "usage": None}
    if not usage_wanted:
        del common["usage"]

    def piece(delta: Body, finish: str | None = None) -> Body:
        told: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return {**common, "choices": [told]}

    yield piece({"role": "assistant", "content": ""})
    for field in ("content", "refusal"):
        for text in _pieces(message.get(field) or ""):
            yield piece({field: text})
    for number, call in enumerate(message.get("tool_calls") or ()):
        function: Body = call["function"]
        yield piece({"tool_calls": [{**call, "index": number, "function": {**function, "arguments": ""}}]})
        for text in _pieces(function["arguments"]):
            yield piece({"tool_calls": [{"index": number, "function": {"arguments": text}}]})
    yield piece({}, choice["finish_reason"])
    if usage_wanted and body.get("usage"):
        yield {**common, "usage": body["usage"]}
