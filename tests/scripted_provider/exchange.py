"""Requests and replies of the scripted provider, on every wire."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, JsonValue

Wire = Literal["anthropic", "responses", "chat"]
Answer = Literal["text", "tools", "truncated", "refusal", "empty"]
Kind = Answer | Literal["error", "raw", "drop", "reset", "hang", "stall", "drip"]


@dataclass(frozen=True)
class Tokens:
    """The usage that a reply reports."""

    input: int = 1_000
    """Input tokens neither read from nor written to a cache."""
    cached: int = 0
    cache_write: int = 0
    output: int = 100


NO_USAGE = Tokens(input=-1)
"""The reply does not report its usage."""


@dataclass(frozen=True)
class ToolUse:
    """A tool that the reply asks for; `arguments` as a string is sent as it is, valid or not."""

    tool: str
    arguments: Mapping[str, JsonValue] | str = field(default_factory=dict[str, JsonValue])
    id: str = ""
    """Generated from the request's number if empty."""


@dataclass(frozen=True)
class ScriptedMessage:
    role: Literal["user", "assistant", "tools"]
    text: str


@dataclass(frozen=True)
class ScriptedRequest:
    """A request in a form that is independent of its wire."""

    sequence: int
    """1 for the first request that the server saw."""
    wire: Wire
    model: str
    system: str
    messages: tuple[ScriptedMessage, ...]
    tools: tuple[str, ...]
    """Names of the tools that the model may use now: none if the request forbids them."""
    answer: str
    """Title of the JSON Schema that the answer must have, such as `PlanAnswer`; empty if none is required."""
    arrived_at: float
    """Seconds since the epoch, so that times of several processes compare."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    """The body as it was sent."""

    @property
    def rounds(self) -> int:
        """How many times tools have answered so far."""
        return sum(message.role == "tools" for message in self.messages)

    @property
    def text(self) -> str:
        """All text that the request contains for the model."""
        return "\n\n".join([self.system, *(message.text for message in self.messages)])


@dataclass(frozen=True)
class ScriptedReply:
    """The provider's response to a request; made by the functions below."""

    kind: Kind
    text: str = ""
    tools: tuple[ToolUse, ...] = ()
    tokens: Tokens = Tokens()
    delay: float = 0.0
    """Seconds that the provider thinks before it answers."""
    gap: float = 0.0
    """Seconds between two events of the answer, if it is streamed."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | Mapping[str, object] | None = None
    """For `raw`, and for `error` instead of the wire's usual body."""
    model: str = ""
    """The model named in the answer; the requested one if empty."""
    thought: str = ""
    """The signature of the thinking before the answer, on Anthropic's wire; empty if there was none."""
    pieces: Literal["whole", "bytes", "endless"] = "whole"
    """For `raw`: how the body is handed to the network; `endless` leaves the connection open."""
    on_first_token: Callable[[], None] | None = None
    """Called when the provider begins to answer."""

    @property
    def charged(self) -> bool:
        """Whether a real provider would bill it."""
        return self.kind != "error" and self.status < 400

    def after(self, seconds: float) -> "ScriptedReply":
        """Think first."""
        return replace(self, delay=seconds)

    def spaced(self, seconds: float) -> "ScriptedReply":
        """Pause between two events."""
        return replace(self, gap=seconds)

    def using(self, tokens: Tokens) -> "ScriptedReply":
        """Report a usage other than the usual 1,000 input and 100 output tokens."""
        return replace(self, tokens=tokens)

    def thinking(self, signature: str) -> "ScriptedReply":
        """Think before the answer, and sign the thinking."""
        return replace(self, thought=signature)

    def by(self, model: str) -> "ScriptedReply":
        """Name a model other than the requested one."""
        return replace(self, model=model)


Respond = Callable[[ScriptedRequest], ScriptedReply | Awaitable[ScriptedReply]]


@dataclass
class Exchange:
    """A request and its result."""

    request: ScriptedRequest
    reply: ScriptedReply | None = None
    """None while the script is deciding."""
    answered_at: float | None = None
    """When the last byte was handed to the network; None if it never was."""
    hung_up: bool = False
    """The client closed the connection before it had the answer."""


def saying(said: str | BaseModel) -> ScriptedReply:
    """Answer with text, or with a model as JSON."""
    return ScriptedReply("text", said if isinstance(said, str) else said.model_dump_json())


def calling(*tools: ToolUse, text: str = "") -> ScriptedReply:
    """Ask for tools."""
    return ScriptedReply("tools", text, tools)


def truncated(text: str = '{"content": "and th') -> ScriptedReply:
    """Break off at the output limit."""
    return ScriptedReply("truncated", text)


def refusing(text: str = "I cannot help with that.") -> ScriptedReply:
    """Decline on grounds of policy."""
    return ScriptedReply("refusal", text)


def empty() -> ScriptedReply:
    """End the turn without a word."""
    return ScriptedReply("empty")


def error(
    status: int, headers: Mapping[str, str] | None = None, body: bytes | Mapping[str, object] | None = None
) -> ScriptedReply:
    """Answer with an HTTP error; nothing is charged."""
    return ScriptedReply("error", status=status, headers=headers or {}, body=body)


def raw(
    body: bytes | Mapping[str, object], headers: Mapping[str, str] | None = None, status: int = 200
) -> ScriptedReply:
    """Answer with exactly this body; JSON unless the headers say otherwise."""
    return ScriptedReply("raw", status=status, headers=headers or {}, body=body)


def dropping() -> ScriptedReply:
    """Close the connection in the middle of the answer; it is charged nevertheless."""
    return ScriptedReply("drop")


def resetting() -> ScriptedReply:
    """Reset the connection in the middle of the answer; it is charged nevertheless."""
    return ScriptedReply("reset")


def stalling(text: str = "And so") -> ScriptedReply:
    """Begin to answer, and then say nothing more; it is charged nevertheless."""
    return ScriptedReply("stall", text)


def dripping() -> ScriptedReply:
    """Answer with a byte now and then, for ever; it is charged nevertheless."""
    return ScriptedReply("drip")


def hanging() -> ScriptedReply:
    """Accept the request and never answer; it is charged nevertheless."""
    return ScriptedReply("hang")
