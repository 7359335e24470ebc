"""Content of model and tool calls as span attributes, for operators who enable it.

Keys are redacted, long texts truncated, and only the latest messages of long conversations kept. Imported only by
workers that trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from activities.contracts.rounds import ToolCall, ToolResult
from activities.models.failures import without_keys
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.protocol import Message
from chargehand.contracts.problems import shorten
from chargehand.spans import SpanAttribute
from chargehand.strict_json import map_texts

_LONGEST: Final = 8_000
"""Maximum characters of one text."""
_MOST: Final = 64_000
"""Maximum characters of a conversation; receivers accept a few megabytes per request with many turns."""
_FINISH: Final = {"answer": "stop", "tools": "tool_call", "truncated": "length", "refused": "content_filter"}
"""Finish reasons of the semantic conventions; others are errors."""
Attributes = Mapping[SpanAttribute, str]


class Content:
    """Builds attributes without the worker's secrets."""

    def __init__(self, secrets: Sequence[str]) -> None:
        """Take the secrets to redact."""
        self._secrets = tuple(secrets)

    def of(self, said: ModelCall | ModelReply) -> Attributes:
        if isinstance(said, ModelCall):
            return {
                SpanAttribute.SYSTEM: _json(self._cut([{"type": "text", "content": said.system}])),
                SpanAttribute.INPUT_MESSAGES: _json(self._latest(said.messages)),
            }
        parts: list[JsonValue] = [{"type": "text", "content": said.text}] if said.text else []
        parts += [_tool_call_part(each) for each in said.tool_calls]
        reason = _FINISH.get(said.stop, "error")
        message: JsonValue = {"role": "assistant", "parts": parts, "finish_reason": reason}
        return {SpanAttribute.OUTPUT_MESSAGES: _json(self._cut([message]))}

    def of_request(self, call: ToolCall) -> Attributes:
        return {SpanAttribute.TOOL_ARGUMENTS: _json(self._cut(dict(call.arguments)))}

    def of_result(self, result: ToolResult) -> Attributes:
        return {SpanAttribute.TOOL_RESULT: _json(self._cut(dict(result.output)))}

    def _latest(self, messages: Sequence[Message]) -> list[JsonValue]:
        entries: list[JsonValue] = []
        room = _MOST
        for message in reversed(messages):
            parts = self._cut(list(_parts(message)))
            room -= len(_json(parts))
            if entries and room < 0:
                break
            entries.append({"role": message.role.removesuffix("s"), "parts": parts})
        return entries[::-1]

    def _cut(self, value: JsonValue) -> JsonValue:
        def redact(text: str) -> str:
            return shorten(without_keys(text[: 2 * _LONGEST], self._secrets), _LONGEST)

        return map_texts(value, redact, lambda name: without_keys(name[:_LONGEST], self._secrets))


def _parts(message: Message) -> Iterator[JsonValue]:
    if message.text:
        yield {"type": "text", "content": message.text}
    yield from map(_tool_call_part, message.calls)
    for result in message.results:
        yield {"type": "tool_call_response", "id": result.call_id, "response": result.text}


def _tool_call_part(call: ToolCall) -> JsonValue:
    return {"type": "tool_call", "id": call.id, "name": call.tool, "arguments": dict(call.arguments)}


def _json(value: JsonValue) -> str:
    return to_json(value, inf_nan_mode="null").decode()
