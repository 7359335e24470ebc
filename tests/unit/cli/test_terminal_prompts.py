"""Asking at the terminal: each question once, and no longer than it is open."""

import asyncio
from collections.abc import Callable

import pytest

from chargehand import Answer, Plan, Question, SessionRequest, Status, Subtask
from chargehand_cli.live_tree import Lines
from chargehand_cli.prompts import Prompts
from chargehand_plugins.testing import StandInChargehand, StandInSession, report_of
from tests.unit.cli.reports import at
from tests.waiting import until

_YEAR = Question(subtask="T1", agent="reader", text="Which year?", open_until=at(300))
_PLACE = Question(subtask="T2", agent="analyst", text="Which place?", open_until=at(300))


class Typist:
    """Somebody at the terminal, who types when told to."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.reads = 0

    async def read(self) -> str:
        self.reads += 1
        return await self.lines.get()


async def _session() -> tuple[StandInSession, Callable[[], list[object]]]:
    chargehand = StandInChargehand(report_of("Done."))
    session = await chargehand.start(SessionRequest(goal="What is new?"))
    return session, lambda: [content for _, content in chargehand.sent[session.id]]


def _prompt(session: StandInSession, typist: Typist) -> Prompts:
    return Prompts(session, Lines(session.id, write=lambda _: None), typist.read)


def _asking(*questions: Question) -> Status:
    return Status(session="s", goal="g", state="awaiting_answer", questions=questions)


async def test_questions_are_asked_one_after_another() -> None:
    """The second one is put when the first is answered; an answer names its subtask."""
    session, answers = await _session()
    typist = Typist()
    prompt = _prompt(session, typist)

    await prompt.update(_asking(_YEAR, _PLACE))
    await typist.lines.put("1987")
    await until(lambda: _count(answers, 1))
    await prompt.update(_asking(_PLACE))
    await typist.lines.put("Here")
    await until(lambda: _count(answers, 2))
    await prompt.close()

    assert answers() == [Answer(subtask="T1", text="1987"), Answer(subtask="T2", text="Here")]


async def _count(answers: Callable[[], list[object]], expected: int) -> bool:
    return len(answers()) == expected


async def test_an_empty_line_leaves_a_question_open_and_it_is_not_put_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever does not want to answer is told how to do it later, and left alone."""
    session, answers = await _session()
    typist = Typist()
    prompt = _prompt(session, typist)

    await prompt.update(_asking(_YEAR))
    await typist.lines.put("")
    await until(lambda: _asked_all(typist))
    for _ in range(3):
        await prompt.update(_asking(_YEAR))
    await prompt.close()

    assert typist.reads == 1
    assert answers() == []
    assert f"`chargehand answer {session.id} --subtask T1 TEXT`" in capsys.readouterr().err


async def _asked_all(typist: Typist) -> bool:
    return typist.lines.empty() and typist.reads == 1


async def test_a_question_that_is_not_open_any_more_is_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    """When its time is up, or somebody else answered, the terminal is free again and nothing is sent."""
    session, answers = await _session()
    typist = Typist()
    prompt = _prompt(session, typist)

    await prompt.update(_asking(_YEAR))
    await until(lambda: _asked_all(typist))
    await prompt.update(_asking())
    await typist.lines.put("1987")
    await prompt.close()

    assert answers() == []
    assert "T1 is no longer waiting for an answer." in capsys.readouterr().err


async def test_a_prompt_that_is_interrupted_says_nothing_of_the_session(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends the prompt; neither the plan nor the question is decided by that."""
    plan = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find it."),))
    for status in (_asking(_YEAR), Status(session="s", goal="g", state="awaiting_approval", plan=plan)):
        session, _ = await _session()
        typist = Typist()
        prompt = _prompt(session, typist)
        await prompt.update(status)
        await until(lambda: _asked_all(typist))  # noqa: B023  # awaited within the loop
        await prompt.close()

    said = capsys.readouterr().err
    assert "[a]pprove" in said
    assert "is decided" not in said
    assert "no longer waiting" not in said


async def test_an_answer_that_cannot_be_sent_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    """What the contract refuses is explained instead of ending the command."""
    session, answers = await _session()
    typist = Typist()
    prompt = _prompt(session, typist)

    await prompt.update(_asking(_YEAR))
    await typist.lines.put("x" * 4_001)
    await until(lambda: _said(capsys, "Not accepted: Invalid Answer: text"))
    await prompt.close()

    assert answers() == []


async def _said(capsys: pytest.CaptureFixture[str], words: str) -> bool:
    return words in capsys.readouterr().err
