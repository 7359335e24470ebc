"""Requests to OpenAI-compatible servers, and how far their replies may deviate from the original."""

import json

import pytest

from activities.contracts.rounds import Round
from activities.models.schemas import answer_schema
from activities.turn_kinds.work import WorkTask
from tests.activities.models.calls import READ, READ_PARAMETERS, a_call, reply_to, requests_of, second_request
from tests.scripted_provider import ScriptedReply, ToolUse, calling, raw, saying


async def test_a_turn_in_mid_subtask_sends_the_expected_request() -> None:
    """The whole body is compared: it has tools, and the answer's schema in words."""
    use = ToolUse("read_document", {"name": "timetable.pdf"}, id="call_1")
    call = a_call("chat")
    first = calling(use, text="Let me look.")
    _, request = await second_request("chat", first, "no such document", ok=False, tools=(READ,))

    schema = json.dumps(answer_schema(call.answer_type, call.agent_names), separators=(",", ":"))
    shape = "The final answer is nothing but JSON of this schema:"
    asked = {"name": "read_document", "arguments": '{"name": "timetable.pdf"}'}
    calls = [{"id": "call_1", "type": "function", "function": asked}]
    tool = {"name": "read_document", "description": READ.description, "parameters": READ_PARAMETERS}
    assert request.body == {
        "model": "house-model",
        "messages": [
            {"role": "system", "content": f"You are the reader.\n\n{shape}\n{schema}"},
            {"role": "user", "content": "When does the ferry leave?"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1", "content": "The tool failed.\nno such document"},
        ],
        "max_tokens": 500,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": tool}],
    }
    assert request.headers["x-stainless-retry-count"] == "0"


@pytest.mark.parametrize("rounds", [(), (Round(correction="It was not JSON."),)], ids=["answer due", "correction"])
async def test_the_schema_is_enforced_when_no_tools_are_offered(rounds: tuple[Round, ...]) -> None:
    """Turns that must answer or correct an answer offer no tools and send the schema as `response_format`."""
    call = a_call("chat", must_answer=not rounds)
    assert isinstance(call.task, WorkTask)
    call = call.model_copy(update={"task": call.task.model_copy(update={"rounds": rounds})})
    (request,) = await requests_of("chat", call)
    schema = answer_schema(call.answer_type, call.agent_names)

    assert "tools" not in request.body
    assert request.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "WorkAnswer", "schema": schema, "strict": True},
    }


async def test_a_turn_that_must_answer_keeps_the_cached_prefix() -> None:
    """For OpenAI's models, tools and schema stay in the request, and `tool_choice` is `none`."""
    calls = [
        a_call("chat", tools=(READ,), must_answer=due).model_copy(update={"model": "gpt-6-sol"})
        for due in (False, True)
    ]
    (working,), (due,) = [await requests_of("chat", call) for call in calls]

    begins = [[each.body[part] for part in ("response_format", "tools")] for each in (working, due)]
    assert begins[0] == begins[1]
    assert working.body["messages"][0] == due.body["messages"][0] == {"role": "system", "content": calls[0].system}
    assert (working.body.get("tool_choice"), due.body.get("tool_choice")) == (None, "none")


@pytest.mark.parametrize(
    ("model", "cap", "effort_with_tools"),
    [
        ("house-model", "max_tokens", None),
        ("gemini-3.8-flash", "max_tokens", "high"),
        ("o4-mini", "max_completion_tokens", "high"),
        ("gpt-5.1", "max_completion_tokens", "high"),
        ("gpt-6-sol", "max_completion_tokens", "none"),
        ("openai/gpt-6-sol", "max_completion_tokens", "high"),
        ("gpt-5.3-chat-latest", "max_completion_tokens", None),
    ],
)
async def test_a_model_gets_only_what_its_server_accepts(model: str, cap: str, effort_with_tools: str | None) -> None:
    """Newer OpenAI models refuse `max_tokens`, and effort beside tools; other servers know only `max_tokens`."""
    call = a_call("chat").model_copy(update={"model": model, "effort": "high"})
    bare = call.model_copy(update={"tools": ()})

    sent = [request.body for request in await requests_of("chat", call, bare)]

    caps = [{name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} for body in sent]
    assert caps == [{cap: 500}] * 2
    takes = None if effort_with_tools is None else "high"
    assert [body.get("reasoning_effort") for body in sent] == [effort_with_tools, takes]


def completion(message: dict[str, object], finish_reason: str = "stop") -> ScriptedReply:
    return raw(json.dumps({"choices": [{"message": message, "finish_reason": finish_reason}]}).encode())


async def test_tool_calls_that_deviate_from_openais_are_understood() -> None:
    """Ids may be missing or equal, the end of the reply may be `stop`, and arguments may be an object."""
    function = {"name": "read_document", "arguments": '{"name": "a.pdf"}'}
    parsed = {"name": "read_document", "arguments": {"name": "a.pdf"}}
    same: list[dict[str, object]] = [{"id": "call", "type": "function", "function": function}] * 2
    none: list[dict[str, object]] = [{"function": parsed}, {"id": "", "function": function}]
    for calls in (same, none):
        reply = await reply_to("chat", completion({"content": "", "tool_calls": calls}, "stop"))

        assert reply.stop == "tools"
        assert [call.arguments for call in reply.tool_calls] == [{"name": "a.pdf"}] * 2
        assert [call.id for call in reply.tool_calls] == ["call_1", "call_2"]
        (message,) = reply.provider_items
        assert isinstance(message, dict)
        assert [call["id"] for call in message["tool_calls"]] == ["call_1", "call_2"]  # type: ignore[index,union-attr]


async def test_server_specific_fields_are_sent_back() -> None:
    """Fields that a server adds to its message are kept; those that no server reads are left out."""
    function = {"name": "read_document", "arguments": '{"name": "a"}'}
    calls: list[dict[str, object]] = [
        {"id": "c", "type": "function", "function": function, "extra_content": {"signature": "sealed"}}
    ]
    kept: dict[str, object] = {"role": "assistant", "reasoning_content": "Hm.", "tool_calls": calls}

    unread: dict[str, object] = {"content": None, "refusal": None, "annotations": []}
    reply = await reply_to("chat", completion(kept | unread, "tool_calls"))

    assert reply.provider_items == (kept,)


async def test_replies_that_deviate_from_openais_are_understood() -> None:
    """Thoughts are no answer, filtered content is a refusal, and more cached tokens than were sent are no usage."""
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 11}}
    answered = {"message": {"content": "{}"}, "finish_reason": "stop"}
    cases = [
        *((saying(f'{before}{{"a": 1}}{after}'), "answer", '{"a": 1}') for before, after in (("", ""), ("\n ", " \n"))),
        (saying('<think>The user wants {"b": 2}.\n</think>\n\n{"a": 1}'), "answer", '{"a": 1}'),
        (saying('<think></think>{"a": 1}'), "answer", '{"a": 1}'),
        (saying("<think>Hm.</think>"), "empty", None),
        (raw(b'{"choices": []}'), "empty", None),
        (completion({"content": "So"}, "content_filter"), "refused", None),
        (raw({"choices": [answered], "usage": usage}), "answer", "{}"),
    ]
    replies = [await reply_to("chat", scripted) for scripted, _, _ in cases]

    assert [reply.stop for reply in replies] == [stop for _, stop, _ in cases]
    assert [text for _, _, text in cases if text] == [reply.text for reply in replies if reply.stop == "answer"]
    assert replies[-1].usage is None
