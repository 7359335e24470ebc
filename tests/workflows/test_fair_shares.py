"""Fair shares: each agent has its turns and its room to think, is told them truly, and its gaps have its name."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import BaseModel

from activities.models.prices import Tokens, price_card, usage_of
from activities.models.protocol import ModelCall, ModelReply
from activities.turn.activity import prompt_bytes
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, Report, SessionRequest, Tier
from tests.environment import SessionEnvironment, open_environment
from tests.parameters import first_fast
from tests.scripted_model import Respond, Script, answer, keep_using, reply, subtask, use
from tests.workflows.conftest import RunSession

GOAL = SessionRequest(goal="What do the pages say about the ferries?", review="never")
MODEL = "claude-sonnet-5-5"
CARD = price_card("anthropic", MODEL)
THOUGHT = 4_500
"""Tokens that the model thinks before each reply."""
FORCED = "no more tools can be used"


def thinking(script: Script) -> Respond:
    """Think before each reply, at real prices; a reply whose cap the thoughts fill is cut off."""

    def respond(call: ModelCall) -> ModelReply:
        turn = script(call)
        turn = turn(call) if callable(turn) else turn
        assert isinstance(turn, BaseModel)
        replied = turn if isinstance(turn, ModelReply) else reply(turn)
        written = THOUGHT + 800
        used = Tokens(
            input=prompt_bytes(call) // 4, cached=0, cache_written=0, output=min(written, call.max_output_tokens)
        )
        usage = usage_of("anthropic", MODEL, MODEL, used)
        if call.max_output_tokens < written:
            cut = {"stop": "truncated", "text": "", "tool_calls": ()}
            return replied.model_copy(update=cut | {"usage": usage, "model": MODEL})
        return replied.model_copy(update={"usage": usage, "model": MODEL})

    return respond


async def thought_through(folder: Path, script: Script, request: SessionRequest) -> tuple[Report, SessionEnvironment]:
    assert CARD is not None
    async with open_environment(None, folder, thinking(script), cards=dict.fromkeys(Tier, CARD)) as opened:
        return await opened.run(request), opened


def researchers(count: int) -> Script:
    subtasks = [subtask(f"T{number}", "researcher") for number in range(1, count + 1)]
    return Script().plan(*subtasks).work("", use("search"), use("read_page"), answer("Late."))


def texts(call: ModelCall) -> str:
    last = call.messages[-1]
    return "\n".join([last.text, *(result.text for result in last.results)])


async def test_a_model_that_thinks_long_finishes_all_its_work(tmp_path: Path) -> None:
    """At the defaults five researchers search, read and answer by themselves, with room to think in every turn."""
    result, opened = await thought_through(tmp_path, researchers(5), GOAL)

    assert [record.state for record in result.subtasks] == ["success"] * 5
    assert (result.stop_reason, result.gaps) == ("completed", ())
    assert min(call.max_output_tokens for call in opened.model.of_kind("work")) >= 8_000
    assert result.usage.cost_usd <= Decimal(2)


@pytest.mark.parametrize("count", first_fast([6, 9, 4, 5, 7, 8], 2))
async def test_a_plan_runs_whole_or_goes_back(run: RunSession, count: int) -> None:
    """At the defaults each of an accepted plan's agents looks, reads and answers; another is refused with the sum."""
    result, opened = await run(researchers(count), GOAL)

    first, *repairs = opened.model.tasks(PlanTask)
    if count <= first.max_subtasks:
        assert not repairs
        assert {record.state for record in result.subtasks} <= {"success", "partial"}
        assert len(opened.tools["read_page"].calls) == count == len(result.subtasks)
    else:
        assert f"they take at least {3 * count} turns" in repairs[0].rejected[0].errors[0]


@pytest.mark.parametrize("count", first_fast([5, 2, 1, 3, 4, 6], 2))
@pytest.mark.parametrize("turns", first_fast([14, 8, 20, 30]))
async def test_no_message_contradicts_its_count(run: RunSession, count: int, turns: int) -> None:
    """An agent has all the turns that it is told are left, and is never told of turns with what forces its answer."""
    planned = researchers(count).work("", keep_using("search"), forced=answer("Had to stop here."))
    request = GOAL.model_copy(update={"limits": Limits(max_turns=turns)})
    _, opened = await run(planned, request)

    _require_told_turns(opened)


@pytest.mark.parametrize("cents", first_fast([75, 90, 30, 45, 60, 110, 150], 2))
async def test_what_an_agent_writes_is_what_its_turns_are_counted_by(tmp_path: Path, cents: int) -> None:
    """The turns left are those that the dollars pay for, and the last of them has room for the answer."""
    script = researchers(2).work("", keep_using("search"), forced=answer("Had to stop here."))
    request = GOAL.model_copy(update={"limits": Limits(budget_usd=Decimal(cents) / 100)})
    result, opened = await thought_through(tmp_path, script, request)

    _require_told_turns(opened)
    assert {record.state for record in result.subtasks} <= {"partial", "blocked", "skipped"}
    assert not any("stopped before it could evaluate" in gap for gap in result.gaps)
    assert result.usage.cost_usd <= request.limits.budget_usd


def _require_told_turns(opened: SessionEnvironment) -> None:
    by_agent: dict[str, list[ModelCall]] = {}
    for call in opened.model.of_kind("work"):
        assert isinstance(call.task, WorkTask)
        by_agent.setdefault(call.task.instruction, []).append(call)
    assert by_agent
    for calls in by_agent.values():
        for number, call in enumerate(calls):
            left = re.search(r"turns left: (\d+)", texts(call))
            if FORCED in texts(call):
                assert left is None
            if left:
                assert 2 <= int(left[1]) <= len(calls) - number


async def test_a_forced_answer_is_a_gap_with_a_name(run: RunSession) -> None:
    """It is only part of an answer, however sure the agent is, and so it is reviewed."""
    script = researchers(2).work("T2", keep_using("search"), forced=answer("Had to stop here."))
    result, opened = await run(script, GOAL.model_copy(update={"review": "auto", "limits": Limits(max_rounds=4)}))

    assert [record.state for record in result.subtasks] == ["success", "partial"]
    assert "T2 (researcher) had to answer without looking further: its rounds were used up." in result.gaps
    assert result.stop_reason == "partial"
    assert len(opened.model.of_kind("review")) == 1
