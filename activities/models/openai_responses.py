"""OpenAI's models through the Responses API.

Each request carries its whole conversation. Only background responses are stored at the provider.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from pydantic import BaseModel, JsonValue

from activities.contracts.rounds import ToolCall
from activities.models.clients import COUNT_SECONDS, ProviderModel
from activities.models.failures import ReportedError, translating
from activities.models.prices import Tokens
from activities.models.protocol import Content, ModelCall
from activities.models.provider_jobs import JobStore, run_job
from activities.models.replies import arguments_text, own_items, read_content, shaped, token_count, within
from activities.models.schemas import strict
from activities.turn_kinds.protocol import Message, ToolText

if TYPE_CHECKING:
    import openai
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

PROVIDER: Final = "openai"
BASE_URL: Final = "https://api.openai.com/v1"

Item = dict[str, Any]
_ITEM_TYPES: Final = frozenset({"message", "function_call", "reasoning"})
_POLICY: Final = frozenset({"bio_policy", "misalignment_policy_violation", "image_content_policy_violation"})
"""Error codes of refusals."""
RETRYABLE_CODES: Final = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})
"""Retryable error codes of a failed response."""
_LAST_EVENTS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_UNFINISHED: Final = frozenset({"queued", "in_progress"})
POLL_SECONDS: Final = 1.0


@dataclass(kw_only=True, eq=False, repr=False)
class OpenAIResponsesModel(ProviderModel["openai.AsyncOpenAI"]):
    """OpenAI's models; with `background`, replies are stored so that the next attempt can fetch a lost worker's."""

    provider = PROVIDER
    least_cached_tokens: ClassVar[int] = 1_024
    background: bool = False
    poll_seconds: float = POLL_SECONDS

    def _make_client(self) -> "openai.AsyncOpenAI":
        import openai  # takes two seconds, so only workers with this key import it

        url = self.base_url or BASE_URL
        network = self._limit(openai.DefaultAsyncHttpxClient)
        return openai.AsyncOpenAI(api_key=self.api_key, base_url=url, max_retries=0, http_client=network)

    async def _send(self, client: "openai.AsyncOpenAI", call: ModelCall) -> JsonValue:
        if self.background and call.job:
            store = BackgroundStore(client, request_body(call), call.headers)
            return await run_job(call.job, store, poll_seconds=self.poll_seconds, whole_seconds=call.timeout_seconds)
        return await self._stream(client, "/responses", request_body(call), call, ResponseFold())

    async def count_input(self, call: ModelCall) -> int:
        with translating(self.provider, (self.api_key,)):
            client = await self.warm_up()
            whole = request_body(self._with_possible_settings(call))
            body: dict[str, Any] = {name: part for name, part in whole.items() if name in _COUNTED}
            return (await client.responses.input_tokens.count(**body, timeout=COUNT_SECONDS)).input_tokens

    def _read(self, call: ModelCall, body: JsonValue) -> Content:
        reply = shaped(body, _Reply)
        text, refusal = _texts(reply.output)
        stop = _stop(reply, refusal)
        if reply.status != "completed" and stop is None:
            code = str(within(reply.error, "code") or "")
            raise ReportedError(
                code,
                str(within(reply.error, "message") or f"the response is {reply.status}"),
                is_final=reply.status == "failed" and code not in RETRYABLE_CODES,
                # Output from before the cancellation may be charged.
                possibly_billed=reply.status == "cancelled",
            )
        items = [item for item in reply.output if item.get("type") == "function_call"]
        uses = [(item.get("call_id"), item.get("name"), item.get("arguments")) for item in items]
        return read_content(stop, refusal or text, uses, call.offered_tools, partial(_returnable, reply.output))

    def _tokens(self, usage: JsonValue) -> Tokens | None:
        """Read the usage; here `input_tokens` includes everything."""
        whole = token_count(usage, "input_tokens")
        cached = token_count(usage, "input_tokens_details", "cached_tokens", absent=0)
        written = token_count(usage, "input_tokens_details", "cache_write_tokens", absent=0)
        output = token_count(usage, "output_tokens")
        if whole is None or cached is None or written is None or output is None or cached + written > whole:
            return None
        return Tokens(input=whole, cached=cached, cache_written=written, output=output)


_COUNTED: Final = frozenset({"model", "instructions", "input", "tools", "tool_choice", "text", "reasoning"})
"""The parts of a request that determine its input tokens."""


def request_body(call: ModelCall) -> "ResponseCreateParamsStreaming":
    """Build the request, starting with the parts that stay the same from turn to turn."""
    body: dict[str, Any] = {
        "model": call.model,
        "instructions": call.system,
        "input": [item for message in call.messages for item in _items(message)],
        "max_output_tokens": call.max_output_tokens,
        "text": {
            "format": {
                "type": "json_schema",
                "name": call.answer_type.__name__,
                "schema": {part: each for part, each in call.answer_schema.items() if part != "title"},
                "strict": True,
            }
        },
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": call.cache_key,
        # The reservation does not cover the prices of other tiers.
        "service_tier": "default",
        "stream": True,
    }
    if call.effort is not None:
        body["reasoning"] = {"effort": call.effort}
    elif call.temperature is not None:
        body["temperature"] = call.temperature
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
        # Also when the model must answer, as its prompt then says: another choice could lose the prompt cache.
        body["tool_choice"] = "auto"
        body["parallel_tool_calls"] = True
    return cast("ResponseCreateParamsStreaming", body)


def _output(result: ToolText) -> str | list[Item]:
    if not result.shown:
        return result.text if result.ok else f"The tool failed.\n{result.text}"
    pictures: list[Item] = [{"type": "input_image", "image_url": each.data_url} for each in result.shown]
    return [{"type": "input_text", "text": result.text}, *pictures]


def _items(message: Message) -> list[Item]:
    match message.role:
        case "tools":
            return [
                {"type": "function_call_output", "call_id": result.call_id, "output": _output(result)}
                for result in message.results
            ]
        case "assistant" if own := own_items(message.provider_items, _ITEM_TYPES):
            return own
        case "assistant":
            text_items: list[Item] = [{"role": "assistant", "content": message.text}] if message.text.strip() else []
            return text_items + [
                {"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": arguments_text(call)}
                for call in message.calls
            ]
        case "user":
            return [{"role": "user", "content": message.text}]


class ResponseFold:
    """Waits for the event with the complete response."""

    def __init__(self) -> None:
        self.has_begun = False
        self._pieces: list[str] = []
        self.body: JsonValue = None

    def take(self, event: Mapping[str, JsonValue]) -> bool:
        kind = str(event.get("type"))
        if kind == "error":
            reported = event["error"] if isinstance(event.get("error"), dict) else dict(event)
            code = str(within(reported, "code") or "")
            text = str(within(reported, "message") or "the stream broke off")
            is_final = bool(code) and code not in RETRYABLE_CODES
            raise ReportedError(code, text, is_final=is_final, possibly_billed=self.has_begun)
        self.has_begun = self.has_begun or kind == "response.output_item.added"
        if kind == "response.output_text.delta":
            self._pieces.append(str(event.get("delta") or ""))
        if kind not in _LAST_EVENTS:
            return False
        self.body = event.get("response")
        return True

    def is_complete(self) -> bool:
        return False  # only the last event completes a response

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class BackgroundStore(JobStore):
    """One call as a background response, which another worker can fetch."""

    def __init__(self, client: "openai.AsyncOpenAI", body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        # Only stored responses can be fetched.
        own = {**body, "stream": False, "background": True, "store": True}
        super().__init__(client.responses, **own, extra_headers=headers)

    async def result(self, identity: str) -> JsonValue:
        body = await self.state(identity, include=["reasoning.encrypted_content"])
        return None if str(within(body, "status")) in _UNFINISHED else body


class _Reply(BaseModel):
    status: str = "completed"
    output: list[dict[str, JsonValue]]
    incomplete_details: JsonValue = None
    error: JsonValue = None


def _stop(reply: _Reply, refusal: str) -> Literal["refused", "truncated"] | None:
    if refusal or str(within(reply.error, "code")) in _POLICY:
        return "refused"
    if reply.status == "incomplete":
        return "refused" if within(reply.incomplete_details, "reason") == "content_filter" else "truncated"
    return None


def _texts(output: Sequence[Mapping[str, JsonValue]]) -> tuple[str, str]:
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


def _is_message(item: Mapping[str, JsonValue]) -> bool:
    """Whether a message has the documented format, without which the provider does not accept it back."""
    parts = item.get("content")
    return (
        isinstance(item.get("role"), str)
        and isinstance(parts, list)
        and all(isinstance(within(part, "text") or within(part, "refusal"), str) for part in parts)
    )


def _returnable(output: Sequence[dict[str, JsonValue]], calls: Sequence[ToolCall]) -> tuple[JsonValue, ...]:
    """Keep the items unchanged, except for parts that the provider would refuse."""
    # Unencrypted reasoning refers to a stored item, and nothing is stored; items with ids need their reasoning.
    is_unsealed = any(item.get("type") == "reasoning" and not item.get("encrypted_content") for item in output)
    read = iter(calls)
    output_items: list[JsonValue] = []
    for whole in output:
        item = {name: value for name, value in whole.items() if not (is_unsealed and name == "id")}
        match item.get("type"):
            case "function_call":
                # Calls beyond the maximum have no result, but the provider requires one.
                if call := next(read, None):
                    arguments = "{}" if call.malformed else item.get("arguments")
                    output_items.append({**item, "call_id": call.id, "name": call.tool, "arguments": arguments})
            case "reasoning" if is_unsealed:
                pass
            case "message" if not _is_message(item):
                pass
            case _:
                output_items.append(item)
    return tuple(output_items)
