"""Reservations leave room for work: agents whose session can pay for them are not made to answer early."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import BaseModel

from activities.contracts.drafts import SubtaskDraft
from activities.contracts.tool import ToolAnswer
from activities.models.prices import Tokens, price_card, usage_of
from activities.models.protocol import ModelCall, ModelReply
from activities.turn.activity import prompt_bytes
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, Report, SessionRequest, Source, Tier
from tests.environment import SessionEnvironment, open_environment
from tests.scripted_model import Script, answer, reply, report, subtask, use, work_task

GOAL = "What do the pages say about the ferries?"
MODEL = "claude-sonnet-5-5"
CARD = price_card("anthropic", MODEL)
PAGE = "The ferry left the harbour late, since its engine had to be repaired first. " * 330
"""About 25,000 characters, as `read_page` returns them."""
FOUND = [Source(ref=f"https://example.com/{number}", title="Ferries", quote=PAGE[:500]) for number in range(5)]


def as_charged(script: Script) -> Callable[[ModelCall], ModelReply]:
    """Charge as Anthropic does: a token for four bytes, and a tenth of the price for what was in the prompt before."""
    before: dict[str, int] = {}

    def respond(call: ModelCall) -> ModelReply:
        turn = script(call)
        assert isinstance(turn, BaseModel)
        replied = turn if isinstance(turn, ModelReply) else reply(turn)
        tokens = prompt_bytes(call) // 4
        conversation = work_task(call).instruction if isinstance(call.task, WorkTask) else call.task.kind
        cached, before[conversation] = before.get(conversation, 0), tokens
        used = Tokens(input=tokens, cached=cached, cache_written=tokens - cached, output=500)
        return replied.model_copy(update={"usage": usage_of("anthropic", MODEL, MODEL, used), "model": MODEL})

    return respond


async def researched(
    folder: Path, script: Script, request: SessionRequest, *, page: str = PAGE, counts_input: bool = False
) -> tuple[Report, SessionEnvironment]:
    """Run a session whose pages say this, at the prices of Anthropic."""
    assert CARD is not None
    cards = dict.fromkeys(Tier, CARD.model_copy(update={"counts_input": counts_input}))
    async with open_environment(None, folder, as_charged(script), cards=cards) as opened:
        opened.tools["search"].answer = ToolAnswer(output={"found": 5}, sources=tuple(FOUND))
        source = Source(ref="https://example.com/1", title="Ferries", quote=page)
        opened.tools["read_page"].answer = ToolAnswer(output={}, sources=(source,))
        return await opened.run(request), opened


def researchers(count: int) -> list[SubtaskDraft]:
    return [subtask(f"T{number}", "researcher") for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("agents", "rounds", "limits"),
    [
        (3, [["search"], ["read_page"], ["read_page"], ["read_page"]], Limits()),
        (5, [["search"] * 3, ["read_page"] * 3], Limits()),
        (5, [["search"], ["read_page"], ["read_page"], ["read_page"]], Limits(max_turns=40)),
    ],
    ids=["3 of 5 turns", "5 of 3 turns", "5 of 5 turns"],
)
async def test_researchers_at_once_read_what_they_want_to(
    tmp_path: Path, agents: int, rounds: list[list[str]], limits: Limits
) -> None:
    """Within the usual budget each agent searches, reads every page that it asks for, and answers by itself."""
    turns = [use(*tools, about=number) for number, tools in enumerate(rounds)]
    script = Script().plan(*researchers(agents)).work("", *turns, answer("Late.")).synthesis(report("All late."))
    result, opened = await researched(tmp_path, script, SessionRequest(goal=GOAL, limits=limits, review="never"))

    pages = sum(tools.count("read_page") for tools in rounds)
    assert len(opened.tools["read_page"].calls) == agents * pages
    assert [task.must_answer for task in opened.model.tasks(WorkTask)] == [False] * agents * (len(rounds) + 1)
    assert (result.stop_reason, result.answer) == ("completed", "All late.")
    assert [record.state for record in result.subtasks] == ["success"] * agents


@pytest.mark.parametrize("counts_input", [True, False])
async def test_a_provider_that_counts_prompts_lets_a_small_budget_go_further(
    tmp_path: Path, *, counts_input: bool
) -> None:
    """Where the bound by bytes would end the reading, a count shows that it can be paid; the books stay within."""
    script = Script().plan(*researchers(1)).work("", use("search"), use("read_page"), answer("Late."))
    limits = Limits(budget_usd=Decimal("0.52"))
    request = SessionRequest(goal=GOAL, limits=limits, review="never")
    result, opened = await researched(tmp_path, script, request, page=PAGE * 6, counts_input=counts_input)

    forced = [task.must_answer for task in opened.model.tasks(WorkTask)]
    assert any(forced) is not counts_input
    assert result.usage.cost_usd <= limits.budget_usd
    assert result.usage.charged_above_reservation_usd == 0


async def test_the_quick_profile_pays_for_two_agents(tmp_path: Path) -> None:
    """At today's price two agents search, read and answer one after the other, and the report is written.

    Their turns are all used up then, and the report says so.
    """
    script = Script().plan(*researchers(2)).work("", use("search"), use("read_page"), answer("Late."))
    script, request = script.synthesis(report("All late.")), SessionRequest(goal=GOAL, profile="quick")
    result, _ = await researched(tmp_path, script, request, page=PAGE[:5_000], counts_input=True)

    assert [record.state for record in result.subtasks] == ["success", "partial"]
    assert "T2 (researcher) had to answer without looking further: its turns were used up." in result.gaps
    assert (result.stop_reason, result.answer) == ("partial", "All late.")
    assert result.usage.cost_usd <= request.limits.budget_usd
