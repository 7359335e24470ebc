"""Pydantic AI models: its clients for two vendors, against a loopback server that speaks their wires."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from activities.backends import SettingsError
from activities.models.failures import ProviderError
from activities.models.protocol import Model, ModelCall
from activities.models.registry import ModelSettings, build_models
from chargehand.contracts import Tier
from chargehand.wire import ErrorType
from tests.activities.models.calls import SEARCH, a_call, round_of
from tests.scripted_provider import (
    Respond,
    ScriptedProvider,
    ScriptedReply,
    ToolUse,
    answer,
    calling,
    dropping,
    error,
    hanging,
    raw,
    refusing,
    truncated,
)

pytestmark = pytest.mark.slow  # the clients take seconds to import

KEY = "house-key-0123456789abcdef"
NAMES = ["anthropic:claude-haiku-5-5", "openai-chat:gpt-6-luna", "openai-responses:gpt-6-luna"]
every_vendor = pytest.mark.parametrize("name", NAMES)


Serve = Callable[[AsyncExitStack, str, Respond], Awaitable[tuple[ScriptedProvider, Model]]]


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Point Pydantic AI's clients for the vendors at a loopback server, and open our adapter over them."""

    async def serve(closing: AsyncExitStack, name: str, respond: Respond) -> tuple[ScriptedProvider, Model]:
        server = await closing.enter_async_context(ScriptedProvider(respond, streams=False))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        settings = ModelSettings(
            provider="pydantic_ai", models=dict.fromkeys(Tier, name), prices={name: (Decimal(1), Decimal(2))}
        )
        models = build_models(settings, "pydantic_ai", closing)
        await models.until_connected()
        return server, models.adapter

    return serve


def call(name: str, **changes: Any) -> ModelCall:
    return a_call().model_copy(update={"model": name} | changes)


@every_vendor
async def test_a_conversation_with_tools_ends_in_a_priced_answer(name: str, vendors: Serve) -> None:
    """Tool results go back to their calls, prices are the operator's, and calls have an idempotency key."""
    replies = iter([calling(ToolUse("search_documents", {"query": "ferry", "limit": 3}, id="id_one")), answer("At 8.")])
    async with AsyncExitStack() as closing:
        server, model = await vendors(closing, name, lambda _: next(replies))
        asked = await model.complete(call(name))
        ended = await model.complete(call(name, messages=round_of(asked, "It leaves at eight.")))

    assert (asked.stop, [use.arguments for use in asked.tool_calls]) == ("tools", [{"query": "ferry", "limit": 3}])
    assert (ended.stop, ended.provider) == ("answer", "pydantic_ai")
    assert "At 8." in ended.text
    assert ended.usage is not None
    assert ended.usage.cost_usd == (ended.usage.input_tokens + 2 * ended.usage.output_tokens) / Decimal(1_000_000) > 0
    first, second = server.requests
    assert SEARCH.name in first.tools
    assert "It leaves at eight." in second.text
    assert "findings" in first.system + first.text
    assert first.headers["idempotency-key"] == "session/reader/1"


@every_vendor
@pytest.mark.parametrize(("reply", "stop"), [(truncated(), "truncated"), (refusing(), "refused")])
async def test_a_truncated_or_refused_reply_is_recognised(
    name: str, reply: ScriptedReply, stop: str, vendors: Serve
) -> None:
    async with AsyncExitStack() as closing:
        _, model = await vendors(closing, name, lambda _: reply)
        assert (await model.complete(call(name, tools=()))).stop == stop


UNAVAILABLE, REFUSED, THROTTLED = (ErrorType.PROVIDER_UNAVAILABLE, ErrorType.PROVIDER_REFUSED, ErrorType.RATE_LIMITED)
FAILURES = {
    "throttled": (error(429, headers={"Retry-After": "7"}), (429, THROTTLED, False, False)),
    "broken": (error(500), (500, UNAVAILABLE, False, False)),
    "refused": (raw(f'{{"error": {{"message": "no {KEY}"}}}}'.encode(), status=401), (401, REFUSED, True, False)),
    "dropped": (dropping(), (None, UNAVAILABLE, False, True)),
    "silent": (hanging(), (None, UNAVAILABLE, False, True)),
}
"""What a provider does, then the status, the error the workflow sees, whether it is final and possibly billed."""


@pytest.mark.parametrize("name", [NAMES[0], NAMES[2]], ids=["anthropic", "openai"])  # a client for each vendor
@pytest.mark.parametrize("failing", FAILURES)
async def test_a_failure_is_classified_and_not_retried_by_the_library(name: str, failing: str, vendors: Serve) -> None:
    """Each attempt is one request, classified as by our own adapters, and its error shows no key."""
    reply, expected = FAILURES[failing]
    async with AsyncExitStack() as closing:
        server, model = await vendors(closing, name, lambda _: reply)
        with pytest.raises(ProviderError) as caught:
            await model.complete(call(name, timeout_seconds=1.0 if failing == "silent" else 60.0))

    failure = caught.value
    assert (failure.fault.status, failure.kind, failure.is_final, failure.fault.possibly_billed) == expected
    assert len(server.requests) == 1
    assert KEY not in str(failure)
    assert failure.retry_after == (timedelta(seconds=7) if failing == "throttled" else None)


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere:m", "nowhere"), ("claude-haiku-5-5", "claude-haiku-5-5"), ("groq:llama", "groq")],
    ids=["no such provider", "no provider", "without its package"],
)
async def test_an_unavailable_model_is_named_at_startup(name: str, said: str) -> None:
    settings = ModelSettings(provider="pydantic_ai", models=dict.fromkeys(Tier, name))
    async with AsyncExitStack() as closing:
        with pytest.raises(SettingsError, match=rf"(?s)CHARGEHAND_MODELS: .*{said}"):
            build_models(settings, "pydantic_ai", closing)
