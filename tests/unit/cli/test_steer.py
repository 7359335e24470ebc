"""Messages, interruptions and plan edits as they are typed."""

import json
from pathlib import Path
from typing import Any

import pytest

from chargehand.contracts import Plan, PlanEdit, SessionRequest, Subtask, UserMessage
from chargehand_cli.connection import Connection
from chargehand_cli.main import execute
from chargehand_cli.terminal import Exit
from chargehand_plugins.testing import StandInChargehand, StandInScript, StandInSession, report_of

PLAN = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find the name of the port"),))


@pytest.fixture
def chargehand(monkeypatch: pytest.MonkeyPatch) -> StandInChargehand:
    """Have commands work on a stand-in client with one session."""
    stand_in = StandInChargehand(StandInScript(report_of("Known."), plan=PLAN))

    async def opened(_: Connection, *, worker: bool = True) -> None:  # noqa: ARG001  # the real one's parameter
        if not stand_in.requests:
            await stand_in.start(SessionRequest(goal="A goal."), session_id="s")

    async def is_unfinished(_: Connection, session_id: str) -> bool:
        return session_id in stand_in.requests

    monkeypatch.setattr(Connection, "open", opened)
    monkeypatch.setattr(Connection, "is_unfinished", is_unfinished)

    def session(_: Connection, session_id: str) -> StandInSession:
        return stand_in.session(session_id)

    monkeypatch.setattr(Connection, "session", session)
    return stand_in


def test_tell_sends_a_message_to_one_subtask_or_to_all(chargehand: StandInChargehand) -> None:
    """One argument is the message; with two, the first names the subtask."""
    codes = [execute(["tell", "s", "In metres."]), execute(["tell", "s", "T2/T1", "In feet."])]
    wrong = [execute(["tell", "s", "T2/", "In feet."]), execute(["tell", "s", "x" * 4_001])]

    assert codes == [Exit.DONE] * 2
    assert wrong == [Exit.BAD_INPUT] * 2
    sent = [UserMessage(text="In metres."), UserMessage(text="In feet.", subtask="T2/T1")]
    assert chargehand.sent["s"] == [("tell", each) for each in sent]


def test_plan_edits_come_from_options_and_a_file(chargehand: StandInChargehand, tmp_path: Path) -> None:
    """Edits from the file come first; the inputs and place of an added subtask become part of it."""
    file = tmp_path / "edits.json"
    drop = {"edit": "drop", "subtask": "T3"}
    file.write_text(json.dumps({"edits": [drop]}))
    typed = [
        *("--drop", "T4", "--reword", "T2=Find a=b, please.", "--reroute", "T2=analyst", "--after", "T5="),
        *("--add", "T6:reader=Find the tides of the port", "--after", "T6=T1, T2", "--before", "T6=T2"),
    ]
    code = execute(["edit", "s", "--file", str(file), *typed])

    added = {"id": "T6", "agent": "reader", "instruction": "Find the tides of the port", "depends_on": ["T1", "T2"]}
    expected: list[dict[str, Any]] = [
        *(drop, {"edit": "drop", "subtask": "T4"}, {"edit": "add", "subtask": added, "before": "T2"}),
        {"edit": "reword", "subtask": "T2", "instruction": "Find a=b, please."},
        {"edit": "reroute", "subtask": "T2", "agent": "analyst"},
        {"edit": "reorder", "subtask": "T5", "depends_on": []},
    ]
    assert code == Exit.DONE
    assert chargehand.sent["s"] == [("edit_plan", PlanEdit.model_validate({"edits": expected}))]


def test_an_invalid_edit_is_refused_before_connecting(chargehand: StandInChargehand) -> None:
    cases = [[], ["--reword", "T2"], ["--add", "T6=Find it, please."], ["--drop", "9"], ["--file", "no-such-file"]]
    for typed in cases:
        assert execute(["edit", "s", *typed]) == Exit.BAD_INPUT
        assert chargehand.requests == {}
