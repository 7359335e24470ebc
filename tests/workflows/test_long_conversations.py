"""Long conversations: each turn sends what is new, and they begin anew before they fill the model's window."""

import shutil
from pathlib import Path

import pytest

from activities.contracts.model import ModelCard
from activities.contracts.rounds import Note
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.compact_conversation import CompactTask, NoteDraft
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, Report, SessionRequest, Source, Tier
from tests.environment import PRICES, open_environment
from tests.scripted_model import Script, ScriptedModel, Turn, answer, compacted, found, reply, subtask, use, work_task
from tests.workflows.conftest import OpenEnvironment

_ROUNDS = 8
_READ = "word " * 1_000
_READING = (
    Script()
    .plan(subtask("T1"))
    .work("", *(use("search_documents", about=number) for number in range(_ROUNDS)), answer("Known."))
)
"""Reads something new in each round, and answers in the last."""


def _request() -> SessionRequest:
    return SessionRequest(goal="What do the documents say?", limits=Limits(max_turns=30))


@pytest.mark.real_server
async def test_every_turn_sees_the_whole_conversation_and_sends_what_is_new(environment: OpenEnvironment) -> None:
    """The model is given every earlier round, in order; the history grows with turns, not with their square."""
    async with environment(_READING) as opened:
        opened.tools["search_documents"].answer = found("big.md#L1", _READ)
        result = await opened.run(_request())
        handle = opened.chargehand.client.get_workflow_handle(result.subtasks[0].workflow_id or "")
        history = await handle.fetch_history()

    asked = opened.model.tasks(WorkTask)
    sent = [
        event.activity_task_scheduled_event_attributes.input.ByteSize()
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == "take_turn"
    ]
    assert [len(task.rounds) for task in asked] == list(range(_ROUNDS + 1))
    assert [past.calls[0].arguments["query"] for past in asked[-1].rounds] == [
        f"search_documents 1 {number}" for number in range(_ROUNDS)
    ]
    assert len(sent) == _ROUNDS + 1
    # One round is sent when it is new, beside the few words of a request; two could not fit.
    assert max(sent[2:]) < 2 * len(_READ)


async def test_a_worker_that_lacks_a_conversation_is_sent_all_of_it(tmp_path: Path) -> None:
    """What was kept can vanish between any two turns: nothing is lost, and nothing is paid twice."""

    def forgetful(call: ModelCall) -> Turn:
        shutil.rmtree(tmp_path / "conversations", ignore_errors=True)
        return _READING(call)

    async with open_environment(None, tmp_path, forgetful) as opened:
        opened.tools["search_documents"].answer = found("big.md#L1", _READ)
        result = await opened.run(_request())

    assert result.answer == "Known."
    assert len(opened.model.of_kind("work")) == _ROUNDS + 1
    assert result.usage.turns == len(opened.model.calls)


GOAL = SessionRequest(goal="What do the documents say?", review="never", limits=Limits(max_turns=60, max_rounds=20))
READ = Source(ref="search_documents.md#L1", title="A title", quote="what search_documents read")
QUOTED = READ.model_copy(update={"quote": "documents read"})
CARDS = {
    tier: ModelCard(provider="scripted", name=f"scripted-{tier}", prices=PRICES, context_window=8_000) for tier in Tier
}
ROUNDS = 7


def measured(call: ModelCall, made: ModelReply) -> ModelReply:
    """Have a reply report as many input tokens as its prompt probably had."""
    tokens = sum(len(message.model_dump_json()) for message in call.messages) // 4
    assert made.usage is not None
    return made.model_copy(update={"usage": made.usage.model_copy(update={"input_tokens": tokens})})


def reading_for_long(call: ModelCall, rounds_before: list[int]) -> ModelReply:
    """Read something new in each of so many rounds, whatever the conversation, then answer."""
    rounds_before.append(len(work_task(call).rounds))
    number = len(rounds_before)
    if number > ROUNDS:
        return measured(call, reply(answer("It says so.", ref=READ.ref, quote=QUOTED.quote)))
    return measured(call, use("search_documents", about=f"{number} {'x' * 7_000}"))


async def run(folder: Path, compaction: Turn) -> tuple[Report, ScriptedModel, list[int]]:
    rounds_before: list[int] = []
    script = (
        Script()
        .plan(subtask("T1"))
        .work("", lambda call: reading_for_long(call, rounds_before))
        .on("compact", compaction)
    )
    async with open_environment(None, folder, script, cards=CARDS) as opened:
        return await opened.run(GOAL), opened.model, rounds_before


async def test_a_long_conversation_begins_anew(tmp_path: Path) -> None:
    """Before a turn would fill three fifths of the window, the agent sums up; the next turn sees the summary and the
    notes and none of the rounds, and may cite what it read before."""
    noted = NoteDraft(claim="It says so.", ref=READ.ref, quote=QUOTED.quote)
    invented = NoteDraft(claim="It says more.", ref="nowhere.md", quote="more")

    result, model, rounds = await run(tmp_path, compacted("So far: so.", noted, invented))

    summaries = model.tasks(CompactTask)
    begun_anew = [task for task in model.tasks(WorkTask) if task.summary and not task.rounds]
    assert len(summaries) == len(begun_anew) > 1
    assert max(rounds) < 4
    assert {(task.summary, task.notes) for task in begun_anew} == {
        ("So far: so.", (Note(claim="It says so.", source=QUOTED),))
    }
    assert result.stop_reason == "completed"
    assert result.sources == (QUOTED,)
    # Only the compaction's own turns come on top, each booked for its purpose.
    assert result.usage.turns == 1 + ROUNDS + 1 + len(summaries)
    assert sum(line.usage.turns for line in result.spend if line.purpose == "compact") == len(summaries)
    assert_continues_the_conversation(model)


def assert_continues_the_conversation(model: ScriptedModel) -> None:
    """The turn that sums up repeats the prompt before it word for word, so that the provider's cache holds, and allows
    no tools."""
    position = next(number for number, call in enumerate(model.calls) if isinstance(call.task, CompactTask))
    before, summing_up = model.calls[position - 1], model.calls[position]
    assert summing_up.messages[: len(before.messages)] == before.messages
    assert (summing_up.system, summing_up.tools) == (before.system, before.tools)
    assert not summing_up.may_use_tools
    assert "Answer with JSON:\n- summary:" in summing_up.messages[-1].text


async def test_without_a_summary_the_agent_goes_on_from_what_it_read(tmp_path: Path) -> None:
    """A model that does not sum up costs its turn; the next conversation begins with a list of the sources."""
    result, model, _ = await run(tmp_path, answer("Not a summary."))

    begun_anew = [task for task in model.tasks(WorkTask) if task.summary and not task.rounds]
    assert all(f"- [{READ.ref}] {READ.title}: {READ.quote}" in task.summary for task in begun_anew)
    assert len(begun_anew) > 1
    assert result.stop_reason == "completed"
    assert [source.ref for source in result.sources] == [READ.ref]
