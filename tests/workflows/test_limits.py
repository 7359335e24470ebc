"""Limits hold over the whole tree, and a session that reaches one still ends in a report."""

import re
from datetime import timedelta
from decimal import Decimal
from itertools import cycle

import pytest
from pydantic import BaseModel

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from chargehand.errors import SessionFailed
from tests.scripted_model import (
    COST,
    Held,
    Script,
    Turn,
    answer,
    keep_using,
    most_expensive,
    plan,
    reply,
    report,
    subtask,
    topics,
    use,
)
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")


def limited(**limits: object) -> SessionRequest:
    return GOAL.model_copy(update={"limits": Limits.model_validate(limits)})


def never_content(cost: Decimal = COST) -> Script:
    """Plan five subtasks whose agents would use tools for ever."""
    stopped = reply(answer("Had to stop here.", status="partial", gaps=["the rest"]), cost)
    planned = Script().plans(reply(plan(*topics(5)), cost)).synthesis(reply(report("As far as it went."), cost))
    return planned.work("", keep_using("search_documents", cost=cost), forced=stopped)


@pytest.mark.parametrize("max_turns", [12, 15, 20])
async def test_turns_of_the_whole_tree_never_exceed_the_limit(run: RunSession, max_turns: int) -> None:
    """Five insatiable agents, planning and synthesis make at most max_turns turns, and nobody waits for ever."""
    result, opened = await run(never_content(), limited(max_turns=max_turns))

    assert len(opened.model.calls) <= max_turns
    assert result.usage.turns == len(opened.model.calls)
    assert opened.model.calls[-1].task.kind == "synthesis"
    assert result.answer


@pytest.mark.parametrize("budget", [Decimal("0.40"), Decimal("0.50")])
async def test_money_of_the_whole_tree_never_exceeds_the_budget(environment: OpenEnvironment, budget: Decimal) -> None:
    """With every reply at ten cents, the provider's bill stays within the budget and equals the report's."""
    dear = Decimal("0.02")
    async with environment(never_content(dear)) as opened:
        result = await (await opened.chargehand.start(limited(budget_usd=float(budget), max_turns=100))).result()

    billed = dear * len(opened.model.calls)
    assert billed <= budget
    assert result.usage.cost_usd == billed


async def test_rounds_of_one_agent_are_limited(run: RunSession) -> None:
    """An agent that never stops asking for tools is told in its last round that it must answer."""
    result, opened = await run(never_content().plan(subtask("T1")), limited(max_rounds=3))

    assert [task.must_answer for task in opened.model.tasks(WorkTask)] == [False, False, True]
    assert [record.state for record in result.subtasks] == ["partial"]
    assert result.gaps == ("the rest",)


async def test_the_deadline_brings_a_report_of_what_is_there(run: RunSession) -> None:
    """When time is up, finished work is reported in full, the rest as gaps, and that within five seconds."""
    script = Script().plan(*topics(2)).work("T2", Held(answer("Too late."))).synthesis(report("What was ready."))
    result, _ = await run(script, limited(deadline=2))

    assert result.stop_reason == "deadline"
    assert [record.state for record in result.subtasks] == ["success", "failure"]
    assert result.answer == "What was ready."
    assert result.timing.wall <= timedelta(seconds=2 + 5)


async def test_the_same_work_is_refused_twice_across_the_tree(run: RunSession) -> None:
    """A nested session that plans what its parent already had done is refused, as an outcome."""
    again = "Find out everything about the tides."
    tides = subtask("N1", agent="supervisor", after=["T1"], instruction="Look into the tides as a whole.")
    script = Script().plan(subtask("X1", instruction=f"  {again.upper()}  "))
    script = script.plan(subtask("T1", instruction=again), tides, goal=GOAL.goal)
    result, opened = await run(script, GOAL)

    assert len(opened.model.of_kind("work")) == 1
    assert [record.state for record in result.subtasks] == ["success", "failure"]


SHAPES = {
    "one": (subtask("T1"),),
    "five at once": topics(5),
    "a chain": (subtask("T1"), subtask("T2", after=["T1"], required=["T1"]), subtask("T3", after=["T2"])),
    "a nested session": (subtask("T1", "supervisor", instruction="Compare all that is known of the topics."),),
    "dear agents": tuple(subtask(f"T{number}", agent) for number, agent in enumerate(["writer", "analyst"], start=1)),
}


@pytest.mark.parametrize(("shape", "first"), [*zip(SHAPES, cycle(["answers", "uses tools"]), strict=False)])
async def test_the_smallest_limits_that_are_named_always_end_in_a_report(
    environment: OpenEnvironment, shape: str, first: str
) -> None:
    """Under exactly the limits that a refusal names, every plan ends in a report, even at the highest price."""

    def dear(turn: BaseModel) -> Turn:
        return lambda call: reply(turn, most_expensive(call))

    answered = dear(answer("Known.", status="partial", gaps=["the rest"]))
    script = Script().plans(dear(plan(*SHAPES[shape]))).synthesis(dear(report("As far as it went.")))
    if first == "uses tools":
        script = script.work("", lambda call: use("search_documents", cost=most_expensive(call)), forced=answered)
    else:
        script = script.work("", answered)
    async with environment(script) as opened:
        with pytest.raises(SessionFailed) as refused:
            await opened.run(limited(max_turns=1, budget_usd=0.01))
        named = re.search(r"max_turns (\d+) and budget_usd (\d+\.\d+)", str(refused.value))
        assert named is not None
        turns, usd = int(named[1]), Decimal(named[2])
        result = await opened.run(limited(max_turns=turns, budget_usd=usd))

    assert result.answer
    assert result.usage.turns <= turns
    assert result.usage.cost_usd <= usd
    assert result.reserved_usd == 0
