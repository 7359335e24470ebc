"""The events of an Anthropic message, put together to the message."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json

from activities.models.failures import UnreadableReply, reported_failure
from activities.models.reply_parsing import within
from activities.models.tool_arguments import LONGEST_ARGUMENTS

_PASSING: Final = frozenset({"api_error", "overloaded_error", "rate_limit_error", "timeout_error"})
"""Errors in the middle of a stream with which asking again may help."""
_GROWING: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Which field of a block grows by which kind of delta."""


class MessageFold:
    """Puts a message together."""

    def __init__(self, provider: str, secrets: tuple[str, ...]) -> None:
        self._provider = provider
        self._secrets = secrets
        self._message: dict[str, JsonValue] = {}
        self._usage: dict[str, JsonValue] = {}
        self._blocks: dict[int, dict[str, JsonValue]] = {}
        self._inputs: dict[int, str] = {}

    def take(self, event: Mapping[str, JsonValue]) -> bool:
        """Take an event in; tell whether it was the last."""
        match event.get("type"):
            case "message_start":
                self._message = _mapping(event, "message")
                # The number of output tokens at the start is of the start only.
                self._use(self._message.pop("usage", None), but="output_tokens")
            case "content_block_start":
                self._blocks[_index(event)] = _mapping(event, "content_block")
            case "content_block_delta":
                self._grow(_index(event), _mapping(event, "delta"))
            case "message_delta":
                self._message |= _mapping(event, "delta")
                self._use(event.get("usage"))
            case "message_stop":
                return True
            case "error":
                self._fail(event.get("error"))
            case _:
                pass  # `ping`, and whatever may be added
        return False

    def is_complete(self) -> bool:
        """Tell that only `message_stop` ends a message."""
        return False

    @property
    def body(self) -> JsonValue:
        """The message."""
        for index, written in self._inputs.items():
            self._blocks[index]["input"] = _input(written)
        blocks: list[JsonValue] = [self._blocks[index] for index in sorted(self._blocks)]
        return {**self._message, "content": blocks, "usage": self._usage or None}

    def _grow(self, index: int, delta: Mapping[str, JsonValue]) -> None:
        block = self._blocks.get(index)
        if block is None:
            raise UnreadableReply("it goes on with a block that never began")
        kind = str(delta.get("type"))
        if kind == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + str(delta.get("partial_json") or "")
        elif kind == "citations_delta":
            cited = block.get("citations")
            block["citations"] = [*(cited if isinstance(cited, list) else []), delta.get("citation")]
        elif field := _GROWING.get(kind):
            block[field] = str(block.get(field) or "") + str(delta.get(field) or "")

    def _use(self, usage: JsonValue, but: str = "") -> None:
        """Note what has been used so far: each number replaces the one before."""
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None and name != but}

    def _fail(self, error: JsonValue) -> None:
        code = str(within(error, "type") or "")
        raise reported_failure(
            self._provider,
            code,
            str(within(error, "message") or "the stream broke off"),
            passing=code in _PASSING,
            possibly_billed=bool(self._message),
            secrets=self._secrets,
        )


def _mapping(event: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue]:
    value = event.get(name)
    if not isinstance(value, dict):
        raise UnreadableReply(f"unexpected form of: {name}")
    return dict(value)


def _index(event: Mapping[str, JsonValue]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise UnreadableReply("unexpected form of: index")
    return index


def _input(written: str) -> JsonValue:
    """Read a tool's arguments; those that cannot be read stay text, and whoever checks them says why."""
    if len(written) > LONGEST_ARGUMENTS:
        return written
    try:
        return from_json(written or "{}", allow_inf_nan=False)
    except ValueError:
        return written
