"""What Anthropic in particular is asked, and how its replies are read."""

import json
from collections.abc import Mapping, Sequence

import pytest

from activities.models.schemas import answer_schema
from activities.turn_kinds.protocol import Message, ToolText
from tests.activities.models.calls import KEY, READ, a_call, a_provider, round_of
from tests.scripted_provider import ScriptedReply, ToolUse, answer, calling, raw


async def test_a_request_is_written_so() -> None:
    """The whole body of a turn in the middle of a subtask, and the headers that matter."""
    use = ToolUse("read_document", {"name": "timetable.pdf"}, id="toolu_1")
    replies = iter([calling(use, text="Let me look."), answer()])
    async with a_provider("anthropic", lambda _: next(replies)) as (server, model):
        first = a_call(tools=(READ,))
        reply = await model.complete(first)
        failed = Message(role="tools", results=(ToolText(call_id="toolu_1", text="no such document", ok=False),))
        await model.complete(a_call(tools=(READ,), messages=(*round_of(reply, "")[:2], failed)))
        request = server.requests[1]

    assert request.body == {
        "model": "claude-haiku-5-5",
        "max_tokens": 500,
        "system": [{"type": "text", "text": "You are the reader.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "When does the ferry leave?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me look."},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "read_document",
                        "input": {"name": "timetable.pdf"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": "no such document",
                        "is_error": True,
                        "cache_control": {"type": "ephemeral"},
                    }
                ],
            },
        ],
        "tools": [
            {
                "name": "read_document",
                "description": "Read a document.",
                "input_schema": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                    "additionalProperties": False,
                },
                "strict": True,
            }
        ],
        "tool_choice": {"type": "auto"},
        "output_config": {
            "format": {"type": "json_schema", "schema": answer_schema(first.answer_type, first.agent_names)}
        },
        "service_tier": "standard_only",
        "stream": True,
    }
    assert KEY in {
        request.headers.get("x-api-key", ""),
        request.headers.get("authorization", "").removeprefix("Bearer "),
    }
    assert request.headers["x-stainless-retry-count"] == "0"


async def test_the_beginning_of_the_prompt_stays_the_same() -> None:
    """Tools and system text are equal byte for byte when an answer is due, so that the cache holds."""
    async with a_provider("anthropic", lambda _: answer()) as (server, model):
        await model.complete(a_call())
        await model.complete(a_call(must_answer=True))
        first, last = (request.body for request in server.requests)

    assert json.dumps([first["tools"], first["system"]]) == json.dumps([last["tools"], last["system"]])
    assert last["tool_choice"] == {"type": "none"}


async def test_what_nobody_will_read_again_is_not_written_to_the_cache() -> None:
    """The last turn of a subtask marks nothing but the system text."""
    async with a_provider("anthropic", lambda _: answer()) as (server, model):
        await model.complete(a_call(must_answer=True))
        written = json.dumps(server.requests[0].body["messages"])

    assert "cache_control" not in written


async def test_tools_that_a_conversation_tells_of_stay_listed() -> None:
    """The API takes no conversation about tools that it is not told of."""
    replies = iter([calling(ToolUse("read_document", {"name": "a.pdf"})), answer()])
    async with a_provider("anthropic", lambda _: next(replies)) as (server, model):
        reply = await model.complete(a_call(tools=(READ,)))
        await model.complete(a_call(tools=(), messages=round_of(reply, "At eight.")))
        body = server.requests[1].body

    assert [tool["name"] for tool in body["tools"]] == ["read_document"]
    assert body["tool_choice"] == {"type": "none"}


async def test_one_side_speaks_once_at_a_time() -> None:
    """A word of the user's behind tool results is one message with them, results first."""
    replies = iter([calling(ToolUse("read_document", {"name": "a.pdf"}, id="toolu_1")), answer()])
    async with a_provider("anthropic", lambda _: next(replies)) as (server, model):
        reply = await model.complete(a_call())
        more = (*round_of(reply, "At eight."), Message(role="user", text="Answer now."))
        await model.complete(a_call(messages=more, must_answer=True))
        messages = server.requests[1].body["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[-1]["content"]] == ["tool_result", "text"]


def message(content: Sequence[Mapping[str, object]], stop_reason: str) -> ScriptedReply:
    usage = {"input_tokens": 10, "output_tokens": 1}
    return raw(json.dumps({"model": "m", "content": content, "stop_reason": stop_reason, "usage": usage}).encode())


@pytest.mark.parametrize(
    ("stop_reason", "stop"),
    [
        ("end_turn", "answer"),
        ("stop_sequence", "answer"),
        ("max_tokens", "truncated"),
        ("model_context_window_exceeded", "truncated"),
        ("pause_turn", "truncated"),
        ("refusal", "refused"),
        ("something_new", "answer"),
    ],
)
async def test_every_stop_reason_has_its_meaning(stop_reason: str, stop: str) -> None:
    """A reply is used only if its stop reason says that it is whole."""
    async with a_provider("anthropic", lambda _: message([{"type": "text", "text": "{}"}], stop_reason)) as (_, model):
        reply = await model.complete(a_call())

    assert reply.stop == stop


async def test_thoughts_go_back_sealed_and_silence_does_not() -> None:
    """Thinking blocks are given back untouched, signature and all; empty text, which the API refuses, is left out."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
    use = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "read_document",
        "input": {"name": "a"},
        "caller": {"type": "direct"},
    }
    replies = iter([message([thought, {"type": "text", "text": ""}, use], "tool_use"), answer()])
    async with a_provider("anthropic", lambda _: next(replies)) as (server, model):
        reply = await model.complete(a_call())
        await model.complete(a_call(messages=round_of(reply, "At eight.")))

    assert server.requests[1].body["messages"][1]["content"] == [thought, use]
