"""The scripted provider keeps its word to the suite that rests on it."""

import httpx2
import pytest

from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.registry import TASK_TYPES
from activities.turn_kinds.synthesis import SynthesisAnswer
from activities.turn_kinds.work import WorkAnswer
from tests.activities.models.calls import WIRES, Wire, a_call, a_provider, round_of
from tests.scripted_provider import (
    ScriptedProvider,
    ScriptedReply,
    ScriptedRequest,
    answer,
    canned_session,
    dropping,
    error,
)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_canned_session_goes_to_its_end(wire: Wire) -> None:
    """By default there are a plan of five subtasks, a tool call and an answer for each, and a report."""
    agents = "Agents:\n- reader: Reads. Tools: read_document.\n- writer: Writes. Tools: none."
    async with a_provider(wire, canned_session()) as (server, model):
        planned = await model.complete(
            a_call(wire, tools=(), answer_type=PlanAnswer).model_copy(update={"system": agents})
        )
        asked = await model.complete(a_call(wire))
        answered = await model.complete(a_call(wire, messages=round_of(asked, "At eight.")))
        reported = await model.complete(a_call(wire, tools=(), answer_type=SynthesisAnswer))

    plan = PlanAnswer.model_validate_json(planned.text)
    assert [(subtask.id, subtask.agent) for subtask in plan.subtasks] == [(f"T{n}", "reader") for n in range(1, 6)]
    assert len({subtask.instruction for subtask in plan.subtasks}) == 5
    assert [call.tool for call in asked.tool_calls] == ["search_documents"]
    assert WorkAnswer.model_validate_json(answered.text).status == "success"
    assert SynthesisAnswer.model_validate_json(reported.text).answer
    assert server.charges == 4


async def test_the_canned_session_answers_whatever_is_asked() -> None:
    """Every kind of task gets an answer of its own shape."""
    for kind in sorted(TASK_TYPES):
        async with a_provider("responses", canned_session(rounds=0)) as (_, model):
            reply = await model.complete(a_call("responses", tools=(), answer_type=TASK_TYPES[kind].answer_type))
        assert TASK_TYPES[kind].answer_type.model_validate_json(reply.text)


async def test_only_what_a_provider_would_bill_is_counted() -> None:
    """Errors are free; an answer that got lost on its way is not."""
    replies = iter([error(500), answer(), dropping()])
    async with ScriptedProvider(lambda _: next(replies)) as server, client_of(server) as client:
        for _ in range(2):
            await client.post("/v1/messages", json={"model": "m", "messages": []})
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post("/v1/messages", json={"model": "m", "messages": []})

    assert (len(server.requests), server.charges) == (3, 2)


async def test_a_script_that_fails_is_never_taken_for_a_provider_that_does() -> None:
    """The client sees a 500, and the test that owns the script sees the mistake."""

    def respond(_: ScriptedRequest) -> ScriptedReply:
        raise KeyError("a mistake in the script")

    server = ScriptedProvider(respond)
    await server.start()
    async with client_of(server) as client:
        response = await client.post("/v1/messages", json={"model": "m", "messages": []})
    with pytest.raises(BaseExceptionGroup) as caught:
        await server.stop()

    assert response.status_code == 500
    assert [str(inner) for inner in caught.value.exceptions] == ["'a mistake in the script'"]


def client_of(server: ScriptedProvider) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.base_url, trust_env=False)
