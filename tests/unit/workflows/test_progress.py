"""What people see of a session: its records, its status, and the Markdown of the Web UI."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from chargehand.contracts import Plan, Status, Subtask, SubtaskRecord, Usage
from workflows.rules.web_ui import details
from workflows.state.progress import Progress

START = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
T1 = Subtask(id="T1", agent="reader", instruction="Find the notice")
T2 = Subtask(id="T2", agent="writer", instruction="Write the letter", depends_on=("T1",))
PLAN = Plan(subtasks=(T1, T2))
WAITING_1 = SubtaskRecord(id="T1", agent="reader", instruction="Find the notice")
WAITING_2 = SubtaskRecord(id="T2", agent="writer", instruction="Write the letter", depends_on=("T1",))


def _at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def _planned() -> Progress:
    progress = Progress(session="s")
    progress.adopt(PLAN)
    return progress


def test_a_session_can_be_asked_before_anything_is_known() -> None:
    """A status can be had from the first moment, without goal, plan or ledger."""
    assert Progress(session="s").status() == Status(session="s", goal="", state="planning")


def test_a_changed_plan_keeps_what_has_happened() -> None:
    """Records of subtasks that stay in the plan are kept; those of others go, new ones wait."""
    progress = _planned()
    progress.start("T1", "s/reader/1", _at(1))
    kept = progress.records[0]

    progress.adopt(Plan(subtasks=(T1, Subtask(id="T3", agent="reader", instruction="Find the price"))))

    assert progress.records == (kept, SubtaskRecord(id="T3", agent="reader", instruction="Find the price"))


def test_details_draw_the_plan() -> None:
    """The Web UI shows state, use of the limits, that running subtasks are not counted in it, and a line a subtask."""
    failed = WAITING_1.model_copy(
        update={"state": "failure", "reason": "empty", "usage": Usage(turns=2, cost_usd=Decimal("0.01"))}
    )
    status = Status(
        session="s",
        goal="g",
        state="executing",
        turns=3,
        max_turns=20,
        spent_usd=Decimal("0.0123"),
        reserved_usd=Decimal("0.5"),
        budget_usd=Decimal(2),
        subtasks=(failed, WAITING_2),
    )
    running = status.model_copy(update={"subtasks": (WAITING_1.model_copy(update={"state": "running"}),)})

    assert details(running).splitlines()[4] == "- not counted yet: what running subtasks spend"
    assert details(status).splitlines() == [
        "**executing**",
        "",
        "- turns: 3 of 20",
        "- US dollars: 0.0123 of 2.00 spent, 0.5000 reserved",
        "",
        "**plan**",
        "",
        "- ✘ **T1** reader · failure: empty, 2 turns, 0.0100 dollars · Find the notice",
        "- · **T2** writer, after T1 · waiting · Write the letter",
    ]


def test_no_text_draws_anything_of_its_own() -> None:
    """Words of models and users stay in their line: no line, picture, link or formula comes of them."""
    cases = [
        "a\n\n# b\n- c",
        "![x](http://evil.example)",
        "<img src=x>",
        "`\\`|`",
        "from $5 to $6",
        "[ref]: x",
        "w" * 5_000,
    ]
    for text in cases:
        record = WAITING_1.model_copy(update={"instruction": text, "reason": text})
        drawn = details(Status(session="s", goal="g", state="planning", subtasks=(record,))).splitlines()
        unescaped = re.sub(r"\\[\\`|<>\[\]$]", "", drawn[-1])
        assert len(drawn) == 8
        assert not set("[]<>`|$\\") & set(unescaped)
        assert len(drawn[-1]) < 600
