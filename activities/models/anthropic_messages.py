"""Anthropic's models, by the Messages API."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pydantic import BaseModel, JsonValue

from activities.contracts import ToolCall
from activities.models.anthropic_batch import POLL_SECONDS, PRICE_SHARE, BatchStore
from activities.models.anthropic_stream import MessageFold
from activities.models.failures import translating
from activities.models.http_clients import LazyClient, make_anthropic, make_timeout
from activities.models.prices import Overrides, Tokens, usage_of
from activities.models.protocol import ModelCall, ModelReply
from activities.models.provider_jobs import carry_out
from activities.models.reply_parsing import shaped, token_count, within
from activities.models.request_options import headers, may_use_tools, offered_tools
from activities.models.schemas import answer_schema, strict
from activities.models.streaming import STEADY, Patience, receive
from activities.models.tool_arguments import tool_call
from activities.turn_kinds.protocol import Message

if TYPE_CHECKING:
    import anthropic
    import httpx2
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

PROVIDER: Final = "anthropic"
BASE_URL: Final = "https://api.anthropic.com"

Block = dict[str, Any]
_CACHED: Final[Block] = {"type": "ephemeral"}
"""The cheapest cache: five minutes, written at 1.25 times the price of plain input."""
_BLOCK_TYPES: Final = frozenset({"text", "tool_use", "thinking", "redacted_thinking"})


class AnthropicModel:
    """Anthropic's models behind `Model`."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = BASE_URL,
        prices: Overrides | None = None,
        patience: Patience = STEADY,
        batch_poll_seconds: float = POLL_SECONDS,
        http_client: "httpx2.AsyncClient | None" = None,
    ) -> None:
        self._secrets = (api_key,)
        self._prices = prices
        self._patience = patience
        self._poll_seconds = batch_poll_seconds
        self._client = LazyClient(lambda: make_anthropic(api_key, base_url, http_client))

    async def complete(self, call: ModelCall) -> ModelReply:
        """Take one turn: as a batch if it is not urgent. Cancelling it closes the connection, or cancels the batch."""
        as_batch = call.urgency == "batch" and call.job is not None
        with translating(PROVIDER, self._secrets):
            client = await self._client.get()
            body = await (self._later(client, call) if as_batch else self._now(client, call))
            reply = shaped(body, _Reply)
        return _normalised(call, reply, self._prices, PRICE_SHARE if as_batch else Decimal(1))

    async def _now(self, client: "anthropic.AsyncAnthropic", call: ModelCall) -> JsonValue:
        asking = client.messages.with_streaming_response.create(
            **request_body(call), extra_headers=headers(call), timeout=make_timeout(call.timeout_seconds)
        )
        fold = MessageFold(PROVIDER, self._secrets)
        return await receive(asking, fold, patience=self._patience, whole_seconds=call.timeout_seconds)

    async def _later(self, client: "anthropic.AsyncAnthropic", call: ModelCall) -> JsonValue:
        assert call.job is not None
        harness = BatchStore(client, request_body(call), call.idempotency_key, PROVIDER, self._secrets)
        return await carry_out(call.job, harness, poll_seconds=self._poll_seconds, whole_seconds=None)

    async def warm_up(self) -> None:
        """Import the SDK now rather than at the first call."""
        await self._client.get()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def request_body(call: ModelCall) -> "MessageCreateParamsStreaming":
    """Write the request; what stays the same from turn to turn comes first."""
    schema = answer_schema(call.answer_type, call.agent_names)
    body: dict[str, Any] = {
        "model": call.model,
        "max_tokens": call.max_output_tokens,
        "system": [{"type": "text", "text": call.system, "cache_control": _CACHED}],
        "messages": _messages(call),
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
        # Priority capacity has prices of its own, which no reserve was made for.
        "service_tier": "standard_only",
        "stream": True,
    }
    if tools := _tools(call):
        body["tools"] = tools
        body["tool_choice"] = {"type": "auto" if may_use_tools(call) else "none"}
    return cast("MessageCreateParamsStreaming", body)


def _tools(call: ModelCall) -> list[Block]:
    listed: list[Block] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": strict(tool.parameters),
            "strict": True,
        }
        for tool in call.tools
    ]
    # A conversation that tells of tools needs them listed, even when none may be used any more.
    told_of = {told.tool for message in call.messages for told in message.calls} - {tool.name for tool in call.tools}
    return listed + [
        {"name": name, "description": "Not available.", "input_schema": strict({"type": "object"}), "strict": True}
        for name in sorted(told_of)
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
    if may_use_tools(call) and written:
        # Another round is likely, and it begins with all of this.
        last = written[-1]["content"]
        last[-1] = {**last[-1], "cache_control": _CACHED}
    return written


def _blocks(message: Message) -> list[Block]:
    match message.role:
        case "tools":
            return [
                {
                    "type": "tool_result",
                    "tool_use_id": result.call_id,
                    "content": result.text,
                    **({} if result.ok else {"is_error": True}),
                }
                for result in message.results
            ]
        case "assistant" if _is_ours(message.provider_items):
            return [dict(cast("Mapping[str, Any]", item)) for item in message.provider_items]
        case "assistant":
            uses: list[Block] = [
                {"type": "tool_use", "id": told.id, "name": told.tool, "input": told.arguments}
                for told in message.calls
            ]
            return [*_text(message.text), *uses] or _text("(nothing)")
        case "user":
            return _text(message.text or "(nothing)")


def _text(text: str) -> list[Block]:
    """Write a text block; the provider takes no empty ones."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _is_ours(items: Sequence[JsonValue]) -> bool:
    """Tell whether this provider wrote the items; another's are told in our own words instead."""
    return bool(items) and all(within(item, "type") in _BLOCK_TYPES for item in items)


class _Reply(BaseModel):
    """What is needed of a message."""

    model: str
    content: list[dict[str, JsonValue]]
    stop_reason: str | None = None
    stop_details: JsonValue = None
    usage: JsonValue = None


Stop = Literal["answer", "tools", "truncated", "refused", "empty"]

_STOPS: Final[Mapping[str, Stop]] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    # Only tools of the provider's own pause a turn, and none is offered: it is a reply without its end.
    "pause_turn": "truncated",
    "refusal": "refused",
}
"""The stops at which a reply is not to be used, whatever it contains."""


def _normalised(call: ModelCall, reply: _Reply, prices: Overrides | None, share: Decimal) -> ModelReply:
    text = "".join(str(block.get("text", "")) for block in reply.content if block.get("type") == "text")
    stop = _STOPS.get(reply.stop_reason or "")
    uses = [block for block in reply.content if block.get("type") == "tool_use"] if stop is None else []
    offered = offered_tools(call)
    calls = tuple(
        tool_call(position, str(use.get("id", "")), str(use.get("name", "")), use.get("input"), offered)
        for position, use in enumerate(uses)
    )
    if stop == "refused":
        text = str(within(reply.stop_details, "explanation") or text)
    elif stop is None:
        stop = "tools" if calls else "answer" if text.strip() else "empty"
    return ModelReply(
        stop=stop,
        text=text,
        tool_calls=calls,
        provider_items=_returnable(reply.content, calls) if calls else (),
        model=reply.model,
        provider=PROVIDER,
        usage=usage_of(PROVIDER, call.model, reply.model, _tokens(reply.usage), prices, share=share),
    )


def _returnable(content: Sequence[dict[str, JsonValue]], calls: Sequence[ToolCall]) -> tuple[JsonValue, ...]:
    """Keep the blocks as they are, but for what the provider would not take back."""
    read = iter(calls)
    kept: list[JsonValue] = []
    for block in content:
        match block.get("type"):
            case "tool_use":
                call = next(read)
                kept.append({**block, "name": call.tool, "input": {}} if call.malformed else block)
            case "text" if not str(block.get("text", "")).strip():
                pass
            case _:
                kept.append(block)
    return tuple(kept)


def _tokens(usage: JsonValue) -> Tokens | None:
    """Read the usage; here `input_tokens` leaves out what a cache was involved in."""
    plain = token_count(usage, "input_tokens")
    cached = token_count(usage, "cache_read_input_tokens", absent=0)
    written = token_count(usage, "cache_creation_input_tokens", absent=0)
    output = token_count(usage, "output_tokens")
    if plain is None or cached is None or written is None or output is None:
        return None
    return Tokens(input=plain + cached + written, cached=cached, cache_written=written, output=output)
