"""Plans that change while they are carried out: templates become subtasks, and people edit what has not begun."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.plan import ExpandTask, PlanTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import DropSubtask, Limits, Plan, PlanEdit, ReorderSubtask, SessionRequest
from chargehand.errors import UpdateRefused
from tests.scripted_model import Held, Script, answer, expanded, reviewed, subtask
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="Which are the largest ports, and who runs each of them?", review="never")
LIST = subtask("T1", "researcher", instruction="List the three largest ports by tonnage, by name.")
EACH = subtask("T2", "researcher", for_each="T1", instruction="Find out who runs the port, with a source.")
COMPARE = subtask("T3", "writer", ["T2"], ["T2"], instruction="Compare who runs each of the ports.")
SCRIPT = Script().plan(LIST, EACH, COMPARE).work("largest", answer("Arle, Brin and Cove."))
PORTS = ("Arle", "Brin", "Cove")


def _orders(*ports: str) -> tuple[str, ...]:
    return tuple(f"Find out who runs the port of {port}, with a source." for port in ports)


async def test_a_template_expands_to_one_subtask_per_item(environment: OpenEnvironment) -> None:
    """One turn writes them from the list; each has the list as input, and their dependents read all of them."""
    script = SCRIPT.on("expand", expanded(*_orders(*PORTS), omitted=["Dun"]))
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL)
        result = await session.result()
        followed = await session.plan()

    made = ("T2-1", "T2-2", "T2-3")
    [asked] = opened.model.tasks(ExpandTask)
    inputs = {task.instruction: [given.id for given in task.inputs] for task in opened.model.tasks(WorkTask)}
    assert (asked.items.id, asked.items.outcome.content) == ("T1", "Arle, Brin and Cove.")
    assert inputs == {
        LIST.instruction: [],
        **{order: ["T1"] for order in _orders(*PORTS)},
        COMPARE.instruction: [*made],
    }
    assert followed is not None
    depends_on = [(planned.id, planned.depends_on) for planned in followed.subtasks]
    assert depends_on == [("T1", ()), *((each, ("T1",)) for each in made), ("T3", made)]
    assert {planned.required for planned in followed.subtasks} == {()}
    assert [(record.id, record.state, record.depends_on) for record in result.subtasks] == [
        (planned.id, "success", planned.depends_on) for planned in followed.subtasks
    ]
    assert result.gaps == ("T2: the limits left no room for: Dun",)
    assert result.stop_reason == "partial"
    turns = {line.purpose: line.usage.turns for line in result.spend if line.agent == "supervisor"}
    assert turns == {"plan": 1, "expand": 1, "synthesis": 1}


_INVALID = "malformed: No valid subtasks were planned: subtask T2-1: "
_VAGUE = "the instruction is too vague; name its object, and what a good answer contains"


@pytest.mark.parametrize(
    ("listed", "expansion", "gap"),
    [
        (answer("None.", status="no_answer"), expanded(), "skipped: Its list, T1, was lost."),
        (answer("None."), expanded(), "skipped: Its list, T1, names no item."),
        (answer("Arle."), expanded("Do it"), f"{_INVALID}{_VAGUE}"),
        (answer("Arle."), expanded(LIST.instruction), f"{_INVALID}gives the same agent the same task as T1"),
    ],
    ids=["a lost list", "an empty list", "subtasks that no plan may have", "work that was done already"],
)
async def test_a_template_without_valid_subtasks_is_a_gap(
    run: RunSession, listed: BaseModel, expansion: BaseModel, gap: str
) -> None:
    """Whatever the reason, the report states it, and subtasks that require the template are skipped."""
    script = SCRIPT.work("largest", listed).on("expand", expansion)
    result, opened = await run(script, GOAL)

    states = {record.id: record.state for record in result.subtasks}
    reason, _, message = gap.partition(": ")
    assert states["T2"] == ("skipped" if reason == "skipped" else "failure")
    assert states["T3"] == "skipped"
    lost = f"T2 (researcher) {'was skipped' if reason == 'skipped' else 'failed'}: {message}"
    assert any(named.startswith(lost) for named in result.gaps)
    assert len(opened.model.of_kind("expand")) == {"skipped": "lost" not in gap, "malformed": 2}[reason]
    assert result.reserved_usd == 0


async def test_expansion_errors_go_back_to_the_model_once(run: RunSession) -> None:
    """It gets every reason, as for a plan; the failed turn is waste."""
    first, second = expanded(*_orders("Arle", "Arle")), expanded(*_orders("Arle", "Brin"))
    result, opened = await run(SCRIPT.on("expand", first, second), GOAL)

    [problem] = opened.model.tasks(ExpandTask)[1].rejected[0].errors
    assert problem == "subtask T2-2: gives the same agent the same task as T2-1"
    assert [record.id for record in result.subtasks] == ["T1", "T2-1", "T2-2", "T3"]
    assert result.wasted.turns == 1


async def test_an_expansion_fits_the_remaining_turns(run: RunSession) -> None:
    """The model is told how many subtasks fit besides the waiting ones; those beyond become gaps."""
    ports = [f"P{number}" for number in range(30)]
    request = GOAL.model_copy(update={"limits": Limits(max_turns=14)})
    result, opened = await run(SCRIPT.on("expand", expanded(*_orders(*ports))), request)

    [asked] = opened.model.tasks(ExpandTask)
    made = [record for record in result.subtasks if record.id.startswith("T2-")]
    assert {record.state for record in result.subtasks} == {"success"}
    assert len(made) == asked.max_subtasks == 4
    assert result.gaps == tuple(f"T2: the limits left no room for: {order}" for order in _orders(*ports[4:]))
    assert result.usage.turns <= 14


async def test_a_nested_session_requests_the_turns_that_its_plan_needs(run: RunSession) -> None:
    """A plan or expansion beyond its share is not refused while its parent session has turns."""
    nested = subtask("T1", "supervisor", instruction="Survey the ports of the whole coast.")
    others = [subtask(f"W{number}", "writer", ["T1"]) for number in range(4)]
    parts = [subtask(f"N{number}") for number in range(6)]
    each = subtask("N9", for_each="N0", instruction="Find out who runs the port, with a source.")
    script = Script().plan(*parts, each).plan(nested, *others, goal=GOAL.goal)
    request = GOAL.model_copy(update={"limits": Limits(max_turns=40)})
    result, opened = await run(script.on("expand", expanded(*_orders(*"ABCDEF"))), request)

    [_, told] = opened.model.tasks(PlanTask)
    assert told.may_ask_for_more
    assert told.allowance.turns < 2 * len(parts)
    assert len(opened.model.of_kind("plan")) == 2
    assert len(opened.model.of_kind("work")) == len(parts) + 6 + len(others)
    assert result.gaps == ()
    assert result.reserved_usd == 0


async def test_a_tree_of_sessions_runs_exactly_max_parallel_agents(run: RunSession) -> None:
    """A nested session uses the places that others do not need, and never more."""
    most = 3
    at_work: list[Held] = []
    peaks: list[int] = []

    def work(_: ModelCall) -> Held:
        def end(_: ModelCall) -> BaseModel:
            at_work.remove(held)
            return answer("Known.")

        held = Held(end)
        at_work.append(held)
        peaks.append(len(at_work))
        if len(at_work) == most:
            # Leave time for one more to start, which must not happen.
            for each in tuple(at_work):
                asyncio.get_running_loop().call_later(0.3, each.released.set)
        return held

    nested = subtask("T1", "supervisor", instruction="Survey the ports of the whole coast.")
    own = [subtask("W1"), subtask("W2")]
    parts = [subtask(f"N{number}") for number in range(1 + 2 * most)]
    script = Script().plan(*parts).plan(nested, *own, goal=GOAL.goal).work("", work)
    limits = Limits(max_turns=60, budget_usd=Decimal(20), max_parallel=most)
    result, _ = await run(script, GOAL.model_copy(update={"limits": limits}))

    assert len(peaks) == len(own) + len(parts)
    assert max(peaks) == most
    assert {use.limit: use.used for use in result.limits}["max_parallel"] == most
    assert result.stop_reason == "completed"


async def test_a_review_may_add_a_template(run: RunSession) -> None:
    """A list that already exists expands at once into what the review misses."""
    added = reviewed(EACH, missing=["who runs them"])
    script = Script().plan(LIST).on("expand", expanded(*_orders("Arle", "Brin"))).on("review", reviewed())
    script = script.on("review", added, when=lambda call: "T2-1" not in call.messages[0].text)
    result, _ = await run(script, GOAL.model_copy(update={"review": "always"}))

    assert [record.id for record in result.subtasks] == ["T1", "T2-1", "T2-2"]
    assert {record.state for record in result.subtasks} == {"success"}


EDITED = SessionRequest(goal="What do the documents say?", review="never", limits=Limits(max_turns=30))
PLAN = (
    subtask("T1"),
    subtask("T2", after=["T1"]),
    subtask("T3", after=["T1"], required=["T1"]),
    subtask("T4", after=["T3"], required=["T3"]),
    subtask("T5", after=["T1"]),
)


def added(id_: str, after: list[str] | None = None, instruction: str = "") -> dict[str, Any]:
    """Write an edit that adds a subtask."""
    text = instruction or f"Find out everything about topic {id_} in the documents."
    return {"edit": "add", "subtask": {"id": id_, "agent": "reader", "instruction": text, "depends_on": after or []}}


async def test_subtasks_that_have_not_started_can_be_edited(forgetful: OpenEnvironment) -> None:
    """Others keep running; an edit from any client counts once and is listed in the report, not as a gap."""
    first = Held(answer("Known."))
    script = Script().plan(*PLAN).work("topic T1", first)
    edits = [
        {"edit": "drop", "subtask": "T3"},
        added("T6", ["T1"]),
        {"edit": "reorder", "subtask": "T4", "depends_on": ["T6"], "before": "T2"},
        {"edit": "reword", "subtask": "T2", "instruction": "Find out about the tides only, please."},
        {"edit": "reroute", "subtask": "T5", "agent": "analyst"},
    ]
    async with forgetful(script) as opened:
        session = await opened.start(EDITED, until=first)
        handle = opened.chargehand.client.get_workflow_handle(session.id)
        one, other = [
            await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                "edit_plan", {"edits": edits}, id="once", result_type=Plan
            )
            for _ in range(2)
        ]
        first.released.set()
        result = await session.result()

    records = {record.id: record for record in result.subtasks}
    assert one == other
    assert [each.id for each in one.subtasks] == [*records] == ["T1", "T4", "T2", "T5", "T6"]
    assert (records["T4"].depends_on, records["T5"].agent) == (("T6",), "analyst")
    assert records["T2"].instruction == "Find out about the tides only, please."
    assert {record.state for record in result.subtasks} == {"success"}
    assert result.gaps == ()
    assert [(each.edit, each.subtask) for each in result.edits] == [
        *(("drop", "T3"), ("add", "T6"), ("reorder", "T4"), ("reword", "T2"), ("reroute", "T5"))
    ]
    assert result.edits[0].before == f"reader: {PLAN[2].instruction}"
    assert result.usage.turns == len(opened.model.calls) == 7


async def test_an_invalid_plan_edit_is_refused_as_a_whole_with_the_reason(environment: OpenEnvironment) -> None:
    """Reasons are started, unknown or needed subtasks, cycles, duplicates and exceeded limits."""
    first = Held(answer("Known."))
    same = PLAN[0].instruction.upper()
    refused: dict[str, list[dict[str, Any]]] = {
        r"edits\.1\.subtask: 'T1' has begun; subtasks that have not begun: T2, T4, T5": [
            {"edit": "drop", "subtask": "T3"},
            {"edit": "reword", "subtask": "T1", "instruction": "Find out about something else."},
        ],
        r"edits\.0\.subtask: 'T9' is not in the plan": [{"edit": "drop", "subtask": "T9"}],
        r"subtask T4: depends on 'T3', which is not in the plan": [{"edit": "drop", "subtask": "T3"}],
        r"T2 -> T5 -> T2 is a cycle|T5 -> T2 -> T5 is a cycle": [
            {"edit": "reorder", "subtask": "T2", "depends_on": ["T5"]},
            {"edit": "reorder", "subtask": "T5", "depends_on": ["T2"]},
        ],
        r"subtask T6: gives the same agent the same task as T1": [added("T6", instruction=same)],
        r"subtask T2: there is no agent 'nobody'": [{"edit": "reroute", "subtask": "T2", "agent": "nobody"}],
        r"subtasks: they take at least \d+ turns": [added(f"T{number}") for number in range(10, 25)],
        r"edits\.0\.before: 'T9' is not in the plan": [{**added("T6"), "before": "T9"}],
        r"edits\.0: give before, depends_on or both": [{"edit": "reorder", "subtask": "T2"}],
    }
    async with environment(Script().plan(*PLAN).work("topic T1", first)) as opened:
        session = await opened.start(EDITED, until=first)
        for reason, edits in refused.items():
            with pytest.raises(UpdateRefused, match=reason):
                await session.edit_plan(edits=PlanEdit.model_validate({"edits": edits}).edits)
        plan = await session.plan()
        first.released.set()
        result = await session.result()

    assert plan
    assert [each.id for each in plan.subtasks] == ["T1", "T2", "T3", "T4", "T5"]
    assert {record.state for record in result.subtasks} == {"success"}
    assert result.edits == ()


async def test_a_plan_can_be_edited_before_it_is_approved(environment: OpenEnvironment) -> None:
    """Edits can be repeated; the approval is then for the edited plan."""
    request = EDITED.model_copy(update={"approval": "plan"})
    async with environment(Script().plan(*PLAN)) as opened:
        session = await opened.start(request, until="awaiting_approval")
        await session.edit_plan(edits=(DropSubtask(subtask="T4"), DropSubtask(subtask="T3")))
        await session.edit_plan(edits=(ReorderSubtask(subtask="T5", depends_on=()),))
        await session.approve()
        result = await session.result()

    assert [(record.id, record.depends_on) for record in result.subtasks] == [("T1", ()), ("T2", ("T1",)), ("T5", ())]


async def test_subtasks_added_late_are_executed_too(environment: OpenEnvironment) -> None:
    """They may be added to a plan of one subtask, during a template's expansion, and during the review."""
    first, growing, looking = Held(answer("Known.")), Held(expanded("Look at the first port.")), Held(reviewed())
    script = Script().plan(subtask("T1")).work("topic T1", first).on("expand", growing)
    script = script.on("review", looking, when=lambda call: not getattr(call.task, "waiting", ()))
    async with environment(script) as opened:
        session = await opened.start(EDITED.model_copy(update={"review": "always"}), until=first)
        item = added("T2", ["T1"])
        item["subtask"]["for_each"] = "T1"
        await session.edit_plan(edits=PlanEdit.model_validate({"edits": [item]}).edits)
        first.released.set()
        await growing.reached.wait()
        with pytest.raises(UpdateRefused, match="'T2' has begun"):
            await session.edit_plan(edits=(DropSubtask(subtask="T2"),))
        await session.edit_plan(edits=PlanEdit.model_validate({"edits": [added("T3", ["T2"])]}).edits)
        growing.released.set()
        await looking.reached.wait()
        await session.edit_plan(edits=PlanEdit.model_validate({"edits": [added("T4", ["T3"])]}).edits)
        looking.released.set()
        result = await session.result()

    depends_on = {record.id: record.depends_on for record in result.subtasks}
    assert depends_on == {"T1": (), "T2-1": ("T1",), "T3": ("T2-1",), "T4": ("T3",)}
    assert {record.state for record in result.subtasks} == {"success"}
    assert result.stop_reason == "completed"
    assert result.reserved_usd == 0
