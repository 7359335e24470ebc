"""Fair shares and reservations: agents get the turns and the room that they need, and their gaps are named."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from activities.contracts.tool import ToolAnswer
from activities.models.prices import Tokens, price_card, usage_of
from activities.models.protocol import ModelCall, ModelReply
from activities.turn.activity import prompt_bytes
from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, Report, SessionRequest, Source, Tier
from chargehand.contracts.limits import PROFILES
from tests.environment import SessionEnvironment, open_environment
from tests.parameters import first_fast
from tests.scripted_model import Respond, Script, answer, keep_using, reply, report, subtask, use, work_task
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the pages say about the ferries?", review="never")
MODEL = "claude-sonnet-5-5"
CARD = price_card("anthropic", MODEL)
THOUGHT = 4_500
"""Tokens of thinking before each reply, for a model that thinks long."""
FORCED = "no more tools can be used"
PAGE = "The ferry left the harbour late, since its engine had to be repaired first. " * 330
"""About 25,000 characters, as `read_page` returns them."""
FOUND = [Source(ref=f"https://example.com/{number}", title="Ferries", quote=PAGE[:500]) for number in range(5)]


def as_charged(script: Script, thought: int) -> Respond:
    """Charge as Anthropic does: a token per four bytes, and a tenth of the price for what was in the prompt before."""
    before: dict[str, int] = {}

    def respond(call: ModelCall) -> ModelReply:
        turn = script(call)
        turn = turn(call) if callable(turn) else turn
        assert isinstance(turn, BaseModel)
        replied = turn if isinstance(turn, ModelReply) else reply(turn)
        tokens, written = prompt_bytes(call) // 4, thought + 500
        conversation = work_task(call).instruction if isinstance(call.task, WorkTask) else call.task.kind
        cached, before[conversation] = before.get(conversation, 0), tokens
        output = min(written, call.max_output_tokens)
        used = Tokens(input=tokens, cached=cached, cache_written=tokens - cached, output=output)
        charged = {"usage": usage_of("anthropic", MODEL, MODEL, used), "model": MODEL}
        cut = {"stop": "truncated", "text": "", "tool_calls": ()} if output < written else {}
        return replied.model_copy(update=cut | charged)

    return respond


async def researched(
    folder: Path,
    script: Script,
    request: SessionRequest,
    *,
    page: str = "",
    counts_input: bool = False,
    thought: int = 0,
) -> tuple[Report, SessionEnvironment]:
    """Run a session at Anthropic's prices, with this text as its pages."""
    assert CARD is not None
    cards = dict.fromkeys(Tier, CARD.model_copy(update={"counts_input": counts_input}))
    async with open_environment(None, folder, as_charged(script, thought), cards=cards) as opened:
        if page:
            opened.tools["search"].answer = ToolAnswer(output={"found": 5}, sources=tuple(FOUND))
            source = Source(ref="https://example.com/1", title="Ferries", quote=page)
            opened.tools["read_page"].answer = ToolAnswer(output={}, sources=(source,))
        return await opened.run(request), opened


def researchers(count: int) -> Script:
    subtasks = [subtask(f"T{number}", "researcher") for number in range(1, count + 1)]
    return Script().plan(*subtasks).work("", use("search"), use("read_page"), answer("Late."))


def texts(call: ModelCall) -> str:
    last = call.messages[-1]
    return "\n".join([last.text, *(result.text for result in last.results)])


async def test_long_thinking_models_finish_within_the_default_limits(tmp_path: Path) -> None:
    """Five researchers search, read and answer unforced, with room to think in every turn."""
    result, opened = await researched(tmp_path, researchers(5), GOAL, thought=THOUGHT)

    assert [record.state for record in result.subtasks] == ["success"] * 5
    assert (result.stop_reason, result.gaps) == ("completed", ())
    assert min(call.max_output_tokens for call in opened.model.of_kind("work")) >= 8_000
    assert result.usage.cost_usd <= Decimal(2)


@pytest.mark.parametrize(
    ("count", "turns", "rounds"),
    first_fast([(5, 14, 2), (5, 8, 1), (5, 14, 10), (2, 14, 10), (6, 8, 10), (1, 8, 10), (4, 30, 10), (6, 30, 3)], 2),
)
async def test_agents_are_told_the_turns_that_they_really_have_left(
    run: RunSession, count: int, turns: int, rounds: int
) -> None:
    """A planner is told the turns that an agent may take, and its plan passes if these fit."""
    planned = researchers(count).work("", keep_using("search"), forced=answer("Had to stop here."))
    request = GOAL.model_copy(update={"limits": Limits(max_turns=turns, max_rounds=rounds)})
    _, opened = await run(planned, request)

    [plan, *repairs] = opened.model.of_kind("plan")
    assert f"one with tools counts as {min(3, rounds)}, and has {rounds} at most" in texts(plan)
    assert bool(repairs) is (count * min(3, rounds) > turns - 2)
    _require_told_turns(opened)


@pytest.mark.parametrize("cents", first_fast([75, 90, 30, 45, 60, 110, 150], 2))
async def test_remaining_turns_are_counted_by_what_the_dollars_pay_for(tmp_path: Path, cents: int) -> None:
    """The last of them still has room for the answer."""
    script = researchers(2).work("", keep_using("search"), forced=answer("Had to stop here."))
    request = GOAL.model_copy(update={"limits": Limits(budget_usd=Decimal(cents) / 100)})
    result, opened = await researched(tmp_path, script, request, thought=THOUGHT)

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


async def test_a_forced_answer_is_reported_as_a_gap(run: RunSession) -> None:
    """It counts as partial, however confident the agent is, and so it is reviewed."""
    script = researchers(2).work("T2", keep_using("search"), forced=answer("Had to stop here."))
    result, opened = await run(script, GOAL.model_copy(update={"review": "auto", "limits": Limits(max_rounds=4)}))

    assert [record.state for record in result.subtasks] == ["success", "partial"]
    assert "T2 (researcher) had to answer without looking further: its rounds were used up." in result.gaps
    assert result.stop_reason == "partial"
    assert len(opened.model.of_kind("review")) == 1


async def test_limits_too_small_for_an_agent_are_not_reported_as_used_up(run: RunSession) -> None:
    """The remainder still pays for the report."""
    planned = Script().plan(subtask("T1", "researcher"), subtask("T2", "researcher", after=["T1"]))
    script = planned.work("T1", keep_using("search"))
    result, opened = await run(script, GOAL.model_copy(update={"limits": Limits(max_turns=8)}))

    assert opened.model.of_kind("synthesis")
    assert "T2 (researcher) failed: The limits left too little for it to start." in result.gaps


@pytest.mark.parametrize(
    ("agents", "rounds", "limits"),
    [
        (3, [["search"], ["read_page"], ["read_page"], ["read_page"]], Limits()),
        (5, [["search"] * 3, ["read_page"] * 3], Limits()),
        (5, [["search"], ["read_page"], ["read_page"], ["read_page"]], Limits(max_turns=40)),
    ],
    ids=["3 of 5 turns", "5 of 3 turns", "5 of 5 turns"],
)
async def test_parallel_researchers_can_read_all_the_pages_they_request(
    tmp_path: Path, agents: int, rounds: list[list[str]], limits: Limits
) -> None:
    """Within the usual budget each searches, reads and answers unforced."""
    turns = [use(*tools, about=number) for number, tools in enumerate(rounds)]
    script = researchers(agents).work("", *turns, answer("Late.")).synthesis(report("All late."))
    result, opened = await researched(tmp_path, script, GOAL.model_copy(update={"limits": limits}), page=PAGE)

    pages = sum(tools.count("read_page") for tools in rounds)
    assert len(opened.tools["read_page"].calls) == agents * pages
    assert [task.must_answer for task in opened.model.tasks(WorkTask)] == [False] * agents * (len(rounds) + 1)
    assert (result.stop_reason, result.answer) == ("completed", "All late.")
    assert [record.state for record in result.subtasks] == ["success"] * agents


@pytest.mark.parametrize("counts_input", [True, False])
async def test_prompt_counting_makes_a_small_budget_last_longer(tmp_path: Path, *, counts_input: bool) -> None:
    """Bounding by bytes would end the reading; a count shows that it is affordable, within the budget."""
    limits = Limits(budget_usd=Decimal("0.52"))
    request = GOAL.model_copy(update={"limits": limits})
    result, opened = await researched(tmp_path, researchers(1), request, page=PAGE * 6, counts_input=counts_input)

    forced = [task.must_answer for task in opened.model.tasks(WorkTask)]
    assert any(forced) is not counts_input
    assert result.usage.cost_usd <= limits.budget_usd
    assert result.usage.charged_above_reservation_usd == 0


async def test_the_quick_profile_pays_for_two_agents(tmp_path: Path) -> None:
    """Two agents search, read and answer one after the other, and the report says that their turns are used up."""
    script, request = researchers(2).synthesis(report("All late.")), SessionRequest(goal=GOAL.goal, profile="quick")
    result, _ = await researched(tmp_path, script, request, page=PAGE[:5_000], counts_input=True)

    assert [record.state for record in result.subtasks] == ["success", "partial"]
    assert "T2 (researcher) had to answer without looking further: its turns were used up." in result.gaps
    assert (result.stop_reason, result.answer) == ("partial", "All late.")
    assert result.usage.cost_usd <= request.limits.budget_usd


@pytest.mark.parametrize(
    ("request_of", "ceilings", "named"),
    [
        ({}, {}, "deep"),
        ({"profile": "quick"}, {}, "standard"),
        ({"profile": "deep"}, {}, ""),
        ({}, {"max_turns": 100}, ""),
        ({}, {"deadline": 1_800}, ""),
        ({"limits": Limits(max_turns=12)}, {}, ""),
        ({"limits": Limits(budget_usd=Decimal(3))}, {}, ""),
    ],
)
async def test_a_larger_profile_is_suggested_only_if_it_is_allowed(
    environment: OpenEnvironment, request_of: dict[str, Any], ceilings: dict[str, Any], named: str
) -> None:
    """The session must use its profile's own limits, and the installation must allow all of the larger one's."""
    most = Limits.model_validate({**dict(PROFILES["deep"]), "max_rounds": 250, **ceilings})
    draft = PlanAnswer(subtasks=[subtask("T1")], omitted=["The winter timetable."])
    async with environment(Script().plans(draft).work("T1", answer("It is said.")), ceilings=most) as opened:
        result = await (await opened.chargehand.start(GOAL.model_copy(update=request_of))).result()

    advice = f" The profile '{named}' has room for more." if named else ""
    assert result.gaps == (f"Not planned, for want of room in the limits: The winter timetable.{advice}",)
