"""An adapter for Pydantic AI's models: single requests, without its agents, retries or tool execution."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue
from pydantic_core import to_json

from activities.backends import SettingsError
from activities.models.clients import ProviderModel
from activities.models.prices import Tokens
from activities.models.protocol import Content, ModelCall
from activities.models.registry import ModelSettings
from activities.models.replies import arguments_text, read_content, token_count, within
from activities.turn_kinds.protocol import Message

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings as RequestSettings

_STOPS: Final[Mapping[str, Any]] = {"length": "truncated", "content_filter": "refused"}
_KEYS: Final = ("_API_KEY", "_TOKEN", "_SECRET_ACCESS_KEY")
"""Suffixes of variables from which providers read secrets."""


class Clients:
    def __init__(self) -> None:
        self._by_name: dict[str, Model] = {}
        self._closing = AsyncExitStack()

    async def model(self, name: str) -> "Model":
        if name not in self._by_name:
            self._by_name[name] = await self._closing.enter_async_context(_infer(name))
        return self._by_name[name]

    async def close(self) -> None:
        self._by_name.clear()
        await self._closing.aclose()


def _infer(name: str) -> "Model":
    from pydantic_ai.models import infer_model

    model = infer_model(name)
    client: Any = getattr(model, "client", None)
    if hasattr(client, "max_retries"):
        client.max_retries = 0  # Temporal retries, and each attempt is charged
    return model


@dataclass(kw_only=True, eq=False, repr=False)
class PydanticAIModel(ProviderModel[Any]):
    provider = "pydantic_ai"

    @property
    def _secrets(self) -> Sequence[str]:
        return [value for name, value in os.environ.items() if name.endswith(_KEYS)]

    def _make_client(self) -> Clients:
        return Clients()

    async def connect(self) -> None:
        """Do not connect before the first call, since each model has its own provider."""
        await self.warm_up()

    async def _send(self, client: Clients, call: ModelCall) -> JsonValue:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        model = await client.model(call.model)
        states_schema = call.may_use_tools or not model.profile.get("supports_json_schema_output", False)
        async with asyncio.timeout(call.timeout_seconds):
            reply = await model.request(
                _messages(call, states_schema=states_schema), _settings(call), _parameters(call, states_schema)
            )
        if call.on_first_token is not None:
            call.on_first_token()
        (body,) = cast("list[JsonValue]", ModelMessagesTypeAdapter.dump_python([reply], mode="json"))
        return {"model": reply.model_name, "usage": within(body, "usage"), "reply": body}

    def _read(self, call: ModelCall, body: JsonValue) -> Content:
        reply = within(body, "reply")
        parts = cast("list[JsonValue]", within(reply, "parts") or [])
        texts = [str(within(part, "content")) for part in parts if within(part, "part_kind") == "text"]
        uses = [
            (within(part, "tool_call_id"), within(part, "tool_name"), within(part, "args"))
            for part in parts
            if within(part, "part_kind") == "tool-call"
        ]
        stop = _STOPS.get(str(within(reply, "finish_reason")))
        return read_content(stop, "".join(texts), uses, call.offered_tools, lambda _: (reply,))

    def _tokens(self, usage: JsonValue) -> Tokens | None:
        whole, output = token_count(usage, "input_tokens"), token_count(usage, "output_tokens")
        cached = token_count(usage, "cache_read_tokens", absent=0)
        written = token_count(usage, "cache_write_tokens", absent=0)
        if whole is None or output is None or cached is None or written is None:
            return None
        return Tokens(input=max(whole, cached + written), cached=cached, cache_written=written, output=output)


def _settings(call: ModelCall) -> "RequestSettings":
    settings: RequestSettings = {
        "max_tokens": call.max_output_tokens,
        "timeout": call.timeout_seconds,
        "extra_headers": call.headers,
    }
    if call.effort is not None:
        settings["thinking"] = call.effort
    elif call.temperature is not None:
        settings["temperature"] = call.temperature
    return settings


def _parameters(call: ModelCall, states_schema: bool) -> "ModelRequestParameters":  # noqa: FBT001
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    if states_schema:
        tools = call.tools if call.may_use_tools else ()
        return ModelRequestParameters(
            function_tools=[
                ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
                for tool in tools
            ]
        )
    shape = OutputObjectDefinition(json_schema=call.answer_schema, name=call.answer_type.__name__)
    return ModelRequestParameters(output_mode="native", output_object=shape)


def _messages(call: ModelCall, *, states_schema: bool) -> "list[ModelMessage]":
    from pydantic_ai.messages import ModelRequest, SystemPromptPart

    system = call.system
    if states_schema:
        system += f"\n\nThe final answer is nothing but JSON of this schema:\n{to_json(call.answer_schema).decode()}"
    names = {tool_call.id: tool_call.tool for message in call.messages for tool_call in message.calls}
    return [ModelRequest(parts=[SystemPromptPart(system)]), *(_message(message, names) for message in call.messages)]


def _message(message: Message, names: Mapping[str, str]) -> "ModelMessage":
    from pydantic_ai.messages import (
        BinaryContent,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    match message.role:
        case "user":
            return ModelRequest(parts=[UserPromptPart(message.text)])
        case "assistant" if len(message.provider_items) == 1 and within(message.provider_items[0], "kind"):
            return ModelMessagesTypeAdapter.validate_python(list(message.provider_items))[0]
        case "assistant":
            text = [TextPart(message.text)] if message.text else []
            calls = [ToolCallPart(each.tool, arguments_text(each), each.id) for each in message.calls]
            return ModelResponse(parts=[*text, *calls])
        case "tools":
            parts: list[ModelRequestPart] = [
                ToolReturnPart(
                    names.get(each.call_id, "unnamed"),
                    each.text if each.ok else f"The tool failed.\n{each.text}",
                    each.call_id,
                )
                for each in message.results
            ]
            shown = [
                BinaryContent.from_data_uri(picture.data_url) for each in message.results for picture in each.shown
            ]
            if shown:
                parts.append(UserPromptPart(["The pictures of these results:", *shown]))
            return ModelRequest(parts=parts)


def open_pydantic_ai(settings: ModelSettings, _: AsyncExitStack) -> PydanticAIModel:
    """Check each model's name, package and key at the worker's start."""
    try:
        from pydantic_ai.exceptions import UserError
    except ImportError as error:
        raise SettingsError("CHARGEHAND_PROVIDER=pydantic_ai: install 'chargehand-plugins[pydantic-ai]'.") from error
    for tier, name in settings.models.items():
        try:
            _infer(name)
        except (UserError, ValueError, ImportError) as error:
            raise SettingsError(f"CHARGEHAND_MODELS: the {tier.value} model '{name}': {error}") from error
    return PydanticAIModel()
