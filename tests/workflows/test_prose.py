"""An agent that answers in prose where JSON is due, on both vendors' wires."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from chargehand.client import Chargehand
from chargehand.contracts import Report, SessionRequest
from tests.in_memory_temporal import in_memory_client
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, answer, plan, saying, subtask
from worker.composition import compose
from worker.settings import Settings

PROSE: Final = "The notice is three months, as clause 4 says."
WIRES: Final = {
    "anthropic": ("anthropic_base_url", "base_url", {"anthropic_api_key": "test"}),
    "openai": ("openai_base_url", "openai_url", {"openai_api_key": "test", "provider": "openai"}),
}


async def run(wire: str, folder: Path, *replies: ScriptedReply) -> tuple[Report, list[ScriptedRequest]]:
    """Run a session of one agent that replies so; returns the report, and what the agent was asked."""
    setting, url, keys = WIRES[wire]
    agent = iter(replies)

    def respond(request: ScriptedRequest) -> ScriptedReply:
        if request.answer == "PlanAnswer":
            return plan(subtask("T1", "researcher", "Read the lease, and say what its notice is."))
        return next(agent) if request.answer == "WorkAnswer" else saying("It is fine.")

    async with AsyncExitStack() as closing:
        provider = await closing.enter_async_context(ScriptedProvider(respond))
        settings = Settings.model_validate({"state_dir": folder, setting: getattr(provider, url), **keys})
        client = await closing.enter_async_context(in_memory_client(await compose(settings, {}, closing)))
        request = SessionRequest(goal="What is the notice of our lease?", review="never")
        session = await Chargehand(client, settings.task_queue).start(request)
        report = await session.result()
    return report, [request for request in provider.requests if request.answer == "WorkAnswer"]


@pytest.mark.parametrize("wire", WIRES)
async def test_what_an_agent_says_in_prose_is_kept(wire: str, tmp_path: Path) -> None:
    """It is shown its own words once, to put them in JSON; if it does not, they are a partial outcome with a gap."""
    better = f"{PROSE} That is the end of May."
    report, asked = await run(wire, tmp_path, saying(PROSE), saying(better))

    assert [message.text for message in asked[1].messages if message.role == "assistant"] == [PROSE]
    assert (report.answer, report.stop_reason, report.confidence) == (better, "partial", 20)
    [gap] = report.gaps
    assert "answered in prose" in gap


@pytest.mark.parametrize("wire", WIRES)
async def test_a_correction_and_words_around_json_are_read(wire: str, tmp_path: Path) -> None:
    """An agent that puts its words in JSON, or says how it came to it first, has answered; broken JSON is no prose."""
    draft = answer("Three months.")
    around = saying(f"I have read clause 4.\n```json\n{draft.text}\n```\nThat is all.")
    corrected, _ = await run(wire, tmp_path / "a", saying(PROSE), draft)
    wordy, asked = await run(wire, tmp_path / "b", around)
    broken, _ = await run(wire, tmp_path / "c", *[saying(draft.text[:-1])] * 8)

    assert [(each.answer, each.gaps) for each in (corrected, wordy)] == [("Three months.", ())] * 2
    assert len(asked) == 1
    assert (broken.stop_reason, "Three months" in broken.answer) == ("nothing_succeeded", False)
