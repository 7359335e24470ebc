"""Gemini by its OpenAI-compatible address, with the peculiarities of that wire: docs/local-models.md."""

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Any

import pytest

from activities.backends import SettingsError
from activities.models.failures import ProviderError
from activities.models.registry import build_models
from activities.turn_kinds.protocol import Message, ToolText
from chargehand.contracts import Tier
from tests.activities.models.calls import KEY, a_call, a_provider
from tests.scripted_provider import ScriptedReply, ScriptedRequest, error, raw
from worker.settings import Settings

ADDRESS = "https://generativelanguage.googleapis.com/v1beta/openai/"
MODEL = "gemini-3.8-flash"
CALL = a_call("chat").model_copy(update={"model": MODEL, "effort": "medium"})
USED = {"prompt_tokens": 1_000, "completion_tokens": 20, "total_tokens": 1_320}
"""300 tokens of thoughts are counted in the total only."""


def _settings(monkeypatch: pytest.MonkeyPatch, model: str = MODEL) -> Settings:
    monkeypatch.setenv("OPENAI_BASE_URL", ADDRESS)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("CHARGEHAND_MODELS", json.dumps(dict.fromkeys(Tier, model)))
    return Settings()


def _stream(*deltas: Mapping[str, Any], finish: str = "stop") -> ScriptedReply:
    """Write a stream as Gemini does: usage in every chunk, and `stop` even after tool calls."""
    choices: list[dict[str, Any]] = [{"index": 0, "delta": dict(delta)} for delta in deltas]
    choices[-1]["finish_reason"] = finish
    pieces = [{"object": "chat.completion.chunk", "model": MODEL, "choices": [one], "usage": USED} for one in choices]
    lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces]
    return raw("".join([*lines, "data: [DONE]\n\n"]).encode(), {"content-type": "text/event-stream"})


def _asked(name: str, document: str, signature: str = "") -> dict[str, Any]:
    call = {
        "id": name,
        "type": "function",
        "function": {"name": "read_document", "arguments": json.dumps({"name": document})},
    }
    return {**call, **({"extra_content": {"google": {"thought_signature": signature}}} if signature else {})}


async def test_gemini_tool_calls_are_separated_and_returned_signed() -> None:
    """Calls may share an index or have none; Gemini requires each thought signature back."""
    first, second, third = _asked("a", "one.pdf", "c2lnbmVk"), _asked("b", "two.pdf"), _asked("c", "three.pdf")
    reply = _stream(
        {"role": "assistant", "tool_calls": [{**first, "index": 0}]},
        {"tool_calls": [{**second, "index": 0}]},
        {"tool_calls": [third]},
    )

    def respond(request: ScriptedRequest) -> ScriptedReply:
        return _stream({"role": "assistant", "content": "{}"}) if request.rounds else reply

    async with a_provider("chat", respond, price_list="google") as (server, model):
        asked = await model.complete(CALL)
        results = tuple(ToolText(call_id=call.id, text="At nine.") for call in asked.tool_calls)
        rounds = (
            Message(role="assistant", calls=asked.tool_calls, provider_items=asked.provider_items),
            Message(role="tools", results=results),
        )
        await model.complete(CALL.model_copy(update={"messages": (*CALL.messages, *rounds)}))

    names = {"a": "one.pdf", "b": "two.pdf", "c": "three.pdf"}
    assert [(call.id, call.arguments) for call in asked.tool_calls] == [(each, {"name": names[each]}) for each in names]
    request, again = server.requests
    assert again.body["messages"][2] == {"role": "assistant", "tool_calls": [first, second, third]}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["reasoning_effort"] == "medium"


async def test_gemini_thoughts_are_charged_as_output() -> None:
    """`completion_tokens` omits thought tokens; the price is Google's."""
    answered = _stream({"role": "assistant", "content": "{}"})
    async with a_provider("chat", lambda _: answered, price_list="google") as (_, model):
        reply = await model.complete(CALL)

    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1_000, 320)
    assert reply.usage.cost_usd > 0


async def test_gemini_errors_are_quoted() -> None:
    """Gemini returns a list of errors instead of an object."""
    body = json.dumps([{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}])
    async with a_provider("chat", lambda _: error(400, body=body.encode())) as (_, model):
        with pytest.raises(ProviderError, match="answered 400: API key not valid"):
            await model.complete(CALL)


async def test_gemini_models_are_priced_by_their_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown model name is refused, with the closest names in the price list."""
    async with AsyncExitStack() as closing:
        models = build_models(_settings(monkeypatch), "openai_compatible", closing)
        card = models.card(Tier.MEDIUM)
        with pytest.raises(SettingsError, match=r"CHARGEHAND_MODELS.*'gemini-3.8-flsh'.*gemini-3.8-flash.*_PRICES="):
            build_models(_settings(monkeypatch, "gemini-3.8-flsh"), "openai_compatible", closing)

    assert (card.provider, card.name, card.max_output_tokens) == ("google", MODEL, 65_536)
    assert all(step.output_usd_per_million > Decimal(0) for step in card.prices)
