"""A session from start to report, with a scripted model, in any language."""

import asyncio

from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.protocol import SubtaskDraft
from chargehand.contracts import Limits, SessionRequest
from tests.scripted_model import COST, Held, Script, answer, cite, report, subtask, topics, use
from tests.workflows.conftest import RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?")


def well_behaved(*subtasks: SubtaskDraft) -> Script:
    """Plan these subtasks, use one tool in each, answer with its source, and report."""
    script = Script().plan(*subtasks).synthesis(report("All topics are read [S1] [S2]."))
    return script.work("", lambda call: use(call.tools[0].name), cite("It is known [{ref}]."))


async def test_a_plan_of_two_subtasks_becomes_one_report(run: RunSession) -> None:
    """It has the sources that agents really read, and the sum of all costs."""
    result, opened = await run(well_behaved(subtask("T1"), subtask("T2", agent="analyst")), GOAL)

    assert not any(call.tools for call in opened.model.calls if call.agent == "supervisor")
    assert result.answer == "All topics are read [S1] [S2]."
    assert [source.ref for source in result.sources] == ["search_documents.md#L1", "query_data.md#L1"]
    assert [source.quote for source in result.sources] == ["what search_documents read", "what query_data read"]
    assert result.stop_reason == "completed"
    assert (result.verification, result.confidence) == ("supported", 90)
    ended = [(record.id, record.state, record.usage.turns) for record in result.subtasks]
    assert ended == [("T1", "success", 2), ("T2", "success", 2)]
    assert result.usage.turns == 7
    assert result.usage.cost_usd == 7 * COST
    assert result.usage.tool_calls == 2


async def test_a_plan_of_one_subtask_needs_no_synthesis(run: RunSession) -> None:
    """It costs turns for the plan, the agent and the judge; the agent's answer is the report."""
    result, opened = await run(well_behaved(subtask("T1")), GOAL)

    assert result.answer == "It is known [S1]."
    assert [call.task.kind for call in opened.model.calls] == ["plan", "work", "work", "judge_claims"]


async def test_a_subtask_starts_as_soon_as_its_own_inputs_are_ready(run: RunSession) -> None:
    """T3, which needs only T1, finishes while T2 is still running: subtasks do not run in waves."""
    third_is_done = asyncio.Event()

    def third(_: ModelCall) -> BaseModel:
        third_is_done.set()
        return answer("Third.")

    script = Script().plan(subtask("T1"), subtask("T2"), subtask("T3", after=["T1"]))
    script = script.work("T2", Held(answer("Second."), third_is_done)).work("T3", third)
    result, _ = await run(script, GOAL)

    assert [record.state for record in result.subtasks] == ["success", "success", "success"]


async def test_a_deep_session_executes_a_plan_of_ten_subtasks(run: RunSession) -> None:
    """A plan of ten subtasks, as deep research has them, is carried out whole."""
    goal = "What do the documents say about the topics?"
    request = SessionRequest(goal=goal, profile="deep", review="never", limits=Limits(max_turns=60))
    result, _ = await run(Script().plan(*topics(10)), request)

    assert [record.state for record in result.subtasks] == ["success"] * 10
    assert (result.stop_reason, result.gaps) == ("completed", ())
