"""An ambiguous subtask asks a person: the answer decides, and nobody waits for one for ever."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, Question, SessionRequest
from chargehand.errors import UpdateRefused
from chargehand.session import Session
from tests.environment import SessionEnvironment
from tests.scripted_model import Held, Script, answer, refined, subtask, topics
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(
    goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never", questions="allowed"
)
ASKED = "The fiscal year or the calendar year?"
MEANT = "The fiscal year, please."
BETTER = "Take the fiscal year, as the handbook does."


def unsure(*topics_in_doubt: str) -> Script:
    """Let the agents of these topics ask back until a person, or a better instruction, has decided."""
    script = Script().plan(*topics(2)).refine(refined(BETTER))
    for topic in topics_in_doubt:
        script = script.work(topic, _question())
    return script.work(MEANT, answer("Known."))


def _question() -> BaseModel:
    return answer("", status="ambiguous_input").model_copy(update={"message": ASKED})


def _instructions(environment: SessionEnvironment) -> list[str]:
    return [task.instruction for task in environment.model.tasks(WorkTask)]


async def _asks(session: Session, *subtasks: str) -> bool:
    return {asked.subtask for asked in (await session.status()).questions} == set(subtasks)


async def test_a_question_stands_in_the_status_and_its_answer_in_the_next_instruction(
    environment: OpenEnvironment,
) -> None:
    """The status says who asks what and until when; the subtask goes on with the answer, its sibling went on before."""
    async with environment(unsure("T1")) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"answer_within": timedelta(minutes=4)}))
        await until(lambda: _asks(session, "T1"))
        await until(lambda: _has_ended(session, "T2"))
        asking = await session.status()
        before = _instructions(opened)
        after_update = await session.answer(subtask="T1", text=MEANT)
        result = await session.result()

    [question] = asking.questions
    assert asking.started_at is not None
    assert question == Question(subtask="T1", agent="reader", text=ASKED, open_until=question.open_until)
    assert _within(question.open_until - asking.started_at, timedelta(minutes=4), timedelta(minutes=4, seconds=20))
    assert asking.state == "awaiting_answer"
    assert not any(MEANT in told for told in before)
    assert after_update.session == session.id
    first, *rest = [told for told in _instructions(opened) if "topic T1 in" in told]
    assert rest == [f"{first}\n\nA person was asked: {ASKED}\nThe answer, which decides: {MEANT}"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2), ("success", 1)]
    assert not opened.model.of_kind("refine")


def _within(length: timedelta, least: timedelta, most: timedelta) -> bool:
    return least <= length <= most


async def _has_ended(session: Session, subtask_id: str) -> bool:
    return any(record.id == subtask_id and record.ended_at for record in (await session.status()).subtasks)


async def test_an_answer_nobody_asked_for_is_refused_by_name(environment: OpenEnvironment) -> None:
    """Neither a subtask that does not ask, nor one that was answered, takes an answer; the one that waits is named."""
    held = Held(answer("Known."))
    script = unsure("T1").work(MEANT, held)
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL)
        await until(lambda: _asks(session, "T1"))
        with pytest.raises(UpdateRefused, match="subtask: 'T2' has no open question; subtasks that have one: T1"):
            await session.answer(subtask="T2", text=MEANT)
        await session.answer(subtask="T1", text=MEANT)
        with pytest.raises(UpdateRefused, match="subtask: 'T1' has no open question; subtasks that have one: none"):
            await session.answer(subtask="T1", text="The calendar year.")
        held.released.set()
        result = await session.result()

    assert _instructions(opened)[-1].endswith(MEANT)
    assert [record.state for record in result.subtasks] == ["success", "success"]


NESTED = (
    unsure("T1")
    .plan(subtask("T1"))
    .plan(subtask("N1", agent="supervisor", instruction="Look into topic T1 as a whole."), goal=GOAL.goal)
)


@pytest.mark.parametrize(
    ("script", "questions"),
    [pytest.param(unsure("T1"), "none", id="not allowed"), pytest.param(NESTED, "allowed", id="nested")],
)
async def test_who_may_not_ask_is_given_a_better_instruction(run: RunSession, script: Script, questions: str) -> None:
    """A session that allows no questions, and one below another, which nobody watches, refine at once instead."""
    result, opened = await run(script, GOAL.model_copy(update={"questions": questions}))

    assert len(opened.model.of_kind("refine")) == 1
    assert {record.state for record in result.subtasks} == {"success"}


async def test_finish_now_does_not_wait_for_an_answer(environment: OpenEnvironment) -> None:
    """A session that is told to finish drops its questions and reports what its other subtasks found."""
    async with environment(unsure("T1")) as opened:
        session = await opened.chargehand.start(GOAL)
        await until(lambda: _asks(session, "T1"))
        await until(lambda: _has_ended(session, "T2"))
        await session.finish_now()
        result = await asyncio.wait_for(session.result(), 15)
        status = await session.status()

    assert result.stop_reason == "finish_now"
    assert [record.state for record in result.subtasks] == ["escalation", "success"]
    assert ASKED in " ".join(result.gaps)
    assert status.questions == ()
