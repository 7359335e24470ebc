"""What OpenAI in particular is asked by the Responses API, and how its replies are read."""

import json

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


async def test_a_request_is_written_so() -> None:
    """The whole body of a turn in the middle of a subtask, and the headers that matter."""
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


async def test_the_cache_key_stands_for_the_stable_beginning() -> None:
    """Turns of one agent share a key; another system text or other tools have another."""
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


async def test_an_incomplete_response_says_why() -> None:
    """What was filtered is a refusal; everything else without its end is truncated. Both are paid."""
    cases = [("max_output_tokens", "truncated"), ("content_filter", "refused"), ("steered", "truncated")]
    for reason, stop in cases:
        reply = await reply_to("responses", response("incomplete", incomplete_details={"reason": reason}))
        assert (reply.stop, reply.usage is not None) == (stop, True)


async def test_a_failed_response_is_a_failure() -> None:
    """A failure that comes with status 200 is raised like one that comes with its own."""
    cases = [
        ("server_error", ErrorType.PROVIDER_UNAVAILABLE, False),
        ("rate_limit_exceeded", ErrorType.RATE_LIMITED, False),
        ("invalid_prompt", ErrorType.PROVIDER_REFUSED, True),
        ("", ErrorType.PROVIDER_REFUSED, True),
    ]
    for code, kind, final in cases:
        raised, _ = await failure_of(
            "responses",
            response("failed", error={"code": code, "message": f"Something went wrong with {KEY}."}, usage=None),
        )
        assert (raised.kind, raised.is_final) == (kind, final)
        cause = code or "no reason given"
        assert raised.message == f"openai could not answer ({cause}): Something went wrong with [redacted]."


async def test_a_failed_response_that_reports_its_usage_is_charged() -> None:
    """A provider that says what a failure cost bills it: it is a malformed reply with a price, without any key."""
    for status in ("failed", "cancelled", "in_progress"):
        reply = await reply_to("responses", response(status, error={"code": "server_error", "message": f"Lost {KEY}."}))
        assert (reply.stop, reply.problem, reply.usage) == ("malformed", "Lost [redacted].", usual_usage("responses"))


async def test_a_response_against_policy_is_a_refusal() -> None:
    """It has a price and an end of its own; it is not the provider's failure."""
    reply = await reply_to("responses", response("failed", error={"code": "bio_policy", "message": "No."}))

    assert (reply.stop, reply.usage is not None) == ("refused", True)


async def test_a_response_without_an_end_is_asked_for_again() -> None:
    """A response that is not there yet will not come by waiting for it, for nothing is stored."""
    for status in ("in_progress", "queued", "cancelled"):
        raised, _ = await failure_of("responses", response(status, usage=None))
        assert (raised.kind, raised.is_final) == (ErrorType.PROVIDER_UNAVAILABLE, False)


async def test_reasoning_that_is_not_sealed_is_not_sent_back() -> None:
    """Without storage an unsealed item cannot be found again, nor can what names itself as following it."""
    use = {"type": "function_call", "call_id": "call_1", "name": "read_document", "arguments": '{"name":"a"}'}

    reply = await reply_to(
        "responses", response(output=[{"type": "reasoning", "id": "rs_1", "summary": []}, {**use, "id": "fc_1"}])
    )

    assert reply.provider_items == (use,)
