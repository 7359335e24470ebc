"""Whole sessions on real worker processes that speak to a scripted provider through the vendors' own SDKs."""

import asyncio
import json
import signal
from collections import Counter, defaultdict
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import AgentTextEvent, Report, SessionRequest
from chargehand.session import Session
from tests.acceptance.workers import worker_process
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, answer, canned_session
from tests.waiting import until

GOAL = SessionRequest(goal="Look into all parts of the matter, please.")
SMALL_PRICES = {"small-1": [1, 5], "medium-1": [2, 10], "large-1": [4, 20]}


def settings(provider: str, url: str, client: Client, folder: Path) -> dict[str, str]:
    """Set a worker up for a provider at an address, on a task queue of its own."""
    own = {
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "CHARGEHAND_TASK_QUEUE": f"wire-{uuid4().hex[:8]}",
        "CHARGEHAND_STATE_DIR": str(folder),
    }
    models = {tier: f"{tier}-1" for tier in ("small", "medium", "large")}
    return (
        own
        | {
            "anthropic": {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": url},
            "openai": {"CHARGEHAND_PROVIDER": "openai", "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{url}/v1"},
            "openai_compatible": {
                "OPENAI_BASE_URL": f"{url}/v1",
                "CHARGEHAND_MODELS": json.dumps(models),
                "CHARGEHAND_PRICES": json.dumps(SMALL_PRICES),
            },
        }[provider]
    )


@pytest.mark.nightly
@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai_compatible"])
async def test_a_session_runs_and_is_followed_on_every_wire(client: Client, tmp_path: Path, provider: str) -> None:
    """Through each vendor's SDK the books equal what was charged, and text is read while the stream still brings it."""
    words = "This part was looked into, at some length. " * 8
    canned = canned_session(subtasks=2)

    def respond(request: ScriptedRequest) -> ScriptedReply:
        is_answer = request.answer not in {"PlanAnswer", "SynthesisAnswer"} and not canned(request).tools
        return answer(words).spaced(0.25) if is_answer else canned(request)

    texts, parts = defaultdict[str, str](str), Counter[str]()
    async with ScriptedProvider(respond) as server:
        chosen = settings(provider, server.base_url, client, tmp_path)
        async with worker_process(chosen):
            chargehand = Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"])
            session = await chargehand.start(GOAL.model_copy(update={"live_text": "agents"}))
            async for event in session.follow():
                if isinstance(event, AgentTextEvent):
                    texts[event.subtask] = texts[event.subtask][: event.offset] + event.text
                    parts[event.subtask] += 1
            result = await asyncio.wait_for(session.result(), 60)

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
async def test_a_killed_worker_loses_nothing_and_pays_no_completed_turn_again(client: Client, tmp_path: Path) -> None:
    """The session completes on another worker; only the call that was running is made again, charged and named."""
    canned = canned_session()
    go_on = asyncio.Event()
    held = asyncio.Event()

    async def respond(request: ScriptedRequest) -> ScriptedReply:
        if request.rounds == 1 and "part 3 of" in request.text and not go_on.is_set():
            held.set()
            await go_on.wait()
        reply = canned(request)
        assert isinstance(reply, ScriptedReply)
        return reply

    async with ScriptedProvider(respond) as server:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        chargehand = Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"])
        async with worker_process(chosen) as first:
            session = await chargehand.start(GOAL)
            await asyncio.wait_for(held.wait(), 60)
            await until(lambda: _succeeded(session, 4), 60)
            first.send_signal(signal.SIGKILL)
            await first.wait()
        go_on.set()
        async with worker_process(chosen):
            result: Report = await asyncio.wait_for(session.result(), 60)
        asked = Counter(json.dumps(request.body, sort_keys=True) for request in server.requests)

    assert result.stop_reason == "completed"
    assert [record.state for record in result.subtasks] == ["success"] * 5
    assert result.usage.turns == 12
    assert sorted(asked.values()) == [1] * 11 + [2]
    assert result.usage.possibly_billed_twice_usd > 0
    assert result.usage.cost_usd < GOAL.limits.budget_usd
