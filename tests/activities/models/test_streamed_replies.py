"""Streamed replies equal unstreamed ones, and a provider that falls silent is noticed."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace

import httpx2
import pytest

from activities.models.failures import ProviderError, ProviderFault, UnreadableReply
from activities.models.openai_chat import ChatFold
from activities.models.protocol import ModelReply
from activities.models.streaming import STEADY, Patience, receive
from chargehand.wire import ErrorType
from tests.activities.models.calls import KEY, PROVIDERS, WIRES, Opened, Wire, a_call, a_provider, reply_to
from tests.scripted_provider import (
    NO_USAGE,
    Respond,
    ScriptedProvider,
    ScriptedReply,
    Tokens,
    ToolUse,
    answer,
    calling,
    dripping,
    empty,
    hanging,
    raw,
    refusing,
    saying,
    stalling,
    truncated,
)
from tests.scripted_provider.streams import events

every_wire = pytest.mark.parametrize("wire", WIRES)

LONG = "Ä word or two\u2028with \x85 what looks like a line's end, \r\n and 日本. " * 20
USES = (
    ToolUse("search_documents", {"query": LONG, "limit": 3}, id="id_one"),
    ToolUse("read_document", {"name": "timetable.pdf"}, id="id_two"),
)
REPLIES = {
    "answer": answer(LONG),
    "text": saying(LONG),
    "tools": calling(*USES, text="Let me look."),
    "no arguments": calling(ToolUse("read_document", {})),
    "truncated": truncated(),
    "refused": refusing("That I will not do."),
    "empty": empty(),
    "cached": answer().using(Tokens(input=10, cached=8_000, cache_write=500, output=7)),
    "uncounted": answer().using(NO_USAGE),
    "another model": answer().by("claude-opus-5-5"),
}


def impatient(wire: Wire, respond: Respond, gap: float) -> AbstractAsyncContextManager[Opened]:
    """Run a provider and an adapter that waits at most this long for the next event, and 20 seconds for the first."""
    return a_provider(wire, respond, patience=Patience(first_seconds=20.0, gap_seconds=gap))


def always(reply: ScriptedReply) -> Respond:
    """Answer every request with this reply."""
    return lambda _: reply


async def whole(wire: Wire, scripted: ScriptedReply) -> ModelReply:
    """Get the reply from a provider that sends it unstreamed, whatever is requested."""
    async with a_provider(wire, always(scripted), streams=False) as (_, model):
        return await model.complete(a_call(wire))


def stream(written: bytes) -> ScriptedReply:
    return raw(written, {"content-type": "text/event-stream"})


@every_wire
@pytest.mark.parametrize("name", REPLIES)
async def test_streamed_and_whole_replies_are_equal(wire: Wire, name: str) -> None:
    """Text, calls, stop, usage and provider items match to the last character."""
    async with a_provider(wire, lambda _: REPLIES[name]) as (server, model):
        in_pieces = await model.complete(a_call(wire))

    assert server.requests[0].body["stream"] is True
    assert in_pieces == await whole(wire, REPLIES[name])


@every_wire
async def test_text_can_be_read_while_it_streams(wire: Wire) -> None:
    """After each event the text so far is available, without the model's thoughts."""
    seen: list[str] = []

    def follow(text: Callable[[], str]) -> None:
        seen.append(text())

    async with a_provider(wire, lambda _: saying(LONG).thinking("s1")) as (_, model):
        reply = await model.complete(a_call(wire).model_copy(update={"live": follow}))

    grown = list(dict.fromkeys(seen))
    assert len(grown) > 10
    assert all(reply.text.startswith(text.rstrip()) for text in grown)
    assert reply.text.strip() == grown[-1].strip()


@every_wire
async def test_a_call_without_arguments_is_not_malformed(wire: Wire) -> None:
    """A call whose arguments never arrive has an empty object."""
    (call,) = (await reply_to(wire, calling(ToolUse("read_document", "")))).tool_calls

    assert (call.arguments, call.malformed) == ({}, "")


@every_wire
async def test_a_stream_may_be_split_anywhere(wire: Wire) -> None:
    """A reply that arrives byte by byte, even inside characters, is the same reply."""
    scripted = answer(LONG[:200])
    async with a_provider(wire, lambda _: scripted) as (server, model):
        expected = await model.complete(a_call(wire))
        written = b"".join(events(server.requests[0], scripted))

        streamed = stream(written.replace(b"\n", b"\r\n"))
        server.respond = always(replace(streamed, pieces="bytes"))
        assert await model.complete(a_call(wire)) == expected


async def test_vendor_sdks_can_read_the_scripted_streams() -> None:
    """The streams of the tests are like the vendors': their own SDKs assemble the complete reply."""
    import anthropic
    import openai

    scripted = calling(*USES, text=LONG).using(Tokens(input=10, cached=8_000, cache_write=500, output=7))
    async with (
        ScriptedProvider(lambda _: scripted) as server,
        httpx2.AsyncClient(trust_env=False, verify=False) as network,
    ):
        claude = anthropic.AsyncAnthropic(api_key=KEY, base_url=server.base_url, http_client=network)
        gpt = openai.AsyncOpenAI(api_key=KEY, base_url=server.openai_url, http_client=network)
        async with claude.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "When?"}]
        ) as message:
            said = await message.get_final_message()
        async with gpt.responses.stream(model="m", input="When?") as response:
            responded = await response.get_final_response()
        async with gpt.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "When?"}], stream_options={"include_usage": True}
        ) as completion:
            completed = await completion.get_final_completion()

    uses = [block for block in said.content if block.type == "tool_use"]
    assert [(use.name, use.input) for use in uses] == [(use.tool, use.arguments) for use in USES]
    assert (said.usage.input_tokens, said.usage.cache_read_input_tokens, said.usage.output_tokens) == (10, 8_000, 7)
    assert responded.output_text == LONG
    assert responded.usage is not None
    assert (responded.usage.input_tokens, responded.usage.output_tokens) == (8_510, 7)
    assert completed.choices[0].message.content == LONG
    assert [call.id for call in completed.choices[0].message.tool_calls or ()] == ["id_one", "id_two"]
    assert completed.usage is not None
    assert (completed.usage.prompt_tokens, completed.usage.completion_tokens) == (8_510, 7)


async def test_a_failing_script_fails_its_test() -> None:
    """The client sees a 500, and the test that owns the script gets the error."""

    def respond(_: object) -> ScriptedReply:
        raise KeyError("a mistake in the script")

    opened = AsyncExitStack()
    _, model = await opened.enter_async_context(a_provider("chat", respond))
    with pytest.raises(ProviderError, match="answered 500"):
        await model.complete(a_call("chat"))
    with pytest.raises(BaseExceptionGroup, match="the script of the provider failed"):
        await opened.aclose()


SILENCES = {"hanging": hanging(), "stalling": stalling(), "dripping": dripping()}


@every_wire
@pytest.mark.parametrize("silence", SILENCES)
async def test_a_silent_provider_is_given_up_before_the_call_timeout(wire: Wire, silence: str) -> None:
    """After the allowed silence the call fails, retryable and possibly billed."""
    async with a_provider(wire, lambda _: answer()) as (server, model):
        await model.complete(a_call(wire))
        server.respond, model.patience = always(SILENCES[silence]), Patience(first_seconds=0.2, gap_seconds=0.2)
        began = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_call(wire))
        took = time.monotonic() - began
        await server.until(lambda: server.exchanges[1].hung_up)

    assert (caught.value.kind, caught.value.is_final) == (ErrorType.PROVIDER_UNAVAILABLE, False)
    assert caught.value.fault == ProviderFault(provider=PROVIDERS[wire], possibly_billed=True)
    assert caught.value.message.endswith("did not answer (TimeoutError): it sent nothing for 0.2 seconds.")
    assert 0.19 < took < a_call(wire).timeout_seconds


@every_wire
async def test_a_slow_stream_outlasts_the_silence_limit(wire: Wire) -> None:
    """The whole reply may take longer than any single silence; the wait for the first event has its own limit."""
    slow = answer("At eight.").after(0.9).spaced(0.1)
    async with impatient(wire, lambda _: slow, gap=0.8) as (server, model):
        began = time.monotonic()
        reply = await model.complete(a_call(wire))
        took = time.monotonic() - began

    assert reply.stop == "answer"
    assert took > 0.9 + 0.1 * 5
    assert server.charges == 1


@every_wire
async def test_the_call_timeout_ends_even_a_steady_stream(wire: Wire) -> None:
    """A provider that streams forever is given up when the call's time is over."""
    async with impatient(wire, lambda _: answer(LONG).spaced(0.05), gap=20.0) as (_, model):
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_call(wire, timeout_seconds=1.0))

    assert caught.value.fault.possibly_billed


@every_wire
@pytest.mark.parametrize(
    ("began", "has_error"),
    [(True, False), (False, True), (True, True)],
    ids=["no end", "at the start", "in the middle"],
)
async def test_an_incomplete_or_failed_stream_is_not_a_reply(wire: Wire, *, began: bool, has_error: bool) -> None:
    """An early end or a late error may be billed; an error before the answer begins costs nothing."""
    async with a_provider(wire, lambda _: answer("At eight.")) as (server, model):
        await model.complete(a_call(wire))
        count = began * (BEGUN[wire] if has_error else 3)
        beginning = b"".join(events(server.requests[0], answer("At eight."))[:count])
        server.respond = always(stream(beginning + ERRORS[wire] * has_error))
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_call(wire))

    assert (caught.value.kind, caught.value.is_final) == (ErrorType.PROVIDER_UNAVAILABLE, False)
    told = "Too much." if has_error else "gave an answer that cannot be read: it ended too early"
    assert caught.value.message.endswith(told)
    assert caught.value.fault.possibly_billed is began


ERRORS = {
    "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Too much."}}\n\n',
    "responses": b'event: error\ndata: {"type":"error","code":"server_error","message":"Too much.","param":null}\n\n',
    "chat": b'data: {"error":{"message":"Too much.","type":"server_error","code":500}}\n\n',
}
BEGUN = {"anthropic": 1, "responses": 4, "chat": 1}
"""Number of events after which the model has said something."""


@every_wire
async def test_a_reply_is_complete_at_its_last_event(wire: Wire) -> None:
    """A provider that leaves the connection open afterwards does not delay or invalidate it."""
    async with impatient(wire, lambda _: answer("At eight."), gap=20.0) as (server, model):
        await model.complete(a_call(wire))
        written = b"".join(events(server.requests[0], answer("At eight.")))
        server.respond = always(replace(stream(written), pieces="endless"))
        began = time.monotonic()
        reply = await model.complete(a_call(wire))
        took = time.monotonic() - began

    assert (reply.stop, took < a_call(wire).timeout_seconds) == ("answer", True)


@dataclass
class _OnePiece:
    """A response whose body arrives from the network in one piece."""

    content: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})

    @property
    async def stream(self) -> AsyncGenerator[bytes]:
        yield self.content


@pytest.mark.parametrize("event", [b"data:{}\n\n", b"data:1\n\n", b'data:{"choices":[]}\n\n'])
async def test_a_burst_of_events_does_not_block_the_event_loop(event: bytes) -> None:
    """Other tasks run between the events, even if the events are malformed."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    piece = nullcontext(_OnePiece(event * 10_000))
    with pytest.raises(UnreadableReply):
        await receive(piece, ChatFold(), patience=STEADY, whole_seconds=60, on_event=lambda _: None)
    running.cancel()

    assert turns >= 100
