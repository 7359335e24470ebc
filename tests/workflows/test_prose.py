"""An agent that answers in prose where JSON is required, on both vendors' wires."""

from collections.abc import Callable, Sequence
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


async def run(wire: str, folder: Path, *scripts: Sequence[ScriptedReply]) -> list[tuple[Report, list[ScriptedRequest]]]:
    """Run single-agent sessions with these replies; return the reports, and the agents' requests."""
    setting, url, keys = WIRES[wire]
    ended = list[tuple[Report, list[ScriptedRequest]]]()
    async with AsyncExitStack() as closing:
        provider = await closing.enter_async_context(ScriptedProvider(lambda _: saying("It is fine.")))
        settings = Settings.model_validate({"state_dir": folder, setting: getattr(provider, url), **keys})
        client = await closing.enter_async_context(in_memory_client(await compose(settings, {}, closing)))
        request = SessionRequest(goal="What is the notice of our lease?", review="never")
        for replies in scripts:
            provider.respond, asked = _agent(replies), len(provider.requests)
            session = await Chargehand(client, settings.task_queue).start(request)
            report = await session.result()
            ended.append((report, [each for each in provider.requests[asked:] if each.answer == "WorkAnswer"]))
    return ended


def _agent(replies: Sequence[ScriptedReply]) -> Callable[[ScriptedRequest], ScriptedReply]:
    agent = iter(replies)

    def respond(request: ScriptedRequest) -> ScriptedReply:
        if request.answer == "PlanAnswer":
            return plan(subtask("T1", "researcher", "Read the lease, and say what its notice is."))
        return next(agent) if request.answer == "WorkAnswer" else saying("It is fine.")

    return respond


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_in_prose_is_kept_as_partial(wire: str, tmp_path: Path) -> None:
    """The agent may first put its words into JSON; text around valid JSON is fine, and broken JSON is not prose."""
    better, draft = f"{PROSE} That is the end of May.", answer("Three months.")
    around = saying(f"I have read clause 4.\n```json\n{draft.text}\n```\nThat is all.")
    replies = ([saying(PROSE), saying(better)], [saying(PROSE), draft], [around], [saying(draft.text[:-1])] * 8)
    (kept, asked), (corrected, _), (wordy, once), (broken, _) = await run(wire, tmp_path, *replies)

    assert [message.text for message in asked[1].messages if message.role == "assistant"] == [PROSE]
    assert (kept.answer, kept.stop_reason, kept.confidence) == (better, "partial", 20)
    [gap] = kept.gaps
    assert "answered in prose" in gap
    assert [(each.answer, each.gaps) for each in (corrected, wordy)] == [("Three months.", ())] * 2
    assert len(once) == 1
    assert (broken.stop_reason, "Three months" in broken.answer) == ("nothing_succeeded", False)
