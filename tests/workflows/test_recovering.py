"""Ways back from bad ends: another attempt, another tier, a smaller task, and a reply with more room."""

from decimal import Decimal

import pytest

from activities.models.protocol import ModelCall
from chargehand.contracts import Limits, SessionRequest
from tests.scripted_model import COST, Script, Turn, answer, reply, subtask, topics, use
from tests.workflows.conftest import RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")
BETTER = "Look in the second chapter of the handbook, and nowhere else."


async def test_an_agent_that_reads_documents_is_no_fallback_without_any(run: RunSession) -> None:
    """A researcher that found nothing is not followed by a reader who has nothing to read."""
    script = Script().plan(subtask("T1", "researcher")).work("", answer("", status="no_answer"))
    result, opened = await run(script, GOAL)

    assert [call.agent for call in opened.model.of_kind("work")] == ["researcher"]
    assert result.stop_reason == "nothing_succeeded"


async def test_an_agent_that_asks_the_same_thing_again_and_again_must_answer(run: RunSession) -> None:
    """A tool is used once for the same question; after three repetitions the agent gets no more tools."""
    script = Script().plan(subtask("T1")).work("", use("search_documents"), forced=answer("Known.", status="partial"))
    result, opened = await run(script, GOAL)

    assert len(opened.tools["search_documents"].calls) == 1
    assert len(opened.model.of_kind("work")) == 5
    assert [record.state for record in result.subtasks] == ["partial"]


CUT_OFF = reply(answer("and th")).model_copy(update={"stop": "truncated"})


class CutOff:
    """Answers as usual, but lets the first replies of one kind be cut off."""

    def __init__(self, kind: str, times: int, usual: Script | None = None) -> None:
        self._kind = kind
        self._left = times
        self._usual = usual or Script().plan(*topics(2))

    def __call__(self, call: ModelCall) -> Turn:
        if call.task.kind == self._kind and self._left:
            self._left -= 1
            return CUT_OFF
        return self._usual(call)


@pytest.mark.parametrize(
    ("kind", "effort", "lower"),
    [("plan", "high", "medium"), ("work", "medium", "low"), ("synthesis", "high", "medium")],
)
async def test_a_reply_that_is_cut_off_is_asked_for_again(run: RunSession, kind: str, effort: str, lower: str) -> None:
    """Whatever the turn is for: at twice the cap and with less effort; both are one turn."""
    request = GOAL.model_copy(update={"limits": Limits(max_turns=40, max_parallel=1)})

    result, opened = await run(CutOff(kind, 1), request)

    first, again = opened.model.of_kind(kind)[:2]
    assert (first.effort, again.effort) == (effort, lower)
    assert again.max_output_tokens == 2 * first.max_output_tokens
    assert again.messages == first.messages
    assert (result.stop_reason, result.answer) == ("completed", "All of it.")
    assert (result.wasted.turns, result.wasted.cost_usd) == (0, COST)
    assert result.usage.turns == 4


async def test_a_reply_is_asked_for_again_once(run: RunSession) -> None:
    """A reply that is cut off twice is no better than another that cannot be used."""
    result, opened = await run(CutOff("plan", 2), GOAL)

    efforts = [call.effort for call in opened.model.of_kind("plan")]
    assert efforts == ["high", "medium", "high"]
    assert [len(getattr(call.task, "rejected", ())) for call in opened.model.of_kind("plan")] == [0, 0, 1]
    assert result.stop_reason == "completed"


async def test_a_reply_is_not_asked_for_again_if_that_cannot_be_paid(run: RunSession) -> None:
    """Without the dollars, the report is written by rule from what there is, and no limit is passed."""
    request = GOAL.model_copy(update={"limits": Limits(budget_usd=Decimal("0.35"))})
    script = Script().plan(*topics(2)).work("", use("search_documents"), answer("Known."))
    dear = reply(answer("and th"), Decimal("0.25")).model_copy(update={"stop": "truncated"})

    result, opened = await run(script.synthesis(dear), request)

    assert len(opened.model.of_kind("synthesis")) == 1
    assert (result.usage.turns, result.wasted.turns) == (6, 1)
    assert result.answer


async def test_a_reply_that_is_asked_for_again_takes_no_turn_of_others(run: RunSession) -> None:
    """A session whose turns are all needed carries out its plan, although a reply was cut off."""
    request = GOAL.model_copy(update={"limits": Limits(max_turns=6, max_parallel=1)})
    script = (
        Script()
        .plan(subtask("T1"), subtask("T2", agent="writer"))
        .work("T1", use("search_documents"), answer("Known."))
    )

    result, opened = await run(CutOff("work", 1, script), request)

    assert [len(opened.model.of_kind(kind)) for kind in ("plan", "work", "synthesis")] == [1, 4, 1]
    assert (result.usage.turns, result.stop_reason) == (5, "completed")
