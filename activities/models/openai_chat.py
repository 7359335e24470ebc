"""Models of any OpenAI-compatible server, by Chat Completions: one's own llama.cpp, Ollama or vLLM, and many clouds.

Such servers obey to different degrees. Answer shapes are asked for in words as well; when tools are offered only in
words, because many servers then take no grammar, or never call a tool under one. Whoever then answers in another shape
is asked again without tools.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pydantic import BaseModel, JsonValue

from activities.contracts import ToolCall
from activities.models.failures import translating
from activities.models.http_clients import LazyClient, make_openai, make_timeout
from activities.models.openai_streams import ChatFold
from activities.models.prices import Overrides, Tokens, usage_of
from activities.models.protocol import ModelCall, ModelReply
from activities.models.reply_parsing import shaped, token_count, within
from activities.models.request_options import arguments_text, headers, may_use_tools, offered_tools
from activities.models.schemas import answer_schema, strict
from activities.models.streaming import SLOW_TO_BEGIN, Patience, receive
from activities.models.tool_arguments import tool_call
from activities.turn_kinds.protocol import Message
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkTask

if TYPE_CHECKING:
    import httpx2
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

PROVIDER: Final = "openai-compatible"

Entry = dict[str, Any]
_NOT_TAKEN_BACK: Final = frozenset({"annotations", "audio", "function_call", "refusal"})
"""Fields of a reply that servers write and do not read."""


class OpenAIChatModel:
    """An OpenAI-compatible server's models behind `Model`."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str = "",
        provider: str = PROVIDER,
        prices: Overrides | None = None,
        enforce_schema: bool = True,
        patience: Patience = SLOW_TO_BEGIN,
        most_tokens: int | None = None,
        http_client: "httpx2.AsyncClient | None" = None,
    ) -> None:
        """Set the server up.

        Args:
            base_url: with `/v1`, as the server's own documentation gives it.
            api_key: empty for servers that want none.
            provider: the name that reports and prices know it by.
            prices: by model; one's own server costs 0. Without an entry the calls have no known cost.
            enforce_schema: whether the server takes `response_format` with a JSON Schema.
            patience: how long the server may be silent; one that does not stream is silent all the while.
            most_tokens: of an answer, where a call would allow more.
            http_client: instead of the SDK's own.
        """
        self._secrets = (api_key,)
        self._provider = provider
        self._prices = prices
        self._enforce_schema = enforce_schema
        self._patience = patience
        self._most_tokens = most_tokens
        # The SDK insists on a key.
        self._client = LazyClient(lambda: make_openai(api_key or "none", base_url, http_client))

    async def complete(self, call: ModelCall) -> ModelReply:
        """Take one turn. Cancelling it closes the connection."""
        with translating(self._provider, self._secrets):
            client = await self._client.get()
            body = request_body(call, enforce_schema=self._enforce_schema, most_tokens=self._most_tokens)
            asking = client.chat.completions.with_streaming_response.create(
                **body,
                extra_headers=headers(call),
                timeout=make_timeout(call.timeout_seconds),
            )
            answered = await receive(
                asking,
                ChatFold(self._provider, self._secrets),
                patience=self._patience,
                whole_seconds=call.timeout_seconds,
            )
            reply = shaped(answered, _Reply)
        return self._normalised(call, reply)

    async def warm_up(self) -> None:
        """Import the SDK now rather than at the first call."""
        await self._client.get()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _normalised(self, call: ModelCall, reply: "_Reply") -> ModelReply:
        choice = reply.choices[0] if reply.choices else _Choice(message={})
        message = choice.message
        refusal = str(message.get("refusal") or "")
        text = _plain(str(message.get("content") or ""))
        stop = _stop(choice.finish_reason, refusal)
        calls = _calls(message, offered_tools(call)) if stop is None else ()
        model = reply.model or call.model
        return ModelReply(
            stop=stop or ("tools" if calls else "answer" if text else "empty"),
            text=refusal or text,
            tool_calls=calls,
            provider_items=(_returnable(message, calls),) if calls else (),
            model=model,
            provider=self._provider,
            usage=usage_of(self._provider, call.model, model, _tokens(reply.usage), self._prices),
        )


def request_body(
    call: ModelCall, *, enforce_schema: bool = True, most_tokens: int | None = None
) -> "CompletionCreateParamsStreaming":
    """Write the request; what stays the same from turn to turn comes first."""
    schema = answer_schema(call.answer_type, call.agent_names)
    system = f"{call.system}\n\nThe final answer is nothing but JSON of this schema:\n{json.dumps(schema)}"
    body: dict[str, Any] = {
        "model": call.model,
        "messages": [
            {"role": "system", "content": system},
            *(e for message in call.messages for e in _entries(message)),
        ],
        "max_tokens": min(call.max_output_tokens, most_tokens or call.max_output_tokens),
        "stream": True,
        # Without this word a stream says nothing of what it used.
        "stream_options": {"include_usage": True},
    }
    if may_use_tools(call) and not _is_corrected(call.task):
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": strict(tool.parameters),
                },
            }
            for tool in call.tools
        ]
    elif enforce_schema:
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
            ]
        case "assistant" if len(message.provider_items) == 1 and within(message.provider_items[0], "role"):
            return [dict(cast("Mapping[str, Any]", message.provider_items[0]))]
        case "assistant":
            told = [
                {
                    "id": told.id,
                    "type": "function",
                    "function": {"name": told.tool, "arguments": arguments_text(told)},
                }
                for told in message.calls
            ]
            return [{"role": "assistant", "content": message.text, **({"tool_calls": told} if told else {})}]
        case "user":
            return [{"role": "user", "content": message.text}]


class _Choice(BaseModel):
    message: dict[str, JsonValue]
    finish_reason: str | None = None


def _is_corrected(task: Task) -> bool:
    """Whether the last reply could not be used: a reply is held to the schema only where no tool is offered."""
    return isinstance(task, WorkTask) and bool(task.rounds) and bool(task.rounds[-1].correction)


class _Reply(BaseModel):
    """What is needed of a completion."""

    model: str | None = None
    choices: list[_Choice]
    usage: JsonValue = None


def _stop(finish_reason: str | None, refusal: str) -> Literal["refused", "truncated"] | None:
    """Find the stops at which a reply is not to be used, whatever it contains."""
    if refusal or finish_reason == "content_filter":
        return "refused"
    return "truncated" if finish_reason == "length" else None


def _calls(message: Mapping[str, JsonValue], offered: frozenset[str]) -> tuple[ToolCall, ...]:
    asked = message.get("tool_calls")
    if not isinstance(asked, list):
        return ()
    identities = _identities(asked)
    return tuple(
        tool_call(
            position,
            identities[position],
            str(within(one, "function", "name") or ""),
            within(one, "function", "arguments"),
            offered,
        )
        for position, one in enumerate(asked)
    )


def _identities(asked: Sequence[JsonValue]) -> list[str]:
    """Give every call an id of its own; some servers give none, or the same to all."""
    given = [within(one, "id") for one in asked]
    if all(isinstance(one, str) and one for one in given) and len(set(given)) == len(given):
        return given
    return [f"call_{position}" for position in range(1, len(asked) + 1)]


def _returnable(message: Mapping[str, JsonValue], calls: Sequence[ToolCall]) -> JsonValue:
    """Keep the message as it is, but for what the server would not take back."""
    kept = {name: value for name, value in message.items() if value is not None and name not in _NOT_TAKEN_BACK}
    asked = cast("list[JsonValue]", message["tool_calls"])
    told: list[JsonValue] = [_returnable_call(one, call) for one, call in zip(asked, calls, strict=True)]
    return {**kept, "role": "assistant", "tool_calls": told}


def _returnable_call(asked: JsonValue, call: ToolCall) -> JsonValue:
    rest = asked if isinstance(asked, dict) else {}
    arguments = within(asked, "function", "arguments")
    if call.malformed or not isinstance(arguments, str):
        arguments = arguments_text(call)
    return {**rest, "id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _plain(text: str) -> str:
    """Take the answer out of what small models wrap around it: their thoughts before it, a code fence about it."""
    text = re.sub(r"\A\s*<think>.*?</think>", "", text, flags=re.DOTALL).strip()
    fenced = re.fullmatch(r"```(?:json)?\s*\n(.*)\n```", text, flags=re.DOTALL)
    return fenced[1].strip() if fenced else text


def _tokens(usage: JsonValue) -> Tokens | None:
    """Read the usage; here `prompt_tokens` holds everything."""
    whole = token_count(usage, "prompt_tokens")
    cached = token_count(usage, "prompt_tokens_details", "cached_tokens", absent=0)
    output = token_count(usage, "completion_tokens")
    if whole is None or cached is None or output is None or cached > whole:
        return None
    return Tokens(input=whole, cached=cached, cache_written=0, output=output)
