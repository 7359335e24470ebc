"""Anthropic's models through the Messages API, and through Message Batches for calls that are not urgent."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast
from urllib.parse import quote

from pydantic import BaseModel, JsonValue
from pydantic_core import from_json

from activities.contracts.rounds import ToolCall
from activities.models.clients import COUNT_SECONDS, ProviderModel, make_timeout
from activities.models.failures import ReportedError, UnreadableReply, translating
from activities.models.prices import Tokens
from activities.models.protocol import Content, ModelCall
from activities.models.provider_jobs import REQUEST_SECONDS, JobStore, run_job
from activities.models.replies import LONGEST_ARGUMENTS, own_items, parse, read_content, shaped, token_count, within
from activities.models.schemas import strict
from activities.turn_kinds.protocol import Message, Picture

if TYPE_CHECKING:
    import anthropic
    from anthropic.types.message_create_params import MessageCreateParamsStreaming


PROVIDER: Final = "anthropic"
BASE_URL: Final = "https://api.anthropic.com"

Block = dict[str, Any]
_CACHED: Final[Block] = {"type": "ephemeral"}
"""The cheapest cache: it lasts five minutes, and writing costs 1.25 times the input price."""
_COUNTED: Final = frozenset({"model", "system", "messages", "tools", "tool_choice", "thinking", "output_config"})
"""The parts of a request that determine its input tokens."""
_BLOCK_TYPES: Final = frozenset({"text", "tool_use", "thinking", "redacted_thinking"})
_BATCH_SHARE: Final = Decimal("0.5")
"""The price of a batch relative to the normal price."""
_POLL_SECONDS: Final = 15.0
_RETRYABLE_CODES: Final = frozenset({"api_error", "overloaded_error", "rate_limit_error", "timeout_error"})
"""Retryable error types of a batch or within a stream."""
_NOT_OF_BATCHES: Final = frozenset({"stream", "service_tier"})
"""Parameters that batch requests must not have."""


@dataclass(kw_only=True, eq=False, repr=False)
class AnthropicModel(ProviderModel["anthropic.AsyncAnthropic"]):
    provider = PROVIDER
    least_cached_tokens: ClassVar[int] = 1_024
    """Some models do not cache prefixes below 4,096 tokens."""
    poll_seconds: float = _POLL_SECONDS

    def _make_client(self) -> "anthropic.AsyncAnthropic":
        import anthropic  # takes two seconds, so only workers with this key import it

        url = self.base_url or BASE_URL
        network = self._limit(anthropic.DefaultAsyncHttpxClient)
        # We create the spans for all providers; the SDK's own would send the trace along.
        return anthropic.AsyncAnthropic(
            api_key=self.api_key, base_url=url, max_retries=0, http_client=network, open_telemetry=False
        )

    async def _send(self, client: "anthropic.AsyncAnthropic", call: ModelCall) -> JsonValue:
        if call.job and _is_batch(call):
            store = BatchStore(client, request_body(call), call.idempotency_key)
            return await run_job(call.job, store, poll_seconds=self.poll_seconds, whole_seconds=None)
        return await self._stream(client, "/v1/messages", request_body(call), call, MessageFold())

    async def count_input(self, call: ModelCall) -> int:
        with translating(self.provider, (self.api_key,)):
            client = await self.warm_up()
            whole = request_body(self._with_possible_settings(call))
            body: dict[str, Any] = {name: part for name, part in whole.items() if name in _COUNTED}
            return (await client.messages.count_tokens(**body, timeout=COUNT_SECONDS)).input_tokens

    def _read(self, call: ModelCall, body: JsonValue) -> Content:
        reply = shaped(body, _Reply)
        text = "".join(str(block.get("text", "")) for block in reply.content if block.get("type") == "text")
        stop = _STOPS.get(reply.stop_reason or "")
        blocks = [block for block in reply.content if block.get("type") == "tool_use"]
        uses = [(block.get("id"), block.get("name"), block.get("input")) for block in blocks]
        if stop == "refused":
            text = str(within(reply.stop_details, "explanation") or text)
        return read_content(stop, text, uses, call.offered_tools, partial(_returnable, reply.content))

    def _tokens(self, usage: JsonValue) -> Tokens | None:
        """Read the usage; here `input_tokens` excludes cache reads and writes."""
        plain = token_count(usage, "input_tokens")
        cached = token_count(usage, "cache_read_input_tokens", absent=0)
        written = token_count(usage, "cache_creation_input_tokens", absent=0)
        output = token_count(usage, "output_tokens")
        if plain is None or cached is None or written is None or output is None:
            return None
        return Tokens(input=plain + cached + written, cached=cached, cache_written=written, output=output)

    def _price_share(self, call: ModelCall) -> Decimal:
        return _BATCH_SHARE if _is_batch(call) else Decimal(1)


def _is_batch(call: ModelCall) -> bool:
    """Whether a call is not urgent and its job can be journalled."""
    return call.urgency == "batch" and call.job is not None


def request_body(call: ModelCall) -> "MessageCreateParamsStreaming":
    """Build the request, starting with the parts that stay the same from turn to turn."""
    schema = call.answer_schema
    body: dict[str, Any] = {
        "model": call.model,
        "max_tokens": call.max_output_tokens,
        "system": [{"type": "text", "text": call.system, "cache_control": _CACHED}],
        "messages": _messages(call),
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
        # The reservation does not cover the prices of priority capacity.
        "service_tier": "standard_only",
        "stream": True,
    }
    if call.effort is not None:
        body["thinking"] = {"type": "adaptive"}
        body["output_config"]["effort"] = call.effort
    elif call.temperature is not None:
        body["temperature"] = min(call.temperature, 1.0)  # its highest
    if tools := _tools(call):
        body["tools"] = tools
        # Also when the model must answer, as its prompt then says: another choice would lose the prompt cache.
        body["tool_choice"] = {"type": "auto"}
    return cast("MessageCreateParamsStreaming", body)


def _tools(call: ModelCall) -> list[Block]:
    # Not `strict` tools: with seven or more, the provider may refuse the grammar as too large.
    listed: list[Block] = [
        {"name": tool.name, "description": tool.description, "input_schema": strict(tool.parameters)}
        for tool in call.tools
    ]
    # The provider requires all tools used in the conversation to be listed.
    mentioned = {use.tool for message in call.messages for use in message.calls} - {tool.name for tool in call.tools}
    return listed + [
        {"name": name, "description": "Not available.", "input_schema": strict({"type": "object"})}
        for name in sorted(mentioned)
    ]


def _messages(call: ModelCall) -> list[Block]:
    written: list[Block] = []
    for message in call.messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    # Breakpoints at the end of the previous turn and, if another round is likely, of this one.
    for message in [*written[-3:-2], *(written[-1:] if call.may_use_tools else ())]:
        content = message["content"]
        content[-1] = {**content[-1], "cache_control": _CACHED}
    return written


def _blocks(message: Message) -> list[Block]:
    match message.role:
        case "tools":
            return [
                {
                    "type": "tool_result",
                    "tool_use_id": result.call_id,
                    "content": [*_text(result.text), *map(_picture, result.shown)] if result.shown else result.text,
                    **({} if result.ok else {"is_error": True}),
                }
                for result in message.results
            ]
        case "assistant" if own := own_items(message.provider_items, _BLOCK_TYPES):
            return own
        case "assistant":
            uses: list[Block] = [
                {"type": "tool_use", "id": use.id, "name": use.tool, "input": use.arguments} for use in message.calls
            ]
            return [*_text(message.text), *uses] or _text("(nothing)")
        case "user":
            shared = [{**block, "cache_control": _CACHED} for block in _text(message.text[: message.shared])]
            return [*shared, *_text(message.text[message.shared :])] or _text("(nothing)")


def _picture(picture: Picture) -> Block:
    source = {"type": "base64", "media_type": picture.media_type, "data": picture.base64}
    return {"type": "image", "source": source}


def _text(text: str) -> list[Block]:
    """Build a text block; the provider does not accept empty ones."""
    return [{"type": "text", "text": text}] if text.strip() else []


_GROWING: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""The field of each kind of delta that contains the next piece of a block."""


class MessageFold:
    def __init__(self) -> None:
        self._message: dict[str, JsonValue] = {}
        self._usage: dict[str, JsonValue] = {}
        self._blocks: dict[int, dict[str, JsonValue]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._citations: dict[int, list[JsonValue]] = {}

    def take(self, event: Mapping[str, JsonValue]) -> bool:
        match event.get("type"):
            case "message_start":
                self._message = _mapping(event, "message")
                # At the start, the number of output tokens is not the final one.
                self._use(self._message.pop("usage", None), but="output_tokens")
            case "content_block_start":
                self._blocks[_index(event)] = _mapping(event, "content_block")
            case "content_block_delta":
                self._grow(_index(event), _mapping(event, "delta"))
            case "message_delta":
                # First, so that the cost is known even if the rest of the event is unusable.
                self._use(event.get("usage"))
                self._message |= _mapping(event, "delta")
            case "message_stop":
                return True
            case "error":
                error = event.get("error")
                code = str(within(error, "type") or "")
                text = str(within(error, "message") or "the stream broke off")
                raise ReportedError(
                    code, text, is_final=code not in _RETRYABLE_CODES, possibly_billed=bool(self._message)
                )
            case _:
                pass  # `ping`, and events added in the future
        return False

    def is_complete(self) -> bool:
        return False  # only `message_stop` ends a message

    @property
    def has_begun(self) -> bool:
        return bool(self._blocks)

    @property
    def body(self) -> JsonValue:
        for (index, field), pieces in self._pieces.items():
            block, written = self._blocks[index], "".join(pieces)
            if field == "partial_json":
                block["input"] = _input(written)
            else:
                block[field] = str(block.get(field) or "") + written
        for index, cited in self._citations.items():
            self._blocks[index]["citations"] = cited
        blocks: list[JsonValue] = [self._blocks[index] for index in sorted(self._blocks)]
        return {**self._message, "content": blocks, "usage": self._usage or None}

    @property
    def text(self) -> str:
        return "".join(piece for (_, field), pieces in self._pieces.items() if field == "text" for piece in pieces)

    def _grow(self, index: int, delta: Mapping[str, JsonValue]) -> None:
        if index not in self._blocks:
            raise UnreadableReply("it continues a block that never began")
        kind = str(delta.get("type"))
        if kind == "citations_delta":
            self._citations.setdefault(index, []).append(delta.get("citation"))
        elif field := _GROWING.get(kind):
            self._pieces.setdefault((index, field), []).append(str(delta.get(field) or ""))

    def _use(self, usage: JsonValue, but: str = "") -> None:
        """Record the usage so far: each number replaces the previous one."""
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None and name != but}


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
    """Parse a tool's arguments; unreadable ones stay text, which `tool_calls` reports."""
    if len(written) > LONGEST_ARGUMENTS:
        return written
    try:
        return from_json(written or "{}", allow_inf_nan=False)
    except ValueError:
        return written


class _Reply(BaseModel):
    content: list[dict[str, JsonValue]]
    stop_reason: str | None = None
    stop_details: JsonValue = None


_STOPS: Final[Mapping[str, Literal["truncated", "refused"]]] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    # Only the provider's own tools pause a turn, and none is offered, so the reply is incomplete.
    "pause_turn": "truncated",
    "refusal": "refused",
}
"""Stop reasons after which a reply must not be used, whatever it contains."""


def _returnable(content: Sequence[dict[str, JsonValue]], calls: Sequence[ToolCall]) -> tuple[JsonValue, ...]:
    """Keep the blocks unchanged, except for parts that the provider would refuse."""
    read = iter(calls)
    blocks: list[JsonValue] = []
    for block in content:
        match block.get("type"):
            case "tool_use":
                # Calls beyond the maximum have no result, but the provider requires one.
                if call := next(read, None):
                    arguments = {} if call.malformed else block.get("input")
                    blocks.append({**block, "id": call.id, "name": call.tool, "input": arguments})
            case "text" if not str(block.get("text", "")).strip():
                pass
            case _:
                blocks.append(block)
    return tuple(blocks)


class BatchStore(JobStore):
    """One call as a Message Batch with a single request: done within a day, usually within an hour."""

    def __init__(self, client: "anthropic.AsyncAnthropic", body: Mapping[str, Any], key: str) -> None:
        """Prepare a call; `key` identifies it across attempts."""
        self._client = client
        self._custom_id = hashlib.sha256(key.encode()).hexdigest()
        params = {name: value for name, value in body.items() if name not in _NOT_OF_BATCHES}
        super().__init__(client.messages.batches, requests=[{"custom_id": self._custom_id, "params": params}])

    async def result(self, identity: str) -> JsonValue:
        """Return the message once the batch has ended."""
        if within(await self.state(identity), "processing_status") != "ended":
            return None
        return await self._message(await self._results(identity))

    async def _results(self, identity: str) -> bytes:
        import httpx2  # a dependency of the SDK

        # Not from the URL in the batch, which could send the API key to another host.
        response = await self._client.get(
            f"/v1/messages/batches/{quote(identity, safe='')}/results",
            cast_to=httpx2.Response,
            options={"timeout": make_timeout(REQUEST_SECONDS)},
        )
        return response.content

    async def _message(self, lines: bytes) -> JsonValue:
        results = [await parse(line) for line in lines.split(b"\n") if line.strip()]
        ours = [within(result, "result") for result in results if within(result, "custom_id") == self._custom_id]
        if len(ours) != 1:
            raise UnreadableReply("the batch does not have this call's result")
        (result,) = ours
        kind = str(within(result, "type"))
        if kind == "succeeded":
            message: JsonValue = within(result, "message")
            if message is None:
                raise UnreadableReply("unexpected form of: message")
            return message
        # Any other result is free.
        code = str(within(result, "error", "error", "type") or kind)
        text = str(within(result, "error", "error", "message") or f"the batch ended as {kind}")
        raise ReportedError(code, text, is_final=kind != "expired" and code not in _RETRYABLE_CODES)
