"""The command line for a session that waits for a person: questions and reached limits."""

import asyncio
import re
import signal
from pathlib import Path
from typing import Literal

import pytest
from temporalio.client import Client

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Report
from chargehand.session import Session
from tests.acceptance.commands import Commands, Ran, Terminal
from tests.environment import open_environment
from tests.parameters import first_fast
from tests.scripted_model import Held, Script, answer, report, subtask, topics
from tests.waiting import until, until_state

GOAL = "What do the documents say about the topics?"
ASKED = "The fiscal year or the calendar year?"
MEANT = "The fiscal year, please."


def asking(*topics: str) -> Script:
    """Have the agents of these topics ask until their instruction says what is meant."""
    question = answer("", status="ambiguous_input").model_copy(update={"message": ASKED})
    script = Script().plan(*map(subtask, sorted({"T1", "T2", *topics})))
    for topic in topics:
        script = script.work(topic, question)
    return script.work(MEANT, answer("Known."))


async def _asks(session: Session, count: int) -> bool:
    return len((await session.status()).questions) == count


async def test_a_question_is_answered_from_another_terminal(client: Client, tmp_path: Path) -> None:
    """`status` shows the question, the command to answer it and running turns; one question needs no --subtask."""
    held = Held(answer("Known."))
    script = asking("T1").work("topic T2", held)
    async with open_environment(client, tmp_path / "environment", script) as opened:
        chargehand = Commands.of(opened.chargehand, tmp_path)
        started = await chargehand("start", GOAL, "--questions", "--review", "never")
        session = opened.chargehand.session(started.out.strip())
        await until(lambda: _asks(session, 1))
        await held.reached.wait()
        status = await chargehand("status", session.id)
        held.released.set()
        answered = await chargehand("answer", session.id, MEANT)
        result = await session.result()
        again = await chargehand("answer", session.id, MEANT)

    assert f"T1 reader asks {ASKED}" in status.out
    assert re.search(r"T2 reader.*\n.*turn", status.out)
    assert f"Awaiting an answer: `chargehand answer {session.id} TEXT`" in status.said
    assert answered == Ran(0, "", f"Session {session.id}: T1 continues with your answer.\n")
    assert (again.code, again.out) == (1, "")
    assert again.said.startswith(f"chargehand: '{session.id}' has ended (answered")
    assert [record.state for record in result.subtasks] == ["success", "success"]
    assert any(MEANT in task.instruction for task in opened.model.tasks(WorkTask))


async def test_several_open_questions_require_the_subtask_option(client: Client, tmp_path: Path) -> None:
    """A missing or wrong --subtask lists the open questions and answers none; each question can be declined."""
    async with open_environment(client, tmp_path / "environment", asking("T1", "T2")) as opened:
        chargehand = Commands.of(opened.chargehand, tmp_path)
        started = await chargehand("start", GOAL, "--questions", "--review", "never")
        session = opened.chargehand.session(started.out.strip())
        await until(lambda: _asks(session, 2))
        unnamed, wrong, empty, *unclear = await asyncio.gather(
            chargehand("answer", session.id, MEANT),
            chargehand("answer", session.id, MEANT, "--subtask", "T9"),
            chargehand("answer", session.id, " ", "--subtask", "T1"),
            chargehand("answer", session.id),
            chargehand("answer", session.id, MEANT, "--decline"),
        )
        still_open = len((await session.status()).questions)
        answered = [
            await chargehand("answer", session.id, MEANT, "--subtask", "T2"),
            await chargehand("answer", session.id, "--decline"),
        ]
        ended = await session.result()

    assert (unnamed.code, wrong.code, empty.code) == (2, 2, 2)
    assert unnamed.said.startswith("chargehand: Several questions are open. Choose one with --subtask: ")
    assert wrong.said.startswith("chargehand: Subtask T9 asks no question. Choose one with --subtask: ")
    assert all(f"T1: {ASKED}" in ran.said and f"T2: {ASKED}" in ran.said for ran in (unnamed, wrong))
    assert "text" in empty.said
    assert still_open == 2
    assert [ran.said for ran in unclear] == ["chargehand: Give either TEXT or --decline.\n"] * 2
    assert [ran.code for ran in answered] == [0, 0]
    assert [each.decision for each in ended.decisions] == ["answered", "declined"]


@pytest.mark.slow
async def test_run_prompts_for_plan_approval_and_answers_at_a_terminal(
    client: Client, tmp_path: Path, terminal: Terminal
) -> None:
    """Typed lines approve the plan and answer or decline questions; Ctrl-C prompts, and `f` finishes the run."""
    async with open_environment(client, tmp_path / "environment", asking("T1", "T2", "T3")) as opened:
        chargehand = Commands.of(opened.chargehand, tmp_path)
        running = await chargehand.begin(
            "run", GOAL, "--approve-plan", "--questions", "--review", "never", "--json", tty=terminal.theirs
        )
        plan = await terminal.read_until("decide later: ")
        terminal.type("a")
        asked = await terminal.read_until("to decline): ")
        for line in (MEANT, "/decline"):
            terminal.type(line)
            await terminal.read_until("to decline): ")
        running.send_signal(signal.SIGINT)
        await terminal.read_until("exits at once: ")
        terminal.type("f")
        report = Report.model_validate_json(await terminal.end_of(running))

    assert "T1 reader\r\n" in plan
    assert re.search(rf"T[123] \(reader\) asks:\r\n  {re.escape(ASKED)}", asked)
    assert (running.returncode, report.stop_reason) == (3, "finish_now")
    assert [each.decision for each in report.decisions if each.kind == "question"][:2] == ["answered", "declined"]
    assert "success" in {record.state for record in report.subtasks}
    assert any(MEANT in task.instruction for task in opened.model.tasks(WorkTask))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "until_then"), first_fast([("f", "synthesising"), ("s", ""), ("f", "")], 2, pytest.mark.nightly)
)
async def test_report_is_printed_if_work_ends_during_the_ctrl_c_prompt(
    client: Client, tmp_path: Path, terminal: Terminal, choice: str, until_then: Literal["synthesising", ""]
) -> None:
    """For every choice after Ctrl-C, a finished or pending report is printed and sets the exit code."""
    name, going_on, written = f"ended-{choice}{until_then}", asyncio.Event(), asyncio.Event()
    script = (
        Script().plan(*topics(2)).work("", Held(answer("Known."), going_on)).synthesis(Held(report("All."), written))
    )
    async with open_environment(client, tmp_path / "environment", script) as opened:
        chargehand = Commands.of(opened.chargehand, tmp_path)
        running = await chargehand.begin("run", GOAL, "--review", "never", "--json", "--id", name, tty=terminal.theirs)
        await terminal.read_until("T1 reader")
        running.send_signal(signal.SIGINT)
        await terminal.read_until("exits at once: ")
        going_on.set()
        if until_then:
            await until_state(opened.chargehand.session(name), until_then)
            terminal.type(choice)
            await terminal.read_until("it is writing the report")
        written.set()
        await opened.chargehand.session(name).result()
        if not until_then:
            terminal.type(choice)
        out = await terminal.end_of(running)

    assert (running.returncode, Report.model_validate_json(out).stop_reason) == (0, "completed")


@pytest.mark.nightly
async def test_run_without_a_terminal_prints_the_answer_command(client: Client, tmp_path: Path) -> None:
    """In a pipe, `run` prints the question and the command, and continues when --answer-within has passed."""
    async with open_environment(client, tmp_path / "environment", asking("T1")) as opened:
        chargehand = Commands.of(opened.chargehand, tmp_path)
        ran = await chargehand("run", GOAL, "--questions", "--answer-within", "2s", "--review", "never", "--id", "q-1")

    assert ran.code == 3
    assert f"? T1 asks: {ASKED}" in ran.said
    assert "`chargehand answer q-1 TEXT`" in ran.said
    assert "All of it." in ran.out
