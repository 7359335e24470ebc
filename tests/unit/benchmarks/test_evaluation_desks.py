"""Desks: what tools change, what the service counts, and when a conversation has achieved its goal."""

import sys
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from benchmarks.evaluation.dataset import DESKS, NoDataset
from benchmarks.evaluation.desks.desk import Action, Desk, Task, read_desk
from benchmarks.evaluation.desks.oracle import ScriptedUser, steps_of
from benchmarks.evaluation.desks.plugin import desk_tool
from benchmarks.evaluation.desks.runs import DeskJob, run_desk
from benchmarks.evaluation.desks.service import Answer, Books, Request, problems_of, serve
from benchmarks.evaluation.scores import Scores
from benchmarks.evaluation.spending import Spending
from chargehand.tool_signature import Given
from chargehand.tools import ToolContext

CONTEXT = ToolContext(session="c", agent="clerk", idempotency_key="k")
CHECKOUT = {
    "src/tau2/domains/retail/tools.py": """
from loguru import logger
from pydantic import BaseModel

class Shop(BaseModel):
    orders: dict[str, str]

class RetailTools:
    db: Shop
    def __init__(self, db):
        self.db = db
        self.tools = {"cancel": self.cancel, "show": self.show}
    def tool_mutates_state(self, name):
        return name == "cancel"
    def cancel(self, order: str) -> str:
        "Cancel an order."
        logger.debug(order)
        self.db.orders[order] = "cancelled"
        return order
    def show(self, order: str) -> str:
        "Show an order."
        return self.db.orders[order]
""",
    "data/tau2/domains/retail/db.json": '{"orders": {"A": "open"}}',
    "data/tau2/domains/retail/policy.md": "Be kind.",
    "data/tau2/domains/retail/tasks.json": """[{"id": "0", "initial_state": null,
        "user_scenario": {"instructions": {"task_instructions": "Be short.", "reason_for_call": "Cancel A.",
            "known_info": "You are Ada.", "unknown_info": "your e-mail"}},
        "evaluation_criteria": {"actions": [{"action_id": "0", "name": "cancel", "arguments": {"order": "A"}}],
            "communicate_info": ["10"], "reward_basis": ["DB", "NL_ASSERTION"]}}]""",
}


def bookshop_task(name: str) -> tuple[Desk, Task]:
    desk = read_desk("bookshop", None)
    return desk, next(each for each in desk.tasks if each.id == name)


def books_of(desk: Desk, *actions: Action) -> Books:
    """Return the books of a conversation with these effects, each called once."""
    with serve(desk, 0) as service:
        service.begin("c")
        for number, action in enumerate(actions):
            service.answer(Request(conversation="c", key=str(number), action=action))
        return service.end("c")


@pytest.mark.parametrize("name", DESKS)
async def test_the_golden_actions_of_our_desks_are_valid_tool_calls(name: str) -> None:
    """Each fits the tool's schema, and each change is applied except where a refusal is being tested."""
    desk = read_desk(name, None)
    refused: list[str] = []
    async with httpx2.AsyncClient() as client:
        tools = {each: desk_tool(desk, each, client) for each in desk.tools}
    for task in desk.tasks:
        for action in task.actions:
            tools[action.name].signature.read_arguments(action.arguments)
        due = [each for each in task.actions if each.name in desk.acting]
        refused += [task.id] * (len(due) - len(desk.replay(task)[1]))

    assert {each for each, made in tools.items() if made.acts} == desk.acting
    assert refused == {"bookshop": ["exchange-without-credit"], "sleeper": []}[name]


async def test_a_desk_tool_calls_the_service_and_looks_up_outcomes() -> None:
    desk = read_desk("bookshop", None)
    with serve(desk, 0) as service:
        service.begin("c")
        async with httpx2.AsyncClient(base_url=service.address, trust_env=False) as client:
            cancel = desk_tool(desk, "cancel_order", client)
            before = await cancel.look_up({"order": "B-101"}, Given(CONTEXT))
            done = await cancel.use({"order": "B-101"}, Given(CONTEXT))
            after = await cancel.look_up({"order": "B-101"}, Given(CONTEXT))
            other = Given(CONTEXT.model_copy(update={"idempotency_key": "l"}))
            refused = await cancel.use({"order": "B-102"}, other)
        books = service.end("c")

    assert before is None
    assert after == done
    assert refused.output == {"error": "The order is delivered, not open."}
    assert [each.arguments for each in books.effects] == [{"order": "B-101"}]


def test_a_repeated_call_is_applied_twice_and_reported() -> None:
    """The service does not hide the fault that it exists to detect."""
    desk, task = bookshop_task("return-one-of-two")
    address = Action(name="change_address", arguments={"order": "B-101", "address": "1 North Gate"})
    with serve(desk, 0) as service:
        service.begin("c")
        for _ in range(2):
            assert service.answer(Request(conversation="c", key="k", action=address)) != Answer()
        books = service.end("c")

    assert [each.name for each in books.effects] == ["change_address", "change_address"]
    assert "Applied twice: change_address." in problems_of(desk, task, books, (), is_oracle=False)


def test_a_conversation_is_scored_by_its_database_and_its_messages() -> None:
    desk, task = bookshop_task("cancel-one")
    *_, cancel = task.actions
    away = Action(name="change_address", arguments={"order": "B-101", "address": "1 North Gate"})
    back = Action(name="change_address", arguments={"order": "B-101", "address": "3 Mill Lane"})
    detour = books_of(desk, away, back, cancel)

    assert problems_of(desk, task, books_of(desk, cancel), ["You have 52 euros."], is_oracle=True) == []
    assert problems_of(desk, task, books_of(desk, cancel), ["Done."], is_oracle=True) == ["Not told: 52."]
    assert problems_of(desk, task, books_of(desk), ["52"], is_oracle=False) == ["The database is another one."]
    assert problems_of(desk, task, books_of(desk, away, cancel), ["52"], is_oracle=False) == [
        "The database is another one."
    ]
    assert problems_of(desk, task, detour, ["52"], is_oracle=False) == []
    assert problems_of(desk, task, detour, ["52"], is_oracle=True) == [
        "Applied ['change_address', 'change_address', 'cancel_order'], due ['cancel_order']."
    ]


async def test_the_scripted_customer_confirms_each_change_first() -> None:
    desk, task = bookshop_task("move-and-cancel")
    user = ScriptedUser(task.says)

    assert [[each.name for each in step] for step in steps_of(task, desk)] == [
        ["find_customer", "find_order"],
        ["change_address", "find_order"],
        ["cancel_order"],
    ]
    assert await user.reply("I would cancel. Do you confirm step 2?") == "Yes, I confirm step 2."
    assert await user.reply("That is all.") is None


@pytest.mark.nightly
async def test_desk_conversations_reach_the_golden_database_despite_kills() -> None:
    """Worker and server are killed; it runs on a real server and the shipped worker, each task twice."""
    desk = read_desk("bookshop", None)
    found: list[Scores] = []
    job = DeskJob(replace(desk, tasks=desk.tasks[2:6]), None, "oracle", repetitions=2, seed=7)
    figures = await run_desk(job, found.append, Spending())

    assert sorted((each.case, each.repetition) for each in found) == sorted((each.id, n) for each, n in job.runs)
    assert [each for each in found if not each.passed or not each.completed] == []
    assert figures["acting calls"] >= 2 * 7


def test_a_checkout_of_tau2_is_read_with_its_own_tools(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is not imported as a whole, and a dependency that only the rest needs is stubbed."""
    for name in [each for each in sys.modules if each == "loguru" or each.split(".")[0] == "tau2"]:
        monkeypatch.delitem(sys.modules, name)
    for name, text in CHECKOUT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "src/tau2/__init__.py").write_text("raise ImportError('all of it')")
    desk = read_desk("tau2-retail", folder)
    (task,) = desk.tasks
    left, _ = desk.replay(task)

    assert (desk.policy, desk.acting) == ("Be kind.", {"cancel"})
    assert task == Task(
        id="0",
        says="Cancel A.\n\nYou are Ada.",
        knows="You do not know: your e-mail\n\nBe short.",
        actions=(Action(name="cancel", arguments={"order": "A"}),),
        tells=("10",),
        told_counts=False,
    )
    assert left.model_dump() == {"orders": {"A": "cancelled"}}
    assert desk.database.model_dump() == {"orders": {"A": "open"}}


def test_a_folder_that_is_not_a_tau2_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoDataset, match=r"db\.json is missing: --tau2 needs a checkout"):
        read_desk("tau2-airline", tmp_path)
