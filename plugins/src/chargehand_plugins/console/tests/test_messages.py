"""Every message of the table is an operation of the HTTP API, and every update a form of the session page."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import Field
from pydantic_core import from_json, to_json
from starlette.datastructures import FormData

from chargehand import PendingCall, Plan, Question, Status, Subtask
from chargehand.contracts import Limits, PlanDecision, Tier, TypedByPeople
from chargehand.contracts.base import contract
from chargehand.errors import InvalidInput
from chargehand.messages import MESSAGES, UPDATES, Row
from chargehand_plugins.console.api import OPERATIONS, PREFIX
from chargehand_plugins.console.forms import form_fields, read_content, read_number
from chargehand_plugins.console.openapi import openapi_document
from chargehand_plugins.console.problems import Problem
from chargehand_plugins.console.templating import render
from chargehand_plugins.console.views import Page, SessionView
from tests.unit.strategies import examples

DOCUMENT = openapi_document(OPERATIONS, PREFIX, "http://127.0.0.1:8234")
REFERENCE = "#/components/schemas/{model}"
SOON = datetime.now(UTC)
PLAN = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Read it."),))
ASKED: Any = {"subtask": "T2", "agent": "clerk", "open_until": SOON}
CALL = PendingCall(id="c1", hash="0" * 64, tool="refund", arguments={}, workflow_id="s", **ASKED)
QUESTION = Question(text="Which year?", **ASKED)
STATUS = Status(session="s", goal="", state="executing", plan=PLAN, questions=(QUESTION,), calls=(CALL,))
VIEW = SessionView(STATUS, can_steer=True, can_change=True)
EVERY_UPDATE = pytest.mark.parametrize("row", UPDATES.values(), ids=UPDATES)


@pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
def test_the_http_api_offers_every_message(row: Row) -> None:
    """The operation has the row's name and summary, and its body the contract's schema."""
    path = DOCUMENT["paths"][f"{PREFIX}/sessions/{{session}}/{row.name}"]
    operation = path["get" if row.kind == "query" else "post"]
    body = operation.get("requestBody")

    assert operation["summary"] == row.summary
    assert (body is None) == (row.takes is None)
    if row.takes:
        described = row.takes.model_json_schema(ref_template=REFERENCE)
        described.pop("$defs", None)
        assert body["content"]["application/json"]["schema"] == {"$ref": REFERENCE.format(model=row.takes.__name__)}
        written = to_json(DOCUMENT["components"]["schemas"][row.takes.__name__]).decode()
        assert from_json(written.replace("-Input", "")) == described  # the input and output schemas of a plan differ


@EVERY_UPDATE
def test_the_session_page_has_a_form_for_every_update(row: Row) -> None:
    """The form posts to the row's name; one generated from the contract has all its fields."""
    fields = form_fields(row.takes) if row.takes else ()
    schema: dict[str, Any] = row.takes.model_json_schema() if row.takes else {"properties": {}}

    assert f'action="/sessions/s/{row.name}"' in "".join(Page("s", "token").parts(VIEW).values())
    assert [(field.name, field.is_required) for field in fields] == [
        (name, name in schema.get("required", ())) for name in schema["properties"]
    ]


@EVERY_UPDATE
def test_form_fields_become_the_message_unchanged(row: Row) -> None:
    """Texts are taken as typed and all else as JSON; an empty field is absent."""
    contents = examples(row)
    typed = {"csrf": "token", "missing": ""} if row.takes else {}
    for content in contents:
        for name, value in content.model_dump(mode="json", exclude_none=True).items():
            typed[name] = value if isinstance(value, str) else to_json(value).decode()

    assert read_content(row, FormData(typed)) == (contents[0] if contents else None)


def test_a_limit_field_takes_a_number_and_refuses_anything_else() -> None:
    """The error of the contract names the field."""
    limits = contract(Limits, max_turns=read_number("30"), budget_usd=read_number("2.50"))
    with pytest.raises(InvalidInput, match="budget_usd: must be a number"):
        contract(Limits, budget_usd=read_number("two"))

    assert (limits.max_turns, limits.budget_usd) == (30, Decimal("2.50"))


def test_dotted_form_fields_become_one_list_item() -> None:
    """A subtask is edited without writing JSON; a field that does not belong to the edit is named."""
    change = {"edits.edit": "reword", "edits.subtask": "T1", "edits.instruction": "Read it, please.", "edits.agent": ""}
    read = read_content(UPDATES["edit_plan"], FormData(change))
    with pytest.raises(Problem) as refused:
        read_content(UPDATES["edit_plan"], FormData(change | {"edits.edit": "drop"}))

    edit = {"edit": "reword", "subtask": "T1", "instruction": "Read it, please."}
    assert read == UPDATES["edit_plan"].content(edits=[edit])
    assert "edits.0.drop.instruction: is not a known field" in refused.value.detail


def test_a_plan_is_edited_row_by_row() -> None:
    """Rows are added, dropped, changed and reordered; what has no field stays, and a bad row is named."""
    kept = Subtask(id="T1", agent="reader", instruction="Read it.", tier=Tier.LARGE)
    last = Subtask(id="T3", agent="reader", instruction="Sum up.", depends_on=("T1", "T2"), required=("T1", "T2"))
    dropped = Subtask(id="T2", agent="reader", instruction="Skim it.")
    before = Plan(subtasks=(kept, dropped, last), length_words=500, final_instruction="Briefly.")
    form = {"decision": "edit", "plan": before.model_dump_json(), "final_instruction": "As a table."}
    for number, row in enumerate(before.subtasks, start=1):
        typed = {"was": row.id, "id": row.id, "agent": row.agent, "instruction": row.instruction}
        typed |= {"place": str(number), "depends_on": ", ".join(row.depends_on)}
        form |= {f"rows.{number}.{name}": text for name, text in typed.items()}
    form |= {"rows.2.drop": "on", "rows.3.depends_on": "T1 N1", "rows.4.id": "N1", "rows.4.place": "0", "rows.5.id": ""}
    form |= {"rows.4.agent": "supervisor", "rows.4.instruction": "Look\r\naround."}
    decided = read_content(UPDATES["decide_plan"], FormData(form))
    with pytest.raises(Problem) as refused:
        read_content(UPDATES["decide_plan"], FormData(form | {"rows.4.id": "no id"}))

    new = Subtask(id="N1", agent="supervisor", instruction="Look\naround.")
    changed = last.model_copy(update={"depends_on": ("T1", "N1"), "required": ("T1",)})
    after = before.model_copy(update={"subtasks": (new, kept, changed), "final_instruction": "As a table."})
    assert decided == PlanDecision(decision="edit", plan=after)
    assert "plan.subtasks.0.id" in refused.value.detail


def test_the_approval_page_shows_every_text_of_a_plan() -> None:
    """Everything an agent would be given is shown, including data and hidden characters."""
    subtask = Subtask(id="T1", agent="reader", instruction="First.", input={"to": "second\u202e"})
    status = STATUS.replace(plan=Plan(subtasks=(subtask,), final_instruction="Third."))

    shown = render("_decisions.html", view=VIEW, status=status, base="/sessions/s", csrf="token")
    shown = re.sub(r"<input[^>]*>", "", shown)

    assert [text for text in ("First.", "second<U+202E>", "Third.") if text not in unescape(shown)] == []


class _Song(TypedByPeople):
    mood: Literal["calm", "<b>"]
    song: str = Field(max_length=4_000, description='A "song".')
    volume: str = ""


def test_an_update_without_catalogue_texts_still_has_a_form() -> None:
    """Labels, choices and texts come from the contract, and are escaped."""
    new = SimpleNamespace(name="sing_along", summary="Have agents sing", takes=_Song)
    html = render(
        "_actions.html", view=VIEW, status=STATUS, base="/sessions/s", csrf="token", updates=(*UPDATES.values(), new)
    )

    assert 'action="/sessions/s/sing_along"' in html
    assert "<summary>Sing along</summary>" in html
    assert '<p class="soft">Have agents sing.</p>' in html
    assert "<option>calm</option><option>&lt;b&gt;</option>" in html
    assert 'name="song" rows="3" required title="A &#34;song&#34;."' in html
    assert '<input id="sing_along-volume" name="volume" title="">' in html
