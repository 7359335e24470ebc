"""Every message of the table is handled by the workflow, and offered by each way in of the core."""

import ast
import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from temporalio import workflow

from chargehand import Plan, Session, Subtask, sync
from chargehand.messages import MESSAGES, UPDATES, Row
from chargehand_plugins.testing import StandInChargehand, StandInScript, report_of
from tests.unit.strategies import examples
from workflows.supervisor import SupervisorWorkflow

ROOT = Path(__file__).parents[3]
EVERY = pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
_PLAN = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find the notice"),))


@EVERY
def test_the_workflow_handles_it(row: Row) -> None:
    """The handler is registered by name with the summary, takes the contract, and returns what the row says."""
    definition: Any = workflow._Definition.must_from_class(SupervisorWorkflow)
    handler = {**definition.queries, **definition.updates}[row.name]
    hints = get_type_hints(handler.fn)

    assert (row.name in definition.updates) == (row.kind == "update")
    assert hints.pop("return") == row.returns
    assert list(hints.values()) == ([row.takes] if row.takes else [])
    assert handler.description == f"{row.summary}."
    # The signature of a caller is checked where an update is validated: one without a validator would take any.
    assert row.kind == "query" or handler.validator


def test_the_workflow_handles_nothing_else() -> None:
    """Every query and update of a session is a row of the table."""
    definition = workflow._Definition.must_from_class(SupervisorWorkflow)

    assert {*definition.queries, *definition.updates} == {*MESSAGES}


@EVERY
def test_sessions_offer_it_with_and_without_await(row: Row) -> None:
    """A stand-in takes the fields of the contract as arguments, keeps each update, and answers as its script says."""
    stand_in = StandInChargehand(StandInScript(report_of("Known."), plan=_PLAN))
    session: Any = sync.Chargehand(stand_in).start("What is known?")
    contents = examples(row)
    fields = {name: getattr(content, name) for content in contents for name in content.model_fields_set}

    answer = getattr(session, row.name)(**fields)

    assert isinstance(answer, row.returns)
    assert stand_in.sent[session.id] == ([(row.name, contents[0] if contents else None)] if row.name in UPDATES else [])


def test_the_command_line_has_a_verb_for_each() -> None:
    """A verb calls the session's method of that name, or one of its wordings."""
    verbs = [ast.parse(file.read_text()) for file in (ROOT / "cli/src/chargehand_cli/verbs").glob("*.py")]
    called = {node.attr for verb in verbs for node in ast.walk(verb) if isinstance(node, ast.Attribute)}
    wordings = {name for method in called & {*vars(Session)} for name in vars(Session)[method].__code__.co_names}

    assert {*MESSAGES} - called - wordings == set()


def test_the_typescript_example_knows_them_as_they_are() -> None:
    """Its types of updates have the names of the contracts."""
    source = (ROOT / "examples/typescript/src/messages.mts").read_text()
    rows = re.findall(r"^  (\w+): \{ content: \[(\w*)\]; answer: (\w+) \};$", source, re.MULTILINE)
    table = {name: (row.takes.__name__ if row.takes else "", row.returns.__name__) for name, row in UPDATES.items()}

    assert rows
    assert {name: (content, answer) for name, content, answer in rows}.items() <= table.items()
