"""Calls to models, made through the adapters at a scripted provider."""

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, Literal

import httpx2
import pytest

from activities.contracts.tool import ToolSpec, object_schema
from activities.documents.catalog import Catalog
from activities.models.anthropic_messages import AnthropicModel
from activities.models.failures import ProviderError
from activities.models.openai_chat import OpenAIChatModel
from activities.models.openai_responses import OpenAIResponsesModel
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.protocol import Message, ToolText, TurnAnswer
from activities.turn_kinds.work import WorkAnswer, WorkTask
from chargehand.contracts import Usage
from tests.scripted_provider import Respond, ScriptedProvider, ScriptedReply, ScriptedRequest, answer

Wire = Literal["anthropic", "responses", "chat"]
WIRES: Sequence[Wire] = ("anthropic", "responses", "chat")
KEY = "sk-test-0123456789abcdef"
MODELS = {"anthropic": "claude-haiku-5-5", "responses": "gpt-6-luna", "chat": "house-model"}
PROVIDERS = {"anthropic": "anthropic", "responses": "openai", "chat": "openai-compatible"}

USUAL = {
    # 1,000 input and 100 output tokens at 0.10 and 0.50 dollars per million; the house model costs 1 and 2.
    "anthropic": Decimal("0.00015"),
    "responses": Decimal("0.00015"),
    "chat": Decimal("0.0012"),
}


def usual_usage(wire: Wire) -> Usage:
    """Return the usage of a reply of the usual length."""
    return Usage(turns=1, input_tokens=1_000, output_tokens=100, cost_usd=USUAL[wire])


SEARCH = ToolSpec(
    name="search_documents",
    description="Search the documents.",
    parameters=object_schema(query={"type": "string"}, limit={"type": "integer", "minimum": 1, "maximum": 20}),
)
READ = ToolSpec(
    name="read_document",
    description="Read a document.",
    parameters=object_schema(name={"type": "string", "maxLength": 200}),
)
READ_PARAMETERS = object_schema(name={"description": "(maxLength 200)", "type": "string"})
"""Its parameters in the strict dialect, which states bounds in words."""


def a_call(
    wire: Wire = "anthropic",
    *,
    messages: Sequence[Message] = (Message(role="user", text="When does the ferry leave?"),),
    tools: Sequence[ToolSpec] = (SEARCH, READ),
    answer_type: type[TurnAnswer] = WorkAnswer,
    must_answer: bool = False,
    timeout_seconds: float = 20.0,
) -> ModelCall:
    return ModelCall(
        model=MODELS[wire],
        task=WorkTask(goal="Plan a trip", instruction="When does the ferry leave?", must_answer=must_answer),
        agent="reader",
        catalog=Catalog(),
        system="You are the reader.",
        messages=tuple(messages),
        tools=tuple(tools),
        answer_type=answer_type,
        max_output_tokens=500,
        timeout_seconds=timeout_seconds,
        idempotency_key="session/reader/1",
    )


AnyModel = AnthropicModel | OpenAIResponsesModel | OpenAIChatModel
Opened = tuple[ScriptedProvider, AnyModel]
ADAPTERS: dict[Wire, type[AnyModel]] = {
    "anthropic": AnthropicModel,
    "responses": OpenAIResponsesModel,
    "chat": OpenAIChatModel,
}


def base_url_of(wire: Wire, address: str) -> str:
    return address if wire == "anthropic" else f"{address}/v1"


def an_adapter(wire: Wire, address: str, *, verify: ssl.SSLContext | bool = False, **options: Any) -> AnyModel:
    """Make the adapter of a wire; the house model costs 1 and 2 dollars per million."""
    # Without the machine's proxy, and without loading certificates for a hundred clients.
    network = httpx2.AsyncClient(trust_env=False, verify=verify)
    prices = {MODELS["chat"]: (Decimal(1), Decimal(2))}
    made: dict[str, Any] = {"base_url": base_url_of(wire, address), "prices": prices, "http_client": network}
    return ADAPTERS[wire](api_key=KEY, **(made | options))


@asynccontextmanager
async def a_provider(wire: Wire, respond: Respond, *, streams: bool = True, **options: Any) -> AsyncGenerator[Opened]:
    async with ScriptedProvider(respond, streams=streams) as server:
        model = an_adapter(wire, server.base_url, **options)
        try:
            yield server, model
        finally:
            await model.aclose()


async def reply_to(wire: Wire, scripted: ScriptedReply, *, must_answer: bool = False) -> ModelReply:
    """Take one turn with a provider that sends this reply."""
    async with a_provider(wire, lambda _: scripted) as (_, model):
        return await model.complete(a_call(wire, must_answer=must_answer))


async def failure_of(wire: Wire, scripted: ScriptedReply, timeout_seconds: float = 20.0) -> tuple[ProviderError, int]:
    """Take one turn that fails; return the error, and the number of requests."""
    async with a_provider(wire, lambda _: scripted) as (server, model):
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_call(wire, timeout_seconds=timeout_seconds))
        return caught.value, len(server.requests)


async def requests_of(wire: Wire, *calls: ModelCall) -> list[ScriptedRequest]:
    """Make calls that are all answered; return the requests that the provider received."""
    async with a_provider(wire, lambda _: answer()) as (server, model):
        for call in calls:
            await model.complete(call)
        return server.requests


async def second_request(
    wire: Wire,
    first: ScriptedReply,
    *results: str,
    ok: bool = True,
    more: Sequence[Message] = (),
    tools: Sequence[ToolSpec] = (SEARCH, READ),
    next_tools: Sequence[ToolSpec] | None = None,
    must_answer: bool = False,
) -> tuple[ModelReply, ScriptedRequest]:
    """Take a turn that calls tools, and the next with their results; return the first reply and the second request."""
    replies = iter([first, answer()])
    async with a_provider(wire, lambda _: next(replies)) as (server, model):
        reply = await model.complete(a_call(wire, tools=tools))
        messages = (*round_of(reply, *results, ok=ok), *more)
        follow_up = a_call(
            wire, messages=messages, tools=tools if next_tools is None else next_tools, must_answer=must_answer
        )
        await model.complete(follow_up)
        return reply, server.requests[1]


def round_of(reply: ModelReply, *results: str, ok: bool = True) -> tuple[Message, ...]:
    """Continue the conversation with the results of the tools."""
    told = tuple(
        ToolText(call_id=call.id, text=text, ok=ok) for call, text in zip(reply.tool_calls, results, strict=True)
    )
    return (
        Message(role="user", text="When does the ferry leave?"),
        Message(role="assistant", calls=reply.tool_calls, provider_items=reply.provider_items),
        Message(role="tools", results=told),
    )
