"""Failures on purpose: each experiment counts the faults that it injected and what came through."""

import asyncio
import re
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.contracts.rounds import ToolCall
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from chargehand.errors import SessionFailed
from chargehand.interface import Supervisor
from chargehand.wire import ErrorType
from tests.scripted_model import (
    COST,
    Script,
    answer,
    plan,
    subtask,
    topics,
    use,
)
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


async def test_without_our_client_the_server_refuses_all_but_one(environment: OpenEnvironment) -> None:
    """Callers who ask Temporal itself for a fresh start get 1 start and 49 refusals, and pay for one session."""
    session_id = f"same-{uuid4().hex[:8]}"
    async with environment(Script().plan(subtask("T1"))) as opened:
        starts = await asyncio.gather(
            *(
                opened.chargehand.client.start_workflow(
                    Supervisor.run,
                    GOAL,
                    id=session_id,
                    task_queue=opened.chargehand.task_queue,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                )
                for _ in range(50)
            ),
            return_exceptions=True,
        )
        result = await opened.chargehand.session(session_id).result()

    refused = [start for start in starts if isinstance(start, WorkflowAlreadyStartedError)]
    assert (len(starts) - len(refused), len(refused)) == (1, 49)
    assert result.usage.turns == len(opened.model.calls) == 2


@pytest.mark.parametrize("lost", [1, 3, 5])
async def test_whatever_part_of_the_subtasks_fails_the_rest_is_reported(run: RunSession, lost: int) -> None:
    """Of five subtasks k fail: each has exactly one typed result, the report names those that are missing."""
    script = Script().plan(*(subtask(f"T{number}", agent="writer") for number in range(1, 6)))
    for number in range(1, lost + 1):
        script = script.work(f"T{number}", answer("", status="no_answer"))
    result, opened = await run(script, GOAL)

    failed = [record.id for record in result.subtasks if (record.state, record.reason) == ("failure", "no_answer")]
    succeeded = [record.id for record in result.subtasks if record.state == "success"]
    assert len(opened.model.of_kind("work")) == 5
    assert failed == [f"T{number}" for number in range(1, lost + 1)]
    assert succeeded == [f"T{number}" for number in range(lost + 1, 6)]
    assert [any(gap.startswith(f"T{number} (") for gap in result.gaps) for number in range(1, 6)] == [
        number <= lost for number in range(1, 6)
    ]
    assert result.stop_reason == ("nothing_succeeded" if lost == 5 else "partial")
    assert len(opened.model.of_kind("synthesis")) == int(lost < 5)


async def test_deeply_nested_arguments_do_not_hold_a_subtask(run: RunSession) -> None:
    """An agent that insists on arguments nested nearly as deep as a parser reads soon runs out of rounds, or ends."""
    deep: JsonValue = 1
    for _ in range(195):
        deep = {"a": deep}
    call = ToolCall(id="call-1", tool="search_documents", arguments={"query": deep})
    insisting = use().model_copy(update={"tool_calls": (call,)})
    request = GOAL.model_copy(update={"limits": Limits(max_rounds=3)})
    result, opened = await run(Script().plan(subtask("T1")).work("", lambda _: insisting), request)

    assert result.stop_reason == "nothing_succeeded", result
    assert len(opened.model.tasks(WorkTask)) <= 4
