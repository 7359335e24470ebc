"""Prompts at the terminal: each question once, and only as long as it is open."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from chargehand import Answer, Plan, Question, SessionRequest, Status, Subtask
from chargehand.contracts import EndEvent, Transcript
from chargehand_cli.live_session import Prompts
from chargehand_cli.live_tree import Lines
from chargehand_cli.verbs.chat import Chat
from chargehand_plugins.testing import StandInChargehand, StandInSession, report_of
from tests.unit.cli.reports import at
from tests.waiting import until

_YEAR = Question(subtask="T1", agent="reader", text="Which year?", open_until=at(300))
_PLACE = Question(subtask="T2", agent="analyst", text="Which place?", open_until=at(300))


class Terminal:
    """The prompts of a session with a person, who types on request."""

    def __init__(self, chargehand: StandInChargehand, session: StandInSession) -> None:
        self.session, self.typed = session, asyncio.Queue[str]()
        self._chargehand, self.reads = chargehand, 0
        self.prompts = Prompts(session, Lines(write=lambda _: None), self._read)
        self.update, self.close = self.prompts.update, self.prompts.close

    @property
    def sent(self) -> list[object]:
        return [content for _, content in self._chargehand.sent[self.session.id]]

    async def _read(self) -> str:
        self.reads += 1
        return await self.typed.get()

    async def has_asked(self) -> None:
        """Wait until a question is displayed and all typed input has been read."""
        await until(lambda: self.typed.empty() and self.reads == 1)


@pytest.fixture
async def terminal() -> Terminal:
    chargehand = StandInChargehand(report_of("Done."))
    return Terminal(chargehand, await chargehand.start(SessionRequest(goal="What is new?")))


def _asking(*questions: Question) -> Status:
    return Status(session="s", goal="g", state="awaiting_answer", questions=questions)


_PLANNED = Status(
    session="s",
    goal="g",
    state="awaiting_approval",
    plan=Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find it."),)),
)


async def test_an_empty_line_skips_a_question_without_asking_again(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    await terminal.update(_asking(_YEAR))
    await terminal.typed.put("")
    await terminal.has_asked()
    for _ in range(3):
        await terminal.update(_asking(_YEAR))
    await terminal.close()

    assert terminal.reads == 1
    assert terminal.sent == []
    assert f"`chargehand answer {terminal.session.id} --subtask T1 TEXT`" in capsys.readouterr().err


async def test_a_question_that_is_no_longer_open_is_withdrawn(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    await terminal.update(_asking(_YEAR))
    await terminal.has_asked()
    await terminal.update(_asking())
    await terminal.typed.put("1987")
    await terminal.close()

    assert terminal.sent == []
    assert "T1 is no longer waiting for an answer." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "asked"), [(_asking(_YEAR), "Which year?"), (_PLANNED, "[a]pprove")], ids=["question", "plan"]
)
async def test_interrupting_a_prompt_decides_nothing(
    terminal: Terminal, capsys: pytest.CaptureFixture[str], status: Status, asked: str
) -> None:
    await terminal.update(status)
    await terminal.has_asked()
    await terminal.close()

    said = capsys.readouterr().err
    assert asked in said
    assert "is decided" not in said
    assert "no longer waiting" not in said


async def test_a_rejected_answer_is_explained_and_asked_for_again(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    await terminal.update(_asking(_YEAR))
    await terminal.typed.put("x" * 4_001)
    await until(lambda: "Not accepted: The answer is invalid: text" in capsys.readouterr().err)
    await terminal.typed.put("1987")
    await until(lambda: len(terminal.sent) == 1)
    await terminal.close()

    assert terminal.sent == [Answer(subtask="T1", text="1987")]


async def test_an_idle_conversation_is_not_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat follows its events instead."""
    asked, ends = list[str](), asyncio.Event()

    async def transcript() -> Transcript:
        asked.append("transcript")
        return Transcript()

    async def status() -> Status:
        asked.append("status")
        return Status(session="talk", goal="", state="finished", stop_reason="closed")

    async def follow() -> AsyncGenerator[EndEvent]:
        await ends.wait()
        yield EndEvent(session="talk", subtask="", at=at(0), state="completed")

    talk: Any = SimpleNamespace(transcript=transcript, status=status, follow=follow)
    monkeypatch.setattr("chargehand_cli.verbs.chat._LOOK_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stdin", os.fdopen(os.pipe()[0]))
    holding = asyncio.create_task(Chat(talk, as_json=True).hold())
    for _ in range(1_000):  # rounds of the loop, in which polling code would query
        await asyncio.sleep(0)
    idle = [*asked]
    ends.set()

    assert (await holding, idle, asked) == (True, ["transcript"], ["transcript", "transcript", "status"])
