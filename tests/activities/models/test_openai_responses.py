"""Requests and replies that are specific to OpenAI's Responses API."""

import json
from typing import Any

from activities.models.schemas import answer_schema
from activities.turn_kinds.protocol import Message
from chargehand.wire import ErrorType
from tests.activities.models.calls import (
    KEY,
    READ,
    READ_PARAMETERS,
    a_call,
    failure_of,
    reply_to,
    requests_of,
    second_request,
    usual_usage,
)
from tests.scripted_provider import ScriptedReply, ToolUse, calling, raw


async def test_a_turn_in_mid_subtask_sends_the_expected_request() -> None:
    """The whole body is compared, and the headers that matter."""
    use = ToolUse("read_document", {"name": "timetable.pdf"}, id="call_1")
    call = a_call("responses")
    first = calling(use, text="Let me look.")
    _, request = await second_request("responses", first, "no such document", ok=False, tools=(READ,))

    schema = {part: each for part, each in answer_schema(call.answer_type).items() if part != "title"}
    tool = {"name": "read_document", "description": READ.description, "parameters": READ_PARAMETERS, "strict": True}
    text: dict[str, object] = {"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}
    asked = {"call_id": "call_1", "name": "read_document", "arguments": '{"name": "timetable.pdf"}'}
    assert request.body == {
        "model": "gpt-6-luna",
        "instructions": "You are the reader.",
        "input": [
            {"role": "user", "content": "When does the ferry leave?"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed-1"},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [text]},
            {"type": "function_call", "id": "fc_1_1", **asked, "status": "completed"},
            {"type": "function_call_output", "call_id": "call_1", "output": "The tool failed.\nno such document"},
        ],
        "max_output_tokens": 500,
        "text": {"format": {"type": "json_schema", "name": "WorkAnswer", "schema": schema, "strict": True}},
        "tools": [{"type": "function", **tool}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": request.body["prompt_cache_key"],
        "service_tier": "default",
        "stream": True,
    }
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-stainless-retry-count"] == "0"


async def test_the_prompt_cache_key_identifies_the_stable_prefix() -> None:
    """Turns of one agent share a key; another system text or other tools give another key."""
    call = a_call("responses")
    other_words = call.model_copy(update={"system": "You are the analyst."})
    other_messages = call.model_copy(update={"messages": (Message(role="user", text="And back?"),)})
    calls = (call, other_messages, other_words, a_call("responses", tools=()))
    same, also, *others = (request.body["prompt_cache_key"] for request in await requests_of("responses", *calls))

    assert same == also
    assert len({same, *others}) == 3
    assert len(same) <= 64


def response(
    status: str = "completed", output: list[dict[str, object]] | None = None, **fields: object
) -> ScriptedReply:
    usage = {"input_tokens": 1_000, "output_tokens": 100}
    body = {"model": "gpt-6-luna", "status": status, "output": output or [], "usage": usage, **fields}
    return raw(json.dumps(body).encode())


async def test_every_response_status_is_mapped() -> None:
    """A billed response has usage and a stop reason; an unbilled failure is raised like an HTTP error."""
    lost = {"code": "server_error", "message": f"Lost {KEY}."}
    billed: list[tuple[str, dict[str, Any], str]] = [
        *(("incomplete", {"incomplete_details": {"reason": each}}, "truncated") for each in ("max_output_tokens", "x")),
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, "refused"),
        ("failed", {"error": {"code": "bio_policy", "message": "No."}}, "refused"),
        *((status, {"error": lost}, "malformed") for status in ("failed", "cancelled", "in_progress")),
    ]
    failures = [
        ("failed", "server_error", ErrorType.PROVIDER_UNAVAILABLE),
        ("failed", "rate_limit_exceeded", ErrorType.RATE_LIMITED),
        *(("failed", code, ErrorType.PROVIDER_REFUSED) for code in ("invalid_prompt", "")),
        *((status, "", ErrorType.PROVIDER_UNAVAILABLE) for status in ("in_progress", "queued", "cancelled")),
    ]

    for status, fields, stop in billed:
        reply = await reply_to("responses", response(status, **fields))
        assert (reply.stop, reply.usage) == (stop, usual_usage("responses"))
        assert reply.problem == ("Lost [redacted]." if stop == "malformed" else "")
    for status, code, kind in failures:
        raised, _ = await failure_of("responses", response(status, error=lost | {"code": code}, usage=None))
        assert (raised.kind, raised.is_final) == (kind, kind is ErrorType.PROVIDER_REFUSED)
        if status == "failed":
            cause = code or "no reason given"
            assert raised.message == f"openai could not answer ({cause}): Lost [redacted]."


async def test_unencrypted_reasoning_is_not_sent_back() -> None:
    """Without storage the API cannot resolve such an item, nor the id of a call that follows it."""
    use = {"type": "function_call", "call_id": "call_1", "name": "read_document", "arguments": '{"name":"a"}'}

    reply = await reply_to(
        "responses", response(output=[{"type": "reasoning", "id": "rs_1", "summary": []}, {**use, "id": "fc_1"}])
    )

    assert reply.provider_items == (use,)
