"""Plan edits while the plan is carried out."""

import asyncio
from typing import Any

import pytest

from chargehand.contracts import (
    DropSubtask,
    Limits,
    Plan,
    PlanEdit,
    ReorderSubtask,
    RerouteSubtask,
    RewordSubtask,
    SessionRequest,
)
from chargehand.errors import UpdateRefused
from tests.scripted_model import Held, Script, answer, expanded, reviewed, subtask
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say?", review="never", limits=Limits(max_turns=30))
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


async def test_what_has_not_begun_is_edited_and_the_rest_goes_on(forgetful: OpenEnvironment) -> None:
    """Dropped, reworded, given to another agent, given other inputs, added, by any client, while another subtask runs;
    sent twice it counts once. The report names it, and not as a gap; every workflow task replays."""
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
        session = await opened.chargehand.start(GOAL)
        await first.reached.wait()
        handle = opened.chargehand.client.get_workflow_handle(session.id)
        one, other = [
            await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                "edit_plan", {"edits": edits}, id="once", result_type=Plan
            )
            for _ in range(2)
        ]
        first.released.set()
        result = await asyncio.wait_for(session.result(), 60)

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


async def test_an_edit_is_refused_as_a_whole_with_the_reason(environment: OpenEnvironment) -> None:
    """What has begun, is unknown, is needed by others, would be a loop or a repetition, or goes beyond the limits."""
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
        session = await opened.chargehand.start(GOAL)
        await first.reached.wait()
        for reason, edits in refused.items():
            with pytest.raises(UpdateRefused, match=reason):
                await session.edit_plan(edits=PlanEdit.model_validate({"edits": edits}).edits)
        plan = await session.plan()
        first.released.set()
        result = await asyncio.wait_for(session.result(), 60)

    assert plan
    assert [each.id for each in plan.subtasks] == ["T1", "T2", "T3", "T4", "T5"]
    assert {record.state for record in result.subtasks} == {"success"}
    assert result.edits == ()


async def test_a_plan_is_edited_before_it_is_approved(environment: OpenEnvironment) -> None:
    """Edits in a few words, as often as wanted; the approval is then for the plan as edited."""
    request = GOAL.model_copy(update={"approval": "plan"})
    async with environment(Script().plan(*PLAN)) as opened:
        session = await opened.chargehand.start(request)
        await until_state(session, "awaiting_approval")
        await session.edit_plan(edits=(DropSubtask(subtask="T4"), DropSubtask(subtask="T3")))
        await session.edit_plan(
            edits=(
                RewordSubtask(subtask="T1", instruction="Find out about the tides only, please."),
                RerouteSubtask(subtask="T2", agent="analyst"),
                ReorderSubtask(subtask="T5", depends_on=()),
            )
        )
        await session.approve()
        result = await asyncio.wait_for(session.result(), 60)

    assert [(record.id, record.agent, record.depends_on) for record in result.subtasks] == [
        *(("T1", "reader", ()), ("T2", "analyst", ("T1",)), ("T5", "reader", ()))
    ]


async def test_what_is_added_last_is_carried_out_too(environment: OpenEnvironment) -> None:
    """To a plan of one subtask, whose report no turn was reserved for; while a template becomes its subtasks; and while
    the outcomes are reviewed."""
    first, growing, looking = Held(answer("Known.")), Held(expanded("Look at the first port.")), Held(reviewed())
    script = Script().plan(subtask("T1")).work("topic T1", first).on("expand", growing)
    script = script.on("review", looking, when=lambda call: not getattr(call.task, "waiting", ()))
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"review": "always"}))
        await first.reached.wait()
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
        result = await asyncio.wait_for(session.result(), 60)

    assert [(record.id, record.depends_on, record.state) for record in result.subtasks] == [
        ("T1", (), "success"),
        ("T2-1", ("T1",), "success"),
        ("T3", ("T2-1",), "success"),
        ("T4", ("T3",), "success"),
    ]
    assert result.stop_reason == "completed"
    assert result.reserved_usd == 0
