"""Long conversations: each turn sends what is new, whole histories grow with turns and not with their square."""

import shutil
from pathlib import Path

import pytest

from activities.models.protocol import ModelCall
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from tests.environment import open_environment
from tests.scripted_model import Script, Turn, answer, found, subtask, use
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
