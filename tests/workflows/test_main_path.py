"""A session from the door to the report, with a scripted model."""

import asyncio
import re
from decimal import Decimal

from pydantic import BaseModel
from temporalio.api.sdk.v1 import WorkflowMetadata

from activities.contracts.drafts import SubtaskDraft
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, Plan, SessionRequest
from tests.scripted_model import COST, Held, Script, answer, plan, report, subtask, topics, use, work_task
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?")


def well_behaved(*subtasks: SubtaskDraft) -> Script:
    """Plan these subtasks, use one tool in each, answer with its source, and report."""

    def cite(call: ModelCall) -> BaseModel:
        source = work_task(call).rounds[0].results[0].sources[0]
        return answer(f"It is known [{source.ref}].", ref=source.ref, quote=source.quote)

    written = report("All topics are known [S1] [S2].")
    return Script().plan(*subtasks).work("", lambda call: use(call.tools[0].name), cite).synthesis(written)


async def test_two_agents_work_and_one_report_comes_out(run: RunSession) -> None:
    """A plan of two subtasks becomes one report with the sources that agents really read, and the sum of all costs."""
    result, _ = await run(well_behaved(subtask("T1"), subtask("T2", agent="analyst")), GOAL)

    assert result.answer == "All topics are known [S1] [S2]."
    assert [source.ref for source in result.sources] == ["search_documents.md#L1", "query_data.md#L1"]
    assert [source.quote for source in result.sources] == ["what search_documents read", "what query_data read"]
    assert result.stop_reason == "completed"
    assert result.confidence == 90
    assert [(record.id, record.state, record.usage.turns) for record in result.subtasks] == [
        ("T1", "success", 2),
        ("T2", "success", 2),
    ]
    assert result.usage.turns == 6
    assert result.usage.cost_usd == 6 * COST
    assert result.usage.tool_calls == 2


async def test_one_subtask_needs_no_synthesis(run: RunSession) -> None:
    """A plan of one subtask costs one plan turn and the agent's own turns, and its answer is the report."""
    result, opened = await run(well_behaved(subtask("T1")), GOAL)

    assert result.answer == "It is known [S1]."
    assert [call.task.kind for call in opened.model.calls] == ["plan", "work", "work"]


async def test_independent_subtasks_overlap(run: RunSession) -> None:
    """Five subtasks without dependencies are all being worked on at the same moment."""
    all_here = asyncio.Event()
    working: set[str] = set()

    def work(call: ModelCall) -> Held:
        working.add(work_task(call).instruction)
        if len(working) == 5:
            all_here.set()
        return Held(answer("Done."), all_here)

    script = Script().plan(*topics(5)).work("", work)
    result, _ = await run(script, GOAL)

    assert result.stop_reason == "completed"
    assert len(working) == 5


async def test_max_parallel_is_never_exceeded(environment: OpenEnvironment) -> None:
    """With max_parallel 2, no more than two of six subtasks are ever worked on at once."""
    at_work = 0
    most = 0
    gate = asyncio.Event()

    def start(_: ModelCall) -> ModelReply:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        return use("search_documents")

    def finish(_: ModelCall) -> Held:
        nonlocal at_work
        at_work -= 1
        gate.set()
        return Held(answer("Done."), gate)

    script = Script().plan(*topics(6)).work("", start, finish)
    async with environment(script) as opened:
        request = GOAL.model_copy(update={"limits": Limits(max_parallel=2)})
        result = await opened.run(request)

    assert result.stop_reason == "completed"
    assert most == 2


async def test_a_subtask_starts_the_moment_its_own_inputs_are_there(run: RunSession) -> None:
    """T3, which needs only T1, finishes while T2 is still being worked on: subtasks are not started in waves."""
    third_is_done = asyncio.Event()

    def third(_: ModelCall) -> BaseModel:
        third_is_done.set()
        return answer("Third.")

    script = Script().plan(subtask("T1"), subtask("T2"), subtask("T3", after=["T1"]))
    script = script.work("T2", Held(answer("Second."), third_is_done)).work("T3", third)
    result, _ = await run(script, GOAL)

    assert [record.state for record in result.subtasks] == ["success", "success", "success"]


async def test_a_dependent_is_given_the_outcome_it_depends_on_and_nothing_else(run: RunSession) -> None:
    """T2 sees T1's typed outcome; T3, which depends on nothing, sees none."""
    script = Script().plan(subtask("T1"), subtask("T2", after=["T1"]), subtask("T3"))
    script = script.work("T1", answer("Known about T1."))
    _, opened = await run(script, GOAL)

    given = {
        task.instruction: [f"{each.id}: {each.outcome.content}" for each in task.inputs]
        for task in opened.model.tasks(WorkTask)
    }
    assert given == {
        subtask("T1").instruction: [],
        subtask("T2").instruction: ["T1: Known about T1."],
        subtask("T3").instruction: [],
    }


async def test_an_invalid_plan_goes_back_with_its_errors_named(run: RunSession) -> None:
    """The second attempt sees the first plan and every reason against it, and a valid plan is then carried out."""
    wrong = plan(subtask("T1", agent="nobody"), subtask("T1", after=["T9"]))
    script = Script().plans(wrong, plan(subtask("T1")))
    result, opened = await run(script, GOAL)

    plans = opened.model.of_kind("plan")
    assert result.stop_reason == "completed"
    assert len(plans) == 2
    assert "there is no agent 'nobody'" in plans[1].messages[0].text
    assert "the id occurs 2 times" in plans[1].messages[0].text
    assert "depends on 'T9', which is not in the plan" in plans[1].messages[0].text


async def test_the_plan_and_the_status_can_be_read_before_and_during_execution(environment: OpenEnvironment) -> None:
    """While a subtask is being worked on, queries show the plan and the subtask as running."""
    held = Held(answer("Known."))
    script = Script().plan(subtask("T1")).work("", held)
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL)
        await asyncio.wait_for(held.reached.wait(), 30)
        shown, status = await session.plan(), await session.status()
        held.released.set()
        await session.result()
        after = await session.status()

    assert isinstance(shown, Plan)
    assert [item.id for item in shown.subtasks] == ["T1"]
    assert (status.state, status.subtasks[0].state, status.turns, status.spent_usd) == (
        "executing",
        "running",
        1,
        COST,
    )
    assert status.reserved_usd > 0
    assert (after.state, after.subtasks[0].state, after.reserved_usd) == ("finished", "success", Decimal(0))


async def test_a_nested_session_is_one_hop_deeper_and_its_report_becomes_an_outcome(
    environment: OpenEnvironment,
) -> None:
    """A subtask for `supervisor` runs as a session of its own, whose spending and sources reach the report above."""
    nested = subtask("N1", agent="supervisor", instruction="Look into the second topic as a whole.")
    script = well_behaved(subtask("T1")).plan(nested, goal=GOAL.goal)
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL)
        result = await session.result()

    assert result.answer == "It is known [S1]."
    assert [source.ref for source in result.sources] == ["search_documents.md#L1"]
    assert result.usage.turns == 4
    child = result.subtasks[0].workflow_id
    assert child is not None
    assert re.fullmatch(rf"{session.id}/[0-9a-f]{{12}}/supervisor/[0-9a-f]{{16}}", child)


async def test_the_web_ui_gets_the_details_of_a_session_when_it_asks(environment: OpenEnvironment) -> None:
    """They say how the session stands then: its state, what it has spent, and how each subtask ended."""
    async with environment(Script().plan(*topics(1)).on("work", answer("Known."))) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="What is known?", review="never"))
        await session.result()
        handle = opened.chargehand.client.get_workflow_handle(session.id)
        shown = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)

    assert shown.current_details.startswith("**finished**\n\n- turns: 2 of 20\n")
    assert "✔ **T1** reader · success" in shown.current_details
