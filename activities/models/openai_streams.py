"""The events of OpenAI's two wires, put together to the replies that they are."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from activities.models.failures import UnreadableReply, reported_failure
from activities.models.reply_parsing import within

PASSING: Final = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})
"""Error codes of a failed response with which asking again may help."""
_LAST: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_JOINED: Final = frozenset({"content", "refusal", "reasoning", "reasoning_content"})
"""Fields of a chat message that come in pieces."""


class ResponseFold:
    """Waits for the event that brings the whole response."""

    def __init__(self, provider: str, secrets: tuple[str, ...]) -> None:
        self._provider = provider
        self._secrets = secrets
        self._began = False
        self.body: JsonValue = None

    def take(self, event: Mapping[str, JsonValue]) -> bool:
        """Take an event in; tell whether it was the last."""
        kind = event.get("type")
        if kind == "error":
            told = event["error"] if isinstance(event.get("error"), dict) else dict(event)
            code = str(within(told, "code") or "")
            raise reported_failure(
                self._provider,
                code,
                str(within(told, "message") or "the stream broke off"),
                passing=code in PASSING or not code,
                possibly_billed=self._began,
                secrets=self._secrets,
            )
        self._began = self._began or kind == "response.output_item.added"
        if kind not in _LAST:
            return False
        self.body = event.get("response")
        return True

    def is_complete(self) -> bool:
        """Tell that only its last event makes a response whole."""
        return False


class ChatFold:
    """Puts the pieces of a chat completion together."""

    def __init__(self, provider: str, secrets: tuple[str, ...]) -> None:
        self._provider = provider
        self._secrets = secrets
        self._model: JsonValue = None
        self._usage: JsonValue = None
        self._finish: JsonValue = None
        self._began = False
        self._message: dict[str, JsonValue] = {}
        self._calls: list[dict[str, JsonValue]] = []

    def take(self, event: Mapping[str, JsonValue]) -> bool:
        """Take a piece in; tell whether it was the last."""
        if event.get("error"):
            self._fail(event["error"])
        self._model = event.get("model") or self._model
        self._usage = event.get("usage") or self._usage
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise UnreadableReply("unexpected form of: choices")
        if choices:
            self._began = True
            delta: JsonValue = within(choices[0], "delta")
            if isinstance(delta, dict):
                self._grow(delta)
            self._finish = within(choices[0], "finish_reason") or self._finish
        return self.is_complete() and self._usage is not None

    def is_complete(self) -> bool:
        """Whether the model said why it stopped; servers that count nothing say no more than that."""
        return self._finish is not None

    @property
    def body(self) -> JsonValue:
        """The completion."""
        # What was begun and left empty is, in a reply at once, not there.
        message = {name: value for name, value in self._message.items() if value != ""}
        if self._calls:
            message["tool_calls"] = [*self._calls]
        return {
            "model": self._model,
            "choices": [{"message": message, "finish_reason": self._finish}],
            "usage": self._usage,
        }

    def _grow(self, delta: Mapping[str, JsonValue]) -> None:
        for name, value in delta.items():
            if name == "tool_calls":
                for piece in value if isinstance(value, list) else []:
                    self._grow_call(piece)
            elif name in _JOINED and isinstance(value, str):
                self._message[name] = str(self._message.get(name) or "") + value
            elif value is not None:
                self._message[name] = value

    def _grow_call(self, piece: JsonValue) -> None:
        call = self._call_of(piece)
        if identity := within(piece, "id"):
            call["id"] = identity
        function = call["function"]
        assert isinstance(function, dict)
        function["name"] = str(function["name"]) + str(within(piece, "function", "name") or "")
        function["arguments"] = str(function["arguments"]) + str(within(piece, "function", "arguments") or "")

    def _call_of(self, piece: JsonValue) -> dict[str, JsonValue]:
        """Find the call that a piece belongs to; servers that number none begin each with its name."""
        number = within(piece, "index")
        if not isinstance(number, int):
            number = len(self._calls) - (0 if within(piece, "function", "name") else 1)
        if 0 <= number < len(self._calls):
            return self._calls[number]
        self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        return self._calls[-1]

    def _fail(self, error: JsonValue) -> None:
        raise reported_failure(
            self._provider,
            str(within(error, "code") or within(error, "type") or ""),
            str(within(error, "message") or "the stream broke off"),
            passing=True,
            possibly_billed=self._began,
            secrets=self._secrets,
        )
