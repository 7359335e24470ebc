"""Models of any OpenAI-compatible server, through Chat Completions: llama.cpp, Ollama, vLLM, and many clouds.

Servers differ in how far they comply. When tools are offered, the prompt rather than the request states the answer's
schema, because with both, many servers refuse the schema or never call a tool. A reply of another shape is corrected in
a request without tools. OpenAI's own models get both in each request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_json

from activities.contracts.rounds import ToolCall
from activities.models.abilities import caps_completion, is_bound_with_tools, reasons_without_tools
from activities.models.clients import ProviderModel
from activities.models.failures import ProviderError, ReportedError, UnreadableReply
from activities.models.prices import Tokens
from activities.models.protocol import Content, ModelCall
from activities.models.replies import arguments_text, read_content, shaped, token_count, within
from activities.models.schemas import strict
from activities.models.streaming import SLOW_TO_BEGIN, Patience
from activities.turn_kinds.protocol import Message
from activities.turn_kinds.work import WorkTask

if TYPE_CHECKING:
    import openai
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

PROVIDER: Final = "openai-compatible"
_LISTS_NO_MODELS: Final = frozenset({404, 405, 501})
"""Answers of servers that cannot list their models."""

Entry = dict[str, Any]
_NOT_TAKEN_BACK: Final = frozenset({"annotations", "audio", "function_call", "refusal"})
"""Fields that servers write in replies but do not accept in requests."""
_PIECE_FIELDS: Final = frozenset({"index", "id", "type", "function"})
_JOINED: Final = frozenset({"content", "refusal", "reasoning", "reasoning_content"})
"""Fields of a message that arrive in pieces."""


@dataclass(kw_only=True, eq=False, repr=False)
class OpenAIChatModel(ProviderModel["openai.AsyncOpenAI"]):
    provider = PROVIDER
    patience: Patience = SLOW_TO_BEGIN

    def _make_client(self) -> "openai.AsyncOpenAI":
        import openai  # takes two seconds, so only workers with this server import it

        key = self.api_key or "none"  # the SDK requires one
        network = self._limit(openai.DefaultAsyncHttpxClient)
        return openai.AsyncOpenAI(api_key=key, base_url=self.base_url, max_retries=0, http_client=network)

    async def check(self, model: str) -> None:
        try:
            await super().check(model)
        except ProviderError as error:
            if error.fault.status not in _LISTS_NO_MODELS:
                raise

    async def _send(self, client: "openai.AsyncOpenAI", call: ModelCall) -> JsonValue:
        return await self._stream(client, "/chat/completions", request_body(call), call, ChatFold())

    def _read(self, call: ModelCall, body: JsonValue) -> Content:
        reply = shaped(body, _Reply)
        choice = reply.choices[0] if reply.choices else _Choice(message={})
        message = choice.message
        refusal = str(message.get("refusal") or "")
        text = _plain(str(message.get("content") or ""))
        stop = _stop(choice.finish_reason, refusal)
        return read_content(
            stop, refusal or text, _uses(message), call.offered_tools, lambda calls: (_returnable(message, calls),)
        )

    def _tokens(self, usage: JsonValue) -> Tokens | None:
        """Read the usage; here `prompt_tokens` includes everything, and `completion_tokens` may leave out thoughts."""
        whole = token_count(usage, "prompt_tokens")
        cached = token_count(usage, "prompt_tokens_details", "cached_tokens", absent=0)
        output = token_count(usage, "completion_tokens")
        total = token_count(usage, "total_tokens", absent=0)
        if whole is None or cached is None or output is None or total is None or cached > whole:
            return None
        return Tokens(input=whole, cached=cached, cache_written=0, output=max(output, total - whole))


def request_body(call: ModelCall) -> "CompletionCreateParamsStreaming":
    """Build the request, starting with the parts that stay the same from turn to turn."""
    schema = call.answer_schema
    is_bound = is_bound_with_tools(call.model)
    # After an unusable reply, no tools are listed, since most servers enforce the schema only then.
    is_corrected = isinstance(call.task, WorkTask) and bool(call.task.rounds and call.task.rounds[-1].correction)
    lists_tools = bool(call.tools) if is_bound else call.may_use_tools and not is_corrected
    system = call.system
    if lists_tools and not is_bound:
        system += f"\n\nThe final answer is nothing but JSON of this schema:\n{to_json(schema).decode()}"
    body: dict[str, Any] = {
        "model": call.model,
        "messages": [
            {"role": "system", "content": system},
            *(e for message in call.messages for e in _entries(message)),
        ],
        "max_completion_tokens" if caps_completion(call.model) else "max_tokens": call.max_output_tokens,
        "stream": True,
        # Without this option, a stream does not report its usage.
        "stream_options": {"include_usage": True},
    }
    effort = "none" if lists_tools and reasons_without_tools(call.model) else call.effort
    if effort is not None:
        body["reasoning_effort"] = effort
    elif call.temperature is not None:
        body["temperature"] = call.temperature
    if lists_tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": strict(tool.parameters)},
            }
            for tool in call.tools
        ]
        if not call.may_use_tools:  # tools and schema begin the prompt, so they stay the same to keep its cache valid
            body["tool_choice"] = "none"
    if is_bound or not lists_tools:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": call.answer_type.__name__, "schema": schema, "strict": True},
        }
    return cast("CompletionCreateParamsStreaming", body)


def _entries(message: Message) -> list[Entry]:
    match message.role:
        case "tools":
            return [
                {
                    "role": "tool",
                    "tool_call_id": result.call_id,
                    "content": result.text if result.ok else f"The tool failed.\n{result.text}",
                }
                for result in message.results
            ] + _pictures(message)
        case "assistant" if len(message.provider_items) == 1 and within(message.provider_items[0], "role"):
            return [dict(cast("Mapping[str, Any]", message.provider_items[0]))]
        case "assistant":
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments_text(call)}}
                for call in message.calls
            ]
            return [{"role": "assistant", "content": message.text, **({"tool_calls": calls} if calls else {})}]
        case "user":
            return [{"role": "user", "content": message.text}]


def _pictures(message: Message) -> list[Entry]:
    """Build a user message with the pictures of tool results, which the API accepts from the user only."""
    parts = [
        {"type": "image_url", "image_url": {"url": each.data_url}} for one in message.results for each in one.shown
    ]
    lead = {"type": "text", "text": "The pictures of these results:"}
    return [{"role": "user", "content": [lead, *parts]}] if parts else []


@dataclass
class _CallPieces:
    id: JsonValue = ""
    names: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])
    others: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Other fields that the server requires back, such as Gemini's signed thoughts in `extra_content`."""

    @property
    def whole(self) -> JsonValue:
        function: JsonValue = {"name": "".join(self.names), "arguments": "".join(self.arguments)}
        return {**self.others, "id": self.id, "type": "function", "function": function}


class ChatFold:
    def __init__(self) -> None:
        self._model: JsonValue = None
        self._usage: JsonValue = None
        self._finish: JsonValue = None
        self.has_begun = False
        self._message: dict[str, JsonValue] = {}
        self._pieces: dict[str, list[str]] = {}
        self._calls: list[_CallPieces] = []
        self._by_number: dict[int, _CallPieces] = {}

    def take(self, event: Mapping[str, JsonValue]) -> bool:
        if error := event.get("error"):
            code = str(within(error, "code") or within(error, "type") or "")
            text = str(within(error, "message") or "the stream broke off")
            raise ReportedError(code, text, possibly_billed=self.has_begun)
        self._model = event.get("model") or self._model
        self._usage = event.get("usage") or self._usage
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise UnreadableReply("unexpected form of: choices")
        if choices:
            self.has_begun = True
            delta: JsonValue = within(choices[0], "delta")
            if isinstance(delta, dict):
                self._grow(delta)
            self._finish = within(choices[0], "finish_reason") or self._finish
        is_usage_event = bool(event.get("usage")) and not choices  # always the last one
        return is_usage_event or (self.is_complete() and self._usage is not None)

    def is_complete(self) -> bool:
        """Whether the model stopped; servers that do not count tokens send nothing after that."""
        return self._finish is not None

    @property
    def body(self) -> JsonValue:
        # An unstreamed reply has no empty fields.
        joined = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        message = {name: value for name, value in {**self._message, **joined}.items() if value != ""}
        if self._calls:
            message["tool_calls"] = [call.whole for call in self._calls]
        return {
            "model": self._model,
            "choices": [{"message": message, "finish_reason": self._finish}],
            "usage": self._usage,
        }

    @property
    def text(self) -> str:
        return _plain("".join(self._pieces.get("content", ())))

    def _grow(self, delta: Mapping[str, JsonValue]) -> None:
        for name, value in delta.items():
            if name == "tool_calls":
                for piece in value if isinstance(value, list) else []:
                    self._grow_call(piece)
            elif name in _JOINED and isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
            elif value is not None:
                self._message[name] = value

    def _grow_call(self, piece: JsonValue) -> None:
        call = self._call_of(piece)
        call.id = within(piece, "id") or call.id
        call.names.append(str(within(piece, "function", "name") or ""))
        call.arguments.append(str(within(piece, "function", "arguments") or ""))
        if isinstance(piece, dict):
            call.others |= {name: value for name, value in piece.items() if name not in _PIECE_FIELDS}

    def _call_of(self, piece: JsonValue) -> _CallPieces:
        """Return the call that a piece belongs to.

        Servers without call numbers begin each call with its name; some give every call the same number.
        """
        number, identity = within(piece, "index"), within(piece, "id")
        if isinstance(number, int):
            call = self._by_number.get(number)
        else:
            call = self._calls[-1] if self._calls and not within(piece, "function", "name") else None
        if call is None or (identity and call.id and call.id != identity):
            call = _CallPieces()
            self._calls.append(call)
        if isinstance(number, int):
            self._by_number[number] = call
        return call


class _Choice(BaseModel):
    message: dict[str, JsonValue]
    finish_reason: str | None = None


class _Reply(BaseModel):
    choices: list[_Choice]


def _stop(finish_reason: str | None, refusal: str) -> Literal["refused", "truncated"] | None:
    if refusal or finish_reason == "content_filter":
        return "refused"
    return "truncated" if finish_reason == "length" else None


def _uses(message: Mapping[str, JsonValue]) -> list[tuple[object, object, object]]:
    calls = message.get("tool_calls")
    return [
        (within(each, "id"), within(each, "function", "name"), within(each, "function", "arguments"))
        for each in (calls if isinstance(calls, list) else [])
    ]


def _returnable(message: Mapping[str, JsonValue], calls: Sequence[ToolCall]) -> JsonValue:
    """Keep the message unchanged, except for parts that the server would refuse."""
    fields = {name: value for name, value in message.items() if value is not None and name not in _NOT_TAKEN_BACK}
    content = fields.get("content", "")
    is_parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
    if not (isinstance(content, str) or is_parts):
        del fields["content"]
    raw_calls = cast("list[JsonValue]", message["tool_calls"])
    # Calls beyond the maximum have no result, but servers require one.
    returned: list[JsonValue] = [_returnable_call(one, call) for one, call in zip(raw_calls, calls, strict=False)]
    return {**fields, "role": "assistant", "tool_calls": returned}


def _returnable_call(asked: JsonValue, call: ToolCall) -> JsonValue:
    rest = asked if isinstance(asked, dict) else {}
    arguments = within(asked, "function", "arguments")
    if call.malformed or not isinstance(arguments, str):
        arguments = arguments_text(call)
    return {**rest, "id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _plain(text: str) -> str:
    """Strip the thoughts that small models write before an answer."""
    thoughts, end, rest = text.partition("</think>")
    return (rest if end and thoughts.lstrip().startswith("<think>") else text).strip()
