"""What is shown while a session runs."""

from datetime import datetime
from decimal import Decimal
from io import StringIO
from typing import get_args

from rich.console import Console

from chargehand import Question, Status, SubtaskRecord
from chargehand.contracts import SessionState
from chargehand.converter import data_converter
from chargehand.history.projection import Child, Projection
from chargehand.history.records import Decoder
from chargehand.history.steps import Draft, Scope
from chargehand_cli.live_session import user_action
from chargehand_cli.live_tree import Lines, session_tree
from tests.unit.cli.reports import at

_WAITING = SubtaskRecord(id="T1", agent="reader", instruction="Read the rules.")
_RUNNING = _WAITING.model_copy(update={"state": "running", "attempts": 1, "started_at": at(1)})
_DONE = _RUNNING.model_copy(update={"state": "success", "ended_at": at(3)})
_AFTER = SubtaskRecord(id="T2", agent="writer", instruction="Write it up.", depends_on=("T1",))


def status(*records: SubtaskRecord, **changes: object) -> Status:
    made = Status(session="s", goal="g", state="executing", subtasks=records, max_turns=20, started_at=at(0))
    return made.model_copy(update={"turns": 1, "budget_usd": Decimal(2), **changes})


def drawn(found: Status, remark: str = "", moment: datetime | None = None, work: Projection | None = None) -> str:
    output = StringIO()
    console = Console(file=output, width=100, force_terminal=False)
    console.print(session_tree(found.session, found, remark, moment or at(4), at(0), work=work))
    return output.getvalue()


def test_each_change_is_printed_as_one_line() -> None:
    """Each has the time since the start and is printed once; what has ended comes before the state that it leads to."""
    lines: list[str] = []
    times = iter([at(0), at(1), at(1), at(1), at(2), at(3), at(3)])
    shown = Lines(write=lines.append, clock=lambda: next(times, at(3)))
    shown.update(status(_RUNNING, _AFTER))
    shown.update(status(_RUNNING, _AFTER))
    shown.update(status(_DONE, _AFTER))
    shown.update(status(_DONE, _AFTER.model_copy(update={"state": "success"}), state="synthesising"))

    assert [line.partition("] ")[2] for line in lines] == [
        "session executing · 1 of 20 turns · $0.00 of $2.00",
        "▶ T1 reader: running, 0.0 s: Read the rules.",
        "· T2 writer: waiting for T1: Write it up.",
        "✔ T1 reader: success, 2.0 s",
        "✔ T2 writer: success",
        "session writing the report · 1 of 20 turns · $0.00 of $2.00",
    ]


def test_the_tree_shows_every_subtask_with_its_state() -> None:
    failed = SubtaskRecord(id="T3", agent="analyst", instruction="Count.", state="failure", reason="no_answer",
                           attempts=3, started_at=at(0), ended_at=at(2))  # fmt: skip

    assert drawn(status(_RUNNING, _AFTER, failed), remark="no worker answers") == (
        "executing s\n"
        "1 of 20 turns · $0.00 of $2.00 · 4.0 s\n"
        "├── ▶ T1 reader running, 3.0 s  Read the rules.\n"
        "├── · T2 writer waiting for T1  Write it up.\n"
        "├── ✘ T3 analyst failure, attempt 3, 2.0 s  no answer was found  Count.\n"
        "└── no worker answers\n"
    )


def test_running_turns_are_shown_with_their_latest_text() -> None:
    """Supervisor turns are above all subtasks, agent turns below their own with the end of their text, nested ones by
    path. Lines report each supervisor turn that the state does not show, and retries, once.
    """
    session = _projection("s")
    opening = session.scope.add("open", "other", "read the documents")
    session.scope.add("open-2", "other", "read others")
    opening.error = "OSError"
    session.scope.add("turn-1", "turn", "supervisor: plan").state = "completed"
    reviewing = session.scope.add("turn-2", "turn", "supervisor: judge_claims")
    reviewing.purpose, reviewing.started_at = "judge_claims", at(2)
    agent = _child(session, "T1")
    for projection, purpose, text in ((agent, "work", "It is known."), (_child(agent, "T1/X1"), "plan", "")):
        turn = projection.scope.add("turn-1", "turn", f"reader: {purpose}")
        turn.purpose, turn.written = purpose, text
    lines: list[str] = []
    shown = Lines(write=lines.append, clock=lambda: at(0))
    for _ in range(2):
        shown.note(session)

    refused = "The operating system of the worker refused something: a file, a disk or a connection; trying again"
    assert lines == [
        f"[   0.0 s] supervisor read the documents: {refused}",
        "[   0.0 s] supervisor turn 2: judge claims",
    ]
    assert drawn(status(_RUNNING), work=session).splitlines()[2:] == [
        "├── supervisor read the documents",
        "│   └── The operating system of the worker refused something: a file, a disk or a connection; trying",
        "│       again",
        "├── supervisor turn 2: judge claims, 2.0 s",
        "└── ▶ T1 reader running, 3.0 s  Read the rules.",
        "    ├── turn 1: work",
        "    │   └── It is known.",
        "    └── X1 turn 1: plan",
    ]


def _projection(id_: str, subtask: str = "") -> Projection:
    draft = Draft.of(id_) if not subtask else Draft.below("s", id_, "Subtask")
    return Projection(Scope(Decoder(data_converter()), "s", draft, subtask))


def _child(parent: Projection, path: str) -> Projection:
    child = Child(Draft.below(parent.scope.draft.id, path, "Subtask"), 1, path, "", 1)
    parent.children.append(child)
    child.projection = _projection(path, path)
    return child.projection


def test_a_session_waiting_for_its_user_shows_the_command_to_type() -> None:
    """Only plans to approve, limits to raise and questions need one. The command names a subtask only if several ask; a
    pause comes first. A pipe gets question and command.
    """
    actions = {state: user_action(status(state=state)) for state in get_args(SessionState)}

    assert {state for state, action in actions.items() if action} == {"awaiting_approval", "paused"}
    assert "`chargehand plan s`" in actions["awaiting_approval"]
    assert "`chargehand raise s --turns N --budget USD`" in actions["paused"]
    assert "`chargehand finish s`" in actions["paused"]
    question = Question(subtask="T1", agent="reader", text="Which year?", open_until=at(300))
    other = question.model_copy(update={"subtask": "T2"})

    assert user_action(status(state="awaiting_answer", questions=(question,))) == (
        "Awaiting an answer: `chargehand answer s TEXT`"
    )
    assert "`chargehand answer s --subtask T1 TEXT`" in user_action(status(questions=(question, other)))
    assert "chargehand raise" in user_action(status(state="paused", questions=(question,)))
    lines: list[str] = []
    Lines(write=lines.append).update(status(questions=(question,)))
    assert lines[-1].endswith("] ? T1 asks: Which year?")


def test_the_elapsed_time_of_an_ended_session_does_not_grow() -> None:
    ended = status(_DONE, state="finished", started_at=at(1), ended_at=at(3))

    assert "2.0 s" in drawn(ended, moment=at(50)).splitlines()[1]


def test_a_session_of_more_than_a_day_shows_dates() -> None:
    """The tree shows when it began and until when it waits, and a pipe when each change came."""
    later, lines = at(30 * 3_600), list[str]()
    question = Question(subtask="T1", agent="reader", text="Which year?", open_until=at(60 * 3_600))
    waiting, times = status(_RUNNING, questions=(question,)), iter([at(0)])

    Lines(write=lines.append, clock=lambda: next(times, later)).update(waiting)

    began, asked, until = (f"{each.astimezone():%Y-%m-%d %H:%M}" for each in (at(0), later, at(60 * 3_600)))
    assert drawn(waiting, moment=later).splitlines()[1].endswith(f" · 30 h · since {began}")
    assert f"until {until}" in drawn(waiting, moment=later)
    assert {line.partition("] ")[0] for line in lines} == {f"[{asked}"}
