"""What applies to every adapter, whatever its provider."""

import json
import logging
from decimal import Decimal

import pytest
from pydantic import JsonValue

from activities.models.protocol import ModelReply
from activities.turn_kinds.work import WorkAnswer
from chargehand.contracts import Usage
from tests.activities.models.calls import (
    ADAPTERS,
    KEY,
    MODELS,
    PROVIDERS,
    WIRES,
    Wire,
    a_call,
    a_provider,
    base_url_of,
    reply_to,
    requests_of,
    round_of,
    second_request,
    usual_usage,
)
from tests.scripted_provider import (
    NO_USAGE,
    ScriptedProvider,
    ScriptedReply,
    ScriptedRequest,
    Tokens,
    ToolUse,
    answer,
    calling,
    empty,
    refusing,
    saying,
    truncated,
)

USES = (
    ToolUse("search_documents", {"query": "ferry", "limit": 3}, id="id_one"),
    ToolUse("read_document", {"name": "timetable.pdf"}, id="id_two"),
)
every_wire = pytest.mark.parametrize("wire", WIRES)


@every_wire
async def test_an_answer_is_returned_as_its_text(wire: Wire) -> None:
    """The stop is `answer`, the JSON is exactly what the model wrote, and the usage is priced."""
    scripted = answer("At eight.")
    model, provider = MODELS[wire], PROVIDERS[wire]
    expected = ModelReply(stop="answer", text=scripted.text, model=model, provider=provider, usage=usual_usage(wire))

    assert await reply_to(wire, scripted) == expected
    assert WorkAnswer.model_validate_json(scripted.text).content == "At eight."


@every_wire
async def test_unusable_replies_have_a_stop_reason_and_are_charged(wire: Wire) -> None:
    """Truncated, refused and empty replies are paid for like any other; a truncated call is dropped."""
    cases = [
        (truncated('{"content": "At ei'), "truncated", '{"content": "At ei'),
        (ScriptedReply("truncated", tools=(ToolUse("read_document", {"name": "time"}),)), "truncated", ""),
        (refusing("That I will not do."), "refused", "That I will not do."),
        (empty(), "empty", ""),
        (saying(" \n "), "empty", " \n "),
    ]
    for scripted, stop, text in cases:
        reply = await reply_to(wire, scripted)
        assert (reply.stop, reply.text.strip(), reply.usage) == (stop, text.strip(), usual_usage(wire))
        assert (reply.tool_calls, reply.provider_items) == ((), ())


@every_wire
async def test_cached_tokens_are_part_of_the_input_with_prices_of_their_own(wire: Wire) -> None:
    """For every provider, `input_tokens` is the total and `cached_input_tokens` the part read from a cache."""
    written = 0 if wire == "chat" else 4_000
    reply = await reply_to(wire, answer().using(Tokens(input=1_000, cached=8_000, cache_write=written, output=200)))

    # Reading costs 0.01 dollars per million and writing 0.125; the house model has no cache.
    cached = Decimal("0.1") * 1_000 + Decimal("0.01") * 8_000 + Decimal("0.125") * written + 100
    usd = Decimal(9_000 + 2 * 200) if wire == "chat" else cached
    assert reply.usage == Usage(
        turns=1, input_tokens=9_000 + written, cached_input_tokens=8_000, output_tokens=200, cost_usd=usd / 1_000_000
    )


@pytest.mark.parametrize(
    ("wire", "step", "above"),
    # Dollars per million for input and output; below the step they are 0.10 and 0.50.
    [("anthropic", 100_000, ("0.5", "2.5")), ("responses", 272_000, ("0.2", "0.75"))],
)
async def test_a_long_prompt_reprices_the_whole_call(wire: Wire, step: int, above: tuple[str, str]) -> None:
    """One token above the model's price step, every token of the call costs the higher price."""
    usual = await reply_to(wire, answer().using(Tokens(input=step, output=200)))
    longer = await reply_to(wire, answer().using(Tokens(input=step + 1, output=200)))

    assert usual.usage is not None
    assert longer.usage is not None
    assert usual.usage.cost_usd == (Decimal("0.1") * step + Decimal("0.5") * 200) / 1_000_000
    assert longer.usage.cost_usd == (Decimal(above[0]) * (step + 1) + Decimal(above[1]) * 200) / 1_000_000


@every_wire
async def test_implausible_usage_is_unknown(wire: Wire) -> None:
    """The reply is still used, with usage None instead of zero."""
    for tokens in (NO_USAGE, Tokens(input=-5), Tokens(output=-1), Tokens(input=10**12)):
        reply = await reply_to(wire, answer("So.").using(tokens))
        assert (reply.stop, reply.usage) == ("answer", None)


@every_wire
async def test_the_price_is_that_of_the_model_that_answered(wire: Wire) -> None:
    """The model named in the reply determines the price, unless the operator configured one."""
    other = {"anthropic": "claude-opus-5-5", "responses": "gpt-6.1-sol", "chat": "gpt-6.1-sol"}[wire]
    reply = await reply_to(wire, answer().by(other))

    expected = {"anthropic": "0.006", "responses": "0.003", "chat": "0.0012"}[wire]
    assert reply.usage is not None
    assert (reply.model, reply.usage.cost_usd) == (other, Decimal(expected))


MALFORMED = {
    "cut": (ToolUse("read_document", '{"name": "timeta'), "the arguments are not "),
    "array": (ToolUse("read_document", '["timetable.pdf"]'), "the arguments are not a JSON object"),
    "null": (ToolUse("read_document", "null"), "the arguments are not a JSON object"),
    "NaN": (ToolUse("read_document", '{"name": NaN}'), "the arguments are not valid JSON"),
    "unknown": (ToolUse("drop tables!"), "there is no such tool; the tools are: read_document, search_documents"),
}


@every_wire
@pytest.mark.parametrize("case", MALFORMED)
async def test_malformed_calls_state_why_and_can_be_sent_back(wire: Wire, case: str) -> None:
    """The conversation that contains them is still accepted by the provider."""
    use, why = MALFORMED[case]
    reply, request = await second_request(wire, calling(use, text="I try."), "could not be read")
    (call,) = reply.tool_calls

    assert reply.stop == "tools"
    assert call.arguments == {}
    assert call.malformed.startswith(why)
    assert calls_in(request) == [(call.id, call.tool, {})]
    assert call.tool.replace("_", "").isalnum()


@every_wire
async def test_tool_calls_beyond_32_are_not_executed(wire: Wire) -> None:
    """Of a thousand calls in one reply, 32 are executed, the next states why not, and the rest are dropped."""
    reply = await reply_to(wire, calling(*(ToolUse("read_document", {"name": f"{n}"}) for n in range(1_000))))

    assert [bool(call.malformed) for call in reply.tool_calls] == [False] * 32 + [True]
    assert len({call.id for call in reply.tool_calls}) == 33


@every_wire
async def test_a_conversation_goes_back_as_the_provider_wrote_it(wire: Wire) -> None:
    """Requests contain earlier calls and results in order, with the provider's own ids."""
    _, again = await second_request(wire, calling(*USES, text="Let me look."), "At eight.", "Sunday only.")

    sent = [(message.role, message.text.partition("\n")[0]) for message in again.messages]
    assert sent == [("user", "When does the ferry leave?"), ("assistant", "Let me look."), ("tools", "At eight.")]
    assert calls_in(again) == [(use.id, use.tool, use.arguments) for use in USES]


@every_wire
@pytest.mark.parametrize("writer", WIRES)
async def test_another_providers_reply_is_rewritten_for_this_provider(wire: Wire, writer: Wire) -> None:
    """A session can change its provider; earlier calls keep their ids."""
    reply = await reply_to(writer, calling(ToolUse("read_document", {"name": "a.pdf"}, id="id_1")))
    (request,) = await requests_of(wire, a_call(wire, messages=round_of(reply, "At eight.")))

    assert calls_in(request) == [("id_1", "read_document", {"name": "a.pdf"})]


@every_wire
async def test_tool_calls_are_ignored_when_an_answer_is_due(wire: Wire) -> None:
    """With `must_answer` no tool may be used, and the text of the reply is the answer."""
    for said, stop in (("{}", "answer"), ("", "empty")):
        asked = calling(ToolUse("read_document", {"name": "a.pdf"}), text=said)
        async with a_provider(wire, lambda _, asked=asked: asked) as (server, model):
            reply = await model.complete(a_call(wire, must_answer=True))

        assert server.requests[0].answer == "WorkAnswer"
        assert (reply.stop, reply.text, reply.tool_calls) == (stop, said, ())


@every_wire
async def test_a_closed_adapter_can_be_used_again(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """`aclose` works before the first call, between calls, and twice in a row."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with ScriptedProvider(lambda _: answer()) as server:
        model = ADAPTERS[wire](api_key=KEY, base_url=base_url_of(wire, server.base_url))
        await model.aclose()
        await model.warm_up()
        stops = [(await model.complete(a_call(wire))).stop]
        await model.aclose()
        stops.append((await model.complete(a_call(wire))).stop)
        await model.aclose()
        await model.aclose()

    assert stops == ["answer", "answer"]


@every_wire
async def test_the_idempotency_key_is_sent_with_the_call(wire: Wire) -> None:
    """A key that is not valid in a header is hashed."""
    call = a_call(wire)
    requests = await requests_of(wire, call, call.model_copy(update={"idempotency_key": "séance/reader/1"}))
    named, hashed = (request.headers["idempotency-key"] for request in requests)

    assert named == "session/reader/1"
    assert (len(hashed), hashed.isalnum()) == (64, True)


@every_wire
async def test_prompts_replies_and_keys_are_not_logged(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    """This applies to level info and above."""
    with caplog.at_level(logging.INFO):
        await reply_to(wire, answer("At eight."))

    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert not any(secret in logged for secret in (KEY, "ferry", "At eight", "You are the reader"))


def calls_in(request: ScriptedRequest) -> list[tuple[str, str, JsonValue]]:
    match request.wire:
        case "anthropic":
            blocks = [block for message in request.body["messages"] for block in message["content"]]
            return [(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
        case "responses":
            items = [item for item in request.body["input"] if item.get("type") == "function_call"]
            return [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in items]
        case "chat":
            told = [call for message in request.body["messages"] for call in message.get("tool_calls", ())]
            functions = [(call["id"], call["function"]) for call in told]
            return [(name, function["name"], json.loads(function["arguments"])) for name, function in functions]
