"""Every message of the table is handled by the workflow and offered by the client, with and without await."""

import ast
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from temporalio import workflow

from chargehand import Chargehand, Plan, Session, SessionCancelled, Subtask, UserMessage, sync
from chargehand.contracts import Event
from chargehand.contracts.events import StateEvent
from chargehand.messages import MESSAGES, UPDATES, Row
from chargehand.session import Execution
from chargehand_plugins.testing import StandInChargehand, StandInScript, report_of
from tests.unit.strategies import examples
from workflows.supervisor import SupervisorWorkflow

ROOT = Path(__file__).parents[3]
EVERY = pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
_PLAN = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find the notice"),))


@EVERY
def test_the_workflow_handles_every_message_of_the_table(row: Row) -> None:
    definition: Any = workflow._Definition.must_from_class(SupervisorWorkflow)
    handler = {**definition.queries, **definition.updates}[row.name]
    hints = get_type_hints(handler.fn)

    assert (row.name in definition.updates) == (row.kind == "update")
    assert hints.pop("return") == row.returns
    assert list(hints.values()) == ([row.takes] if row.takes else [])
    assert handler.description == f"{row.summary}."
    # A caller's signature is checked when an update is validated; without a validator, any would be accepted.
    assert row.kind == "query" or handler.validator


def test_the_workflow_handles_no_messages_outside_the_table() -> None:
    definition = workflow._Definition.must_from_class(SupervisorWorkflow)

    assert {*definition.queries, *definition.updates} == {*MESSAGES, "book_charges"}


@EVERY
def test_sessions_offer_every_message_with_and_without_await(row: Row) -> None:
    stand_in = StandInChargehand(StandInScript(report_of("Known."), plan=_PLAN))
    session: Any = sync.Chargehand(stand_in).start("What is known?")
    contents = examples(row)
    fields = {name: getattr(content, name) for content in contents for name in content.model_fields_set}
    answer = getattr(session, row.name)(**fields)

    assert isinstance(answer, row.returns)
    assert stand_in.sent[session.id] == ([(row.name, contents[0] if contents else None)] if row.name in UPDATES else [])
    with pytest.raises(TypeError, match=rf"{row.name}\(\) takes its fields by name"):
        getattr(session, row.name)("hello")


def test_the_command_line_has_a_verb_for_every_message() -> None:
    own, added = ROOT / "cli/src/chargehand_cli/verbs", ROOT / "plugins/src/chargehand_plugins/operations"
    verbs = [ast.parse(file.read_text()) for file in (*own.glob("*.py"), *added.glob("*.py"))]
    called = {node.attr for verb in verbs for node in ast.walk(verb) if isinstance(node, ast.Attribute)}
    methods = {name: each for kind in (Execution, Session) for name, each in vars(kind).items()}
    wordings = {name for method in called & {*methods} for name in methods[method].__code__.co_names}

    assert {*MESSAGES} - called - wordings == set()


def test_the_typescript_example_matches_the_message_contracts() -> None:
    source = (ROOT / "examples/typescript/src/messages.mts").read_text()
    rows = re.findall(r"^  (\w+): \{ content: \[(\w*)\]; answer: (\w+) \};$", source, re.MULTILINE)
    table = {name: (row.takes.__name__ if row.takes else "", row.returns.__name__) for name, row in UPDATES.items()}

    assert rows
    assert {name: (content, answer) for name, content, answer in rows}.items() <= table.items()


@pytest.mark.parametrize(("waiting", "real"), [(sync.Chargehand, Chargehand), (sync.Session, Session)])
def test_the_synchronous_client_has_every_public_method(waiting: type, real: type) -> None:
    public = {name for name in dir(real) if not name.startswith("_")}

    assert public - set(dir(waiting)) == set()


async def test_the_synchronous_client_works_inside_a_running_event_loop() -> None:
    events: tuple[Event, ...] = tuple(
        StateEvent(session="session-1", cursor=str(number), at=datetime.now(UTC), state="planning")
        for number in range(3)
    )
    stand_in = StandInChargehand(StandInScript(report_of("Three months."), plan=_PLAN, events=events))
    chargehand = sync.Chargehand(stand_in)
    session = chargehand.start("When can we leave?")
    with closing(session.follow()) as following:
        first = next(following)
    after = list(session.follow(first.cursor))
    approved = session.approve()
    status = session.tell(text="Be brief.")
    report = session.result()
    session.cancel()

    assert (approved, report.answer, chargehand.session("session-1").id) == (_PLAN, "Three months.", session.id)
    assert [first, *after] == [*events]
    assert (status.state, stand_in.sent["session-1"][1:]) == ("finished", [("tell", UserMessage(text="Be brief."))])
    assert [each.id for each in chargehand.list()] == ["session-1"]
    with pytest.raises(SessionCancelled):
        session.result()
