"""Whole sessions on real workers, some of which are killed, and a scripted provider behind the vendors' own SDKs."""

import asyncio
import json
import signal
from collections import Counter, defaultdict
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import AgentTextEvent, Limits, Report, SessionRequest
from chargehand.session import Session
from chargehand.visibility import describe
from tests import scripted_provider as scripted
from tests.acceptance.workers import worker_process
from tests.waiting import until

GOAL = SessionRequest(goal="Look into all parts of the matter, please.")
SMALL_PRICES = {"small-1": [1, 5], "medium-1": [2, 10], "large-1": [4, 20]}


def settings(provider: str, url: str, client: Client, folder: Path) -> dict[str, str]:
    """Return the settings of a worker for a provider at an address, with its own task queue."""
    own = {"CHARGEHAND_TASK_QUEUE": f"wire-{uuid4().hex[:8]}", "CHARGEHAND_STATE_DIR": str(folder)}
    own |= {"TEMPORAL_ADDRESS": client.service_client.config.target_host}
    models = json.dumps({tier: f"{tier}-1" for tier in ("small", "medium", "large")})
    compatible = {"CHARGEHAND_MODELS": models, "CHARGEHAND_PRICES": json.dumps(SMALL_PRICES)}
    of_provider = {
        "anthropic": {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": url},
        "openai": {"CHARGEHAND_PROVIDER": "openai", "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{url}/v1"},
        "openai_compatible": {"OPENAI_BASE_URL": f"{url}/v1", **compatible},
    }
    return own | of_provider[provider]


@pytest.mark.nightly
@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai_compatible"])
async def test_a_session_runs_and_is_followed_on_every_wire(client: Client, tmp_path: Path, provider: str) -> None:
    """Through each vendor's SDK, usage equals what was charged, and text arrives while the reply is streamed."""
    words = "This part was looked into, at some length. " * 8
    canned = scripted.canned_session(subtasks=2)

    def respond(request: scripted.ScriptedRequest) -> scripted.ScriptedReply:
        is_answer = request.answer not in {"PlanAnswer", "SynthesisAnswer"} and not canned(request).tools
        return scripted.answer(words).spaced(0.25) if is_answer else canned(request)

    texts, parts = defaultdict[str, str](str), Counter[str]()
    async with scripted.ScriptedProvider(respond) as server:
        chosen = settings(provider, server.base_url, client, tmp_path)
        async with worker_process(chosen):
            chargehand = Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"])
            session = await chargehand.start(GOAL.model_copy(update={"live_text": "agents"}))
            async for event in session.follow():
                if isinstance(event, AgentTextEvent):
                    texts[event.subtask] = texts[event.subtask][: event.offset] + event.text
                    parts[event.subtask] += 1
            result = await session.result()

    assert texts == {"T1": words, "T2": words}
    assert all(count > 1 for count in parts.values())
    assert result.answer == "All 2 parts were looked into."
    assert [record.state for record in result.subtasks] == ["success"] * 2
    assert result.usage.turns == server.charges == 6
    assert (result.usage.input_tokens, result.usage.output_tokens) == (6 * 1_000, 6 * 100)
    assert result.usage.cost_usd > 0
    assert result.usage.possibly_billed_twice_usd == 0


async def _succeeded(session: Session, count: int) -> bool:
    return sum(record.state == "success" for record in (await session.status()).subtasks) == count


@pytest.mark.slow
async def test_killed_worker_repeats_only_the_call_that_was_running(client: Client, tmp_path: Path) -> None:
    """The session completes on another worker; the repeated call is recorded as possibly billed twice."""
    canned = scripted.canned_session()
    go_on = asyncio.Event()
    held = asyncio.Event()

    async def respond(request: scripted.ScriptedRequest) -> scripted.ScriptedReply:
        if request.rounds == 1 and "part 3 of" in request.text and not go_on.is_set():
            held.set()
            await go_on.wait()
        reply = canned(request)
        assert isinstance(reply, scripted.ScriptedReply)
        return reply

    async with scripted.ScriptedProvider(respond) as server:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        chargehand = Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"])
        async with worker_process(chosen) as first:
            session = await chargehand.start(GOAL)
            await held.wait()
            await until(lambda: _succeeded(session, 4))
            first.send_signal(signal.SIGKILL)
            await first.wait()
        go_on.set()
        async with worker_process(chosen):
            result: Report = await session.result()
        asked = Counter(json.dumps(request.body, sort_keys=True) for request in server.requests)

    assert result.stop_reason == "completed"
    assert [record.state for record in result.subtasks] == ["success"] * 5
    assert result.usage.turns == 12
    assert sorted(asked.values()) == [1] * 11 + [2]
    assert result.usage.possibly_billed_twice_usd > 0
    assert result.usage.cost_usd < GOAL.limits.budget_usd


ROUNDS = 9
SUBTASKS = 4
LONG = GOAL.model_copy(update={"limits": Limits(max_turns=40, max_rounds=20), "review": "never"})
_SHORT_HISTORIES = """
import sys
from worker import program
from workflows import run_end
run_end.MOST_EVENTS = int(sys.argv[1])
sys.exit(program.main([]))
"""


def respond_at_length(request: scripted.ScriptedRequest) -> scripted.ScriptedReply:
    """Have one subtask search for something new in each round and then answer, and the others answer at once."""
    if request.answer == "PlanAnswer":
        first = scripted.subtask("T1", "researcher", "Look into it: give the facts, the figures and where they stand.")
        then = [scripted.subtask(f"T{n}", "analyst", f"Compare part {n}.") for n in range(2, SUBTASKS + 1)]
        after = [each.model_copy(update={"depends_on": [f"T{n}"]}) for n, each in enumerate(then, start=1)]
        return scripted.plan(first, *after)
    if request.tools and "Compare part" not in request.text and request.rounds < ROUNDS:
        return scripted.calling(scripted.ToolUse("search", {"query": f"fact {request.rounds}"})).after(0.05)
    return scripted.answer("It was looked into.").after(0.05)


async def _has_continued(client: Client, workflow_id: str) -> bool:
    about = (await describe(client, workflow_id)).workflow_execution_info
    return about.execution.run_id != about.first_run_id


@pytest.mark.nightly
async def test_workers_killed_at_continue_as_new_lose_no_work(client: Client, tmp_path: Path) -> None:
    """Work resumes in the new run, and every round is taken exactly once."""
    async with scripted.ScriptedProvider(respond_at_length) as server:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        chosen |= {"CHARGEHAND_STORAGE": str(tmp_path / "payloads")}
        session = await Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"]).start(LONG)

        async def subtask_continues_as_new() -> bool:
            children = (await describe(client, session.id)).pending_children
            started = [child.workflow_id for child in children if child.run_id]
            return any([await _has_continued(client, each) for each in started])

        for continues in (subtask_continues_as_new, lambda: _has_continued(client, session.id)):
            async with worker_process(chosen, "40", program=_SHORT_HISTORIES) as worker:
                await until(continues)
                worker.send_signal(signal.SIGKILL)
                await worker.wait()
        async with worker_process(chosen, "40", program=_SHORT_HISTORIES):
            result = await session.result()

    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)] * SUBTASKS
    expected = 1 + ROUNDS + SUBTASKS + 1  # plan, rounds of tools, answers, report
    assert result.usage.turns == expected
    assert next(use.used for use in result.limits if use.limit == "max_rounds") == ROUNDS + 1
    assert expected <= server.charges <= expected + 2
    assert server.charges == expected or result.usage.possibly_billed_twice_usd > 0
