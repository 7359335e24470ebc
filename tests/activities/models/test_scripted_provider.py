"""The scripted provider keeps its word to the suite that rests on it."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import httpx2
import pytest

from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.registry import TASK_TYPES
from activities.turn_kinds.synthesis import SynthesisAnswer
from activities.turn_kinds.work import WorkAnswer
from tests.activities.models.calls import MODELS, WIRES, Wire, a_call, a_provider, round_of
from tests.scripted_provider import (
    Exchange,
    ScriptedProvider,
    ScriptedReply,
    ScriptedRequest,
    answer,
    canned_session,
    dropping,
    error,
)

ROOT = Path(__file__).parents[3]


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


@pytest.mark.parametrize("kind", sorted(TASK_TYPES))
async def test_the_canned_session_answers_whatever_is_asked(kind: str) -> None:
    """Every kind of task gets an answer of its own shape."""
    async with a_provider("responses", canned_session(rounds=0)) as (_, model):
        reply = await model.complete(a_call("responses", tools=(), answer_type=TASK_TYPES[kind].answer_type))

    assert TASK_TYPES[kind].answer_type.model_validate_json(reply.text)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_request_is_told_without_its_wire(wire: Wire) -> None:
    """System text, messages, tools and the answer's shape read the same, whoever was asked."""
    async with a_provider(wire, lambda _: answer()) as (server, model):
        await model.complete(a_call(wire))
        (request,) = server.requests

    assert (request.sequence, request.wire, request.model) == (1, wire, MODELS[wire])
    assert request.system.startswith("You are the reader.")
    assert [(message.role, message.text) for message in request.messages] == [("user", "When does the ferry leave?")]
    assert (request.tools, request.answer, request.rounds) == (
        ("search_documents", "read_document"),
        "WorkAnswer",
        0,
    )


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


async def test_the_order_of_events_is_recorded() -> None:
    """An exchange says when it arrived and when it was answered; a delay lies between the two."""
    async with ScriptedProvider(lambda _: answer().after(0.05)) as server, client_of(server) as client:
        await client.post("/v1/messages", json={"model": "m", "messages": []})
        (exchange,) = server.exchanges

    assert isinstance(exchange, Exchange)
    assert exchange.answered_at is not None
    # Timers may fire a clock tick early.
    assert exchange.answered_at - exchange.request.arrived_at > 0.045


async def test_it_runs_in_a_process_of_its_own() -> None:
    """`python -m tests.scripted_provider` says where it is, answers, tells what it was asked, and ends by SIGTERM."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.scripted_provider", "--port", "0"),
        *("--script", "tests.scripted_provider.session:respond"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    address = (await process.stdout.readline()).decode().strip()
    async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
        reply = await client.post("/v1/messages", json={"model": "m", "messages": []})
        log = (await client.get("/requests")).json()
    process.send_signal(signal.SIGTERM)

    assert await process.wait() == 0
    assert WorkAnswer.model_validate_json(reply.json()["content"][0]["text"]).status == "success"
    assert [(entry["request"]["sequence"], entry["kind"], entry["charged"]) for entry in log] == [(1, "text", True)]
    assert json.dumps(log)


def client_of(server: ScriptedProvider) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.base_url, trust_env=False)
