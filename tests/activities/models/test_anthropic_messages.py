"""Requests and replies that are specific to Anthropic."""

import json
from collections.abc import Mapping, Sequence

from activities.models.schemas import answer_schema
from activities.turn_kinds.protocol import Message
from tests.activities.models.calls import KEY, READ, READ_PARAMETERS, a_call, reply_to, requests_of, second_request
from tests.scripted_provider import ScriptedReply, ToolUse, calling, raw


async def test_a_turn_in_mid_subtask_sends_the_expected_request() -> None:
    """The whole body is compared, and the headers that matter."""
    use = ToolUse("read_document", {"name": "timetable.pdf"}, id="toolu_1")
    call = a_call()
    first = calling(use, text="Let me look.")
    _, request = await second_request("anthropic", first, "no such document", ok=False, tools=(READ,))

    cached = {"cache_control": {"type": "ephemeral"}}
    asked = {"type": "tool_use", "id": "toolu_1", "name": "read_document", "input": {"name": "timetable.pdf"}}
    told = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such document", "is_error": True, **cached}
    tool = {"name": "read_document", "description": READ.description, "input_schema": READ_PARAMETERS}
    schema = answer_schema(call.answer_type, call.agent_names)
    assert request.body == {
        "model": "claude-haiku-5-5",
        "max_tokens": 500,
        "system": [{"type": "text", "text": "You are the reader.", **cached}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "When does the ferry leave?", **cached}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, asked]},
            {"role": "user", "content": [told]},
        ],
        "tools": [tool],
        "tool_choice": {"type": "auto"},
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
        "service_tier": "standard_only",
        "stream": True,
    }
    sent = (request.headers.get("x-api-key", ""), request.headers.get("authorization", "").removeprefix("Bearer "))
    assert KEY in sent
    assert request.headers["x-stainless-retry-count"] == "0"


async def test_the_last_turn_of_a_subtask_marks_no_messages_for_caching() -> None:
    """Nothing will read its messages again."""
    (request,) = await requests_of("anthropic", a_call(must_answer=True))

    assert "cache_control" not in json.dumps(request.body["messages"])


async def test_conversations_have_the_form_the_api_requires() -> None:
    """Tools used earlier stay listed; user text after tool results joins their message, results first."""
    use = ToolUse("read_document", {"name": "a.pdf"}, id="toolu_1")
    more = [Message(role="user", text="Answer now.")]
    _, request = await second_request(
        "anthropic", calling(use), "At eight.", more=more, tools=(READ,), next_tools=(), must_answer=True
    )

    assert [tool["name"] for tool in request.body["tools"]] == ["read_document"]
    messages = request.body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[-1]["content"]] == ["tool_result", "text"]


def message(content: Sequence[Mapping[str, object]], stop_reason: str) -> ScriptedReply:
    usage = {"input_tokens": 10, "output_tokens": 1}
    return raw(json.dumps({"model": "m", "content": content, "stop_reason": stop_reason, "usage": usage}).encode())


async def test_every_stop_reason_is_mapped() -> None:
    """Truncated and refused replies are not used as answers; an unknown stop reason counts as an answer."""
    answered, cut = ("end_turn", "stop_sequence", "something_new"), ("max_tokens", "pause_turn")
    cases = dict.fromkeys(answered, "answer") | dict.fromkeys((*cut, "model_context_window_exceeded"), "truncated")
    for stop_reason, stop in (cases | {"refusal": "refused"}).items():
        reply = await reply_to("anthropic", message([{"type": "text", "text": "{}"}], stop_reason))
        assert reply.stop == stop


async def test_thinking_blocks_are_returned_unchanged() -> None:
    """The signature is kept; empty text, which the API refuses, is left out."""
    thoughts = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
    ]
    asked = {"name": "read_document", "input": {"name": "a"}, "caller": {"type": "direct"}}
    use = {"type": "tool_use", "id": "toolu_1", **asked}
    first = message([*thoughts, {"type": "text", "text": ""}, use], "tool_use")

    _, request = await second_request("anthropic", first, "At eight.")

    assert request.body["messages"][1]["content"] == [*thoughts, use]
