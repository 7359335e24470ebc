"""OpenAI's models, by the Responses API.

Each request brings its whole conversation. Nothing is kept there but what is made in the background.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pydantic import BaseModel, JsonValue

from activities.contracts import ToolCall
from activities.models.failures import reported_failure, translating
from activities.models.http_clients import LazyClient, make_openai, make_timeout
from activities.models.openai_background import POLL_SECONDS, BackgroundStore
from activities.models.openai_streams import PASSING, ResponseFold
from activities.models.prices import Overrides, Tokens, usage_of
from activities.models.protocol import ModelCall, ModelReply
from activities.models.provider_jobs import carry_out
from activities.models.reply_parsing import shaped, token_count, within
from activities.models.request_options import arguments_text, cache_key, headers, may_use_tools, offered_tools
from activities.models.schemas import answer_schema, strict
from activities.models.streaming import STEADY, Patience, receive
from activities.models.tool_arguments import tool_call
from activities.turn_kinds.protocol import Message

if TYPE_CHECKING:
    import httpx2
    import openai
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

PROVIDER: Final = "openai"
BASE_URL: Final = "https://api.openai.com/v1"

Item = dict[str, Any]
_ITEM_TYPES: Final = frozenset({"message", "function_call", "reasoning"})
_POLICY: Final = frozenset({"bio_policy", "misalignment_policy_violation", "image_content_policy_violation"})
"""Error codes that are refusals."""


class OpenAIResponsesModel:
    """OpenAI's models behind `Model`."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = BASE_URL,
        prices: Overrides | None = None,
        patience: Patience = STEADY,
        background: bool = False,
        background_poll_seconds: float = POLL_SECONDS,
        http_client: "httpx2.AsyncClient | None" = None,
    ) -> None:
        """Set the account up.

        Args:
            api_key: the account's.
            base_url: with `/v1`.
            prices: by model, before those that are known.
            patience: how long the provider may be silent.
            background: have responses made and kept at the provider, so that one whose worker was lost is fetched by
                the next instead of being paid again.
            background_poll_seconds: between two looks at such a response.
            http_client: instead of the SDK's own.
        """
        self._secrets = (api_key,)
        self._prices = prices
        self._patience = patience
        self._background = background
        self._poll_seconds = background_poll_seconds
        self._client = LazyClient(lambda: make_openai(api_key, base_url, http_client))

    async def complete(self, call: ModelCall) -> ModelReply:
        """Take one turn. Cancelling it closes the connection, or cancels what is made in the background."""
        with translating(PROVIDER, self._secrets):
            client = await self._client.get()
            in_background = self._background and call.job is not None
            body = await (self._in_background(client, call) if in_background else self._now(client, call))
            reply = shaped(body, _Reply)
        return self._normalised(call, reply)

    async def _now(self, client: "openai.AsyncOpenAI", call: ModelCall) -> JsonValue:
        asking = client.responses.with_streaming_response.create(
            **request_body(call), extra_headers=headers(call), timeout=make_timeout(call.timeout_seconds)
        )
        fold = ResponseFold(PROVIDER, self._secrets)
        return await receive(asking, fold, patience=self._patience, whole_seconds=call.timeout_seconds)

    async def _in_background(self, client: "openai.AsyncOpenAI", call: ModelCall) -> JsonValue:
        assert call.job is not None
        harness = BackgroundStore(client, request_body(call), headers(call))
        return await carry_out(call.job, harness, poll_seconds=self._poll_seconds, whole_seconds=call.timeout_seconds)

    async def warm_up(self) -> None:
        """Import the SDK now rather than at the first call."""
        await self._client.get()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _normalised(self, call: ModelCall, reply: "_Reply") -> ModelReply:
        text, refusal = _said(reply.output)
        stop = _stop(reply, refusal)
        code = str(within(reply.error, "code") or "")
        if reply.status != "completed" and stop is None:
            told = str(within(reply.error, "message") or f"the response is {reply.status}")
            passing = reply.status != "failed" or code in PASSING
            # What was made before it was cancelled may be charged.
            possibly_billed = reply.status == "cancelled"
            raise reported_failure(
                PROVIDER, code, told, passing=passing, possibly_billed=possibly_billed, secrets=self._secrets
            )
        offered = offered_tools(call)
        asked = [item for item in reply.output if item.get("type") == "function_call"] if stop is None else []
        calls = tuple(
            tool_call(position, str(item.get("call_id", "")), str(item.get("name", "")), item.get("arguments"), offered)
            for position, item in enumerate(asked)
        )
        return ModelReply(
            stop=stop or ("tools" if calls else "answer" if text.strip() else "empty"),
            text=refusal or text,
            tool_calls=calls,
            provider_items=_returnable(reply.output, calls) if calls else (),
            model=reply.model,
            provider=PROVIDER,
            usage=usage_of(PROVIDER, call.model, reply.model, _tokens(reply.usage), self._prices),
        )


def request_body(call: ModelCall) -> "ResponseCreateParamsStreaming":
    """Write the request; what stays the same from turn to turn comes first."""
    body: dict[str, Any] = {
        "model": call.model,
        "instructions": call.system,
        "input": [item for message in call.messages for item in _items(message)],
        "max_output_tokens": call.max_output_tokens,
        "text": {
            "format": {
                "type": "json_schema",
                "name": call.answer_type.__name__,
                "schema": answer_schema(call.answer_type, call.agent_names),
                "strict": True,
            }
        },
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": cache_key(call),
        # The other tiers have prices of their own, which no reserve was made for.
        "service_tier": "default",
        "stream": True,
    }
    if call.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": strict(tool.parameters),
                "strict": True,
            }
            for tool in call.tools
        ]
        body["tool_choice"] = "auto" if may_use_tools(call) else "none"
        body["parallel_tool_calls"] = True
    return cast("ResponseCreateParamsStreaming", body)


def _items(message: Message) -> list[Item]:
    match message.role:
        case "tools":
            return [
                {
                    "type": "function_call_output",
                    "call_id": result.call_id,
                    "output": result.text if result.ok else f"The tool failed.\n{result.text}",
                }
                for result in message.results
            ]
        case "assistant" if _is_ours(message.provider_items):
            return [dict(cast("Mapping[str, Any]", item)) for item in message.provider_items]
        case "assistant":
            said: list[Item] = [{"role": "assistant", "content": message.text}] if message.text.strip() else []
            return said + [
                {
                    "type": "function_call",
                    "call_id": told.id,
                    "name": told.tool,
                    "arguments": arguments_text(told),
                }
                for told in message.calls
            ]
        case "user":
            return [{"role": "user", "content": message.text}]


def _is_ours(items: Sequence[JsonValue]) -> bool:
    """Tell whether this provider wrote the items; another's are told in our own words instead."""
    return bool(items) and all(within(item, "type") in _ITEM_TYPES for item in items)


class _Reply(BaseModel):
    """What is needed of a response."""

    model: str
    status: str = "completed"
    output: list[dict[str, JsonValue]]
    incomplete_details: JsonValue = None
    error: JsonValue = None
    usage: JsonValue = None


def _stop(reply: _Reply, refusal: str) -> Literal["refused", "truncated"] | None:
    """Find the stops at which a reply is not to be used, whatever it contains."""
    if refusal or within(reply.error, "code") in _POLICY:
        return "refused"
    if reply.status == "incomplete":
        return "refused" if within(reply.incomplete_details, "reason") == "content_filter" else "truncated"
    return None


def _said(output: Sequence[Mapping[str, JsonValue]]) -> tuple[str, str]:
    """Join what the model said, and with what words it refused."""
    texts: list[str] = []
    refusals: list[str] = []
    for item in output:
        content = item.get("content")
        if item.get("type") != "message" or not isinstance(content, list):
            continue
        for part in content:
            if within(part, "type") == "output_text":
                texts.append(str(within(part, "text") or ""))
            elif within(part, "type") == "refusal":
                refusals.append(str(within(part, "refusal") or "refused"))
    return "".join(texts), "".join(refusals)


def _returnable(output: Sequence[dict[str, JsonValue]], calls: Sequence[ToolCall]) -> tuple[JsonValue, ...]:
    """Keep the items as they are, but for what the provider would not take back."""
    # Reasoning that is not sealed stands for something stored at the provider, where nothing is stored; and items that
    # name themselves must come with their reasoning.
    unsealed = any(item.get("type") == "reasoning" and not item.get("encrypted_content") for item in output)
    read = iter(calls)
    kept: list[JsonValue] = []
    for whole in output:
        item = {name: value for name, value in whole.items() if not (unsealed and name == "id")}
        match item.get("type"):
            case "function_call":
                call = next(read)
                kept.append({**item, "name": call.tool, "arguments": "{}"} if call.malformed else item)
            case "reasoning" if unsealed:
                pass
            case _:
                kept.append(item)
    return tuple(kept)


def _tokens(usage: JsonValue) -> Tokens | None:
    """Read the usage; here `input_tokens` holds everything."""
    whole = token_count(usage, "input_tokens")
    cached = token_count(usage, "input_tokens_details", "cached_tokens", absent=0)
    written = token_count(usage, "input_tokens_details", "cache_write_tokens", absent=0)
    output = token_count(usage, "output_tokens")
    if whole is None or cached is None or written is None or output is None or cached + written > whole:
        return None
    return Tokens(input=whole, cached=cached, cache_written=written, output=output)
