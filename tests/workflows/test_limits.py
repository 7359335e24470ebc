"""Limits hold over the whole tree, and a session that reaches one still ends in a report."""

import re
from decimal import Decimal
from itertools import cycle

import pytest
from pydantic import BaseModel

from chargehand.contracts import Limits, SessionRequest
from chargehand.errors import SessionFailed
from tests.scripted_model import (
    COST,
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


@pytest.mark.parametrize("limits", [{"max_turns": 18}, {"budget_usd": 0.4, "max_turns": 100}], ids=["turns", "dollars"])
async def test_the_whole_tree_keeps_its_limits(run: RunSession, limits: dict[str, object]) -> None:
    """Five insatiable agents, planning and synthesis stay within each limit, and the books equal the bill."""
    request = limited(**limits)
    result, opened = await run(never_content(Decimal("0.02")), request)

    assert result.usage.turns == len(opened.model.calls) <= request.limits.max_turns
    assert result.usage.cost_usd == Decimal("0.02") * len(opened.model.calls) <= request.limits.budget_usd
    assert opened.model.calls[-1].task.kind == "synthesis"
    assert result.answer


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
