"""What people decide is in the record outside Temporal before it has an effect."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chargehand.contracts import Limits, RewordSubtask, SessionRequest
from chargehand.errors import UpdateRefused
from chargehand.record import FOLDER, Record
from tests.scripted_model import Script, answer, request_tools, subtask
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_tool_approval import complaints_desk, pending
from workflows import options

_REQUEST = SessionRequest(
    goal="Settle the complaints.",
    crew="desk",
    review="never",
    approval="plan",
    questions="allowed",
    limits=Limits(max_turns=30),
)
_WORDS = "Refund the customer, please."


@contextmanager
def _without(record: Path) -> Generator[None]:
    """Keep workers from writing to the record."""
    aside = record.rename(record.with_name("aside"))
    record.touch()
    yield
    record.unlink()
    aside.rename(record)


async def test_a_decision_is_recorded_or_has_no_effect(
    environment: OpenEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every kind: one that cannot be recorded is refused, and is still open; who decided what is in the record."""
    monkeypatch.setitem(options.CHECK, "schedule_to_close_timeout", timedelta(seconds=0.5))
    question = answer("", status="ambiguous_input").model_copy(update={"message": "Refund whom?"})
    work = (request_tools(("refund", {"amount": 20})), answer("Settled."))
    script = Script().plan(subtask("T1", agent="clerk")).work("", question).work(_WORDS, *work)
    crews = (complaints_desk(tmp_path, 'approve = ["refund"]'),)
    async with environment(
        script, own_crews=crews, acting=("refund", "fraud_check", "letter"), cached_workflows=0
    ) as opened:
        session = await opened.chargehand.start(_REQUEST)

        async def decide(decision: Callable[[], Awaitable[object]]) -> None:
            before = await session.status()
            with _without(tmp_path / FOLDER), pytest.raises(UpdateRefused, match="could not be recorded"):
                await decision()
            after = await session.status()
            assert (after.state, after.decisions, after.max_turns) == (before.state, before.decisions, before.max_turns)
            assert (opened.tools["refund"].calls, after.edits) == ([], before.edits)
            await decision()

        await until_state(session, "awaiting_approval")
        edit = RewordSubtask(subtask="T1", instruction="Refund the fee for the late delivery.")
        await decide(partial(session.edit_plan, edits=(edit,)))
        await decide(partial(session.raise_limits, max_turns=40, by="Ann"))
        await decide(partial(session.decide_plan, decision="approve", by="Ann"))
        await until_state(session, "awaiting_answer")
        await decide(partial(session.answer, subtask="T1", text=_WORDS, by="Bea"))
        [call] = await pending(session, 1)
        edited: Any = {"call": call.id, "hash": call.hash, "decision": "edit", "arguments": {"amount": 19}, "by": "Bea"}
        await decide(lambda: session.decide_call(**edited))
        await asyncio.wait_for(session.result(), 60)

    record = Record(tmp_path)
    assert [(each.name, each.content) for each in record.decisions(session.id)] == [
        ("edit_plan", {"edits": [edit.model_dump(mode="json")]}),
        ("raise_limits", {"max_turns": 40, "by": "Ann"}),
        ("decide_plan", {"decision": "approve", "by": "Ann"}),
        ("answer", {"subtask": "T1", "text": _WORDS, "by": "Bea"}),
        ("decide_call", edited),
    ]
    [made] = record.calls(session.id)
    assert (made.begun.arguments, made.begun.decision) == ({"amount": 19}, "edited by Bea")
