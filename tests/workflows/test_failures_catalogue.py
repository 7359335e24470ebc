"""Failures on purpose: each experiment counts the faults that it injected and what came through."""

import asyncio
import re
from uuid import uuid4

import pytest
from temporalio.client import WorkflowExecutionStatus

from activities.turn_kinds.plan import PlanTask
from chargehand.contracts import Limits, SessionRequest
from chargehand.errors import SessionFailed
from chargehand.wire import ErrorType
from tests.scripted_model import COST, Script, plan, subtask, topics
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")


async def test_a_plan_that_stays_broken_is_asked_for_three_times(run: RunSession) -> None:
    """A planner that cannot be taught is asked three times, not fifty; one agent then gets the whole request."""
    cyclic = plan(subtask("T1", after=["T2"]), subtask("T2", after=["T1"]))

    result, opened = await run(Script().plans(cyclic), GOAL)

    assert [call.task.kind for call in opened.model.calls] == ["plan"] * 3 + ["work"]
    assert [(record.agent, record.instruction) for record in result.subtasks] == [
        ("researcher", f"Answer this request: {GOAL.goal}")
    ]
    assert result.answer == "Known."
    assert len(result.gaps) == 1
    assert re.fullmatch(r"No plan was valid, so 'researcher' got the whole request: .* is a cycle.*", result.gaps[0])


async def test_a_request_too_long_for_one_agent_fails_if_nobody_can_divide_it(environment: OpenEnvironment) -> None:
    """An instruction holds 4,000 characters; a longer request that was never planned ends in the plan's errors."""
    cyclic = plan(subtask("T1", after=["T2"]), subtask("T2", after=["T1"]))

    async with environment(Script().plans(cyclic)) as opened:
        with pytest.raises(SessionFailed, match="The plan is invalid") as failure:
            await opened.run(SessionRequest(goal="What do the documents say? " * 200))

    assert failure.value.error_type is ErrorType.INVALID_PLAN
    assert [call.task.kind for call in opened.model.calls] == ["plan"] * 3


@pytest.mark.parametrize("between", ["", "Now look at the ebb as a whole."], ids=["itself", "there and back"])
async def test_a_session_that_comes_back_to_its_own_work_is_refused(run: RunSession, between: str) -> None:
    """A delegates to A, or to B that delegates to A: the plan that closes the circle is never carried out."""
    circle = "Look into the tides as a whole."
    script = Script().plan(subtask("N1", agent="supervisor", instruction=circle))
    if between:
        script = script.plan(subtask("N1", agent="supervisor", instruction=between), goal=circle)
    result, opened = await run(script, GOAL)

    planned = opened.model.tasks(PlanTask)
    goals = {task.goal for task in planned}
    refused = [error for task in planned for again in task.rejected for error in again.errors]
    assert any("loop" in error for error in refused)
    assert len(goals) == (3 if between else 2)
    assert result.stop_reason == "nothing_succeeded"
    assert not opened.model.of_kind("work")


@pytest.mark.real_server
async def test_fifty_starts_of_one_id_are_one_session(environment: OpenEnvironment) -> None:
    """Of 50 concurrent starts one starts it; each gets the same report, paid for once; so do starts afterwards."""
    session_id = f"same-{uuid4().hex[:8]}"
    async with environment(Script().plan(*topics(2))) as opened:
        started = await asyncio.gather(*(opened.chargehand.start(GOAL, session_id=session_id) for _ in range(50)))
        reports = await asyncio.gather(*(session.result() for session in started))
        later = await asyncio.gather(*(opened.chargehand.start(GOAL, session_id=session_id) for _ in range(10)))
        reports += await asyncio.gather(*(session.result() for session in later))
        executions = [
            execution.status
            async for execution in opened.chargehand.client.list_workflows(f"WorkflowId = '{session_id}'")
        ]

    assert len(reports) == 60
    assert len({one.model_dump_json() for one in reports}) == 1
    assert executions == [WorkflowExecutionStatus.COMPLETED]
    assert [call.task.kind for call in opened.model.calls] == ["plan", "work", "work", "synthesis"]
    assert reports[0].usage.cost_usd == 4 * COST
