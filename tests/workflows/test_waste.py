"""What a report says of its own cost: what came to nothing, what is still set aside, how close each limit came."""

import asyncio

from chargehand.contracts import Limits, Report, SessionRequest
from tests.scripted_model import COST, Held, Script, answer, plan, refined, subtask, topics, use
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")
BETTER = "Look in the second chapter of the handbook, and nowhere else."


def _uses(result: Report) -> dict[str, tuple[float, float]]:
    return {use.limit: (use.used, use.allowed) for use in result.limits}


async def test_a_session_that_goes_well_wastes_nothing_and_names_every_limit(run: RunSession) -> None:
    """Every limit of the request stands in the report with what was used of it; nothing stays set aside."""
    script = Script().plan(subtask("T1"), subtask("T2"), subtask("T3", after=["T1", "T2"]))
    script = script.work("", use("search_documents"), answer("Known."))
    result, _ = await run(script, GOAL)

    uses = _uses(result)
    assert result.wasted.cost_usd == 0
    assert result.wasted.turns == 0
    assert result.reserved_usd == 0
    counted = ("max_turns", "budget_usd", "max_depth", "max_parallel", "max_attempts", "max_rounds", "max_reviews")
    assert {name: uses[name] for name in counted} == {
        "max_turns": (8, 40),
        "budget_usd": (float(8 * COST), 2.0),
        "max_depth": (1, 5),
        "max_parallel": (2, 5),
        "max_attempts": (1, 3),
        "max_rounds": (2, 10),
        "max_reviews": (0, 2),
    }
    timed = {name: use for name, use in uses.items() if name not in counted}
    assert {name: allowed for name, (_, allowed) in timed.items()} == {
        "deadline_seconds": 600,
        "subtask_deadline_seconds": 300,
    }
    assert len(uses) == len(Limits.model_fields) - 1  # all but on_limit
    assert timed["deadline_seconds"][0] == result.timing.wall.total_seconds()
    assert all(0 < used <= allowed for used, allowed in timed.values())


async def test_a_rejected_plan_is_wasted(run: RunSession) -> None:
    """A plan that could not be carried out goes back with its errors, is paid, and is waste; the mended one is not."""
    script = Script().plans(plan(subtask("T1", agent="nobody")), plan(subtask("T1")))
    result, opened = await run(script, GOAL)

    _, again = opened.model.of_kind("plan")
    assert "there is no agent 'nobody'" in again.messages[0].text
    assert (result.wasted.turns, result.wasted.cost_usd) == (1, COST)
    assert result.usage.cost_usd == 3 * COST
    assert result.subtasks[0].wasted.cost_usd == 0


async def test_an_attempt_that_failed_before_a_better_one_is_wasted(run: RunSession) -> None:
    """The record and the report name what the failed attempt cost; the attempt that is used is not in it."""
    script = Script().plan(subtask("T1")).refine(refined(BETTER)).work(BETTER, answer("Found."))
    script = script.work("T1", use("search_documents"), answer("", status="no_answer"))
    result, _ = await run(script, GOAL)

    [record] = result.subtasks
    assert (record.state, record.attempts) == ("success", 2)
    assert (record.wasted.turns, record.wasted.cost_usd) == (2, 2 * COST)
    assert (record.usage.turns, record.usage.cost_usd) == (3, 3 * COST)
    assert (result.wasted.turns, result.wasted.cost_usd) == (2, 2 * COST)
    assert _uses(result)["max_attempts"] == (2, 3)


async def test_a_subtask_that_is_given_up_is_wasted_whole(run: RunSession) -> None:
    """A subtask is given up after three failed attempts: all of it is waste, and its sibling is not affected."""
    script = Script().plan(subtask("T1"), subtask("T2", agent="analyst")).refine(refined(BETTER))
    script = script.work("", answer("", status="no_answer")).work("T2", answer("Known."))
    result, _ = await run(script, GOAL)

    lost, kept = result.subtasks
    assert (lost.state, lost.attempts) == ("failure", 3)
    assert lost.wasted == lost.usage
    assert lost.wasted.turns == 3
    assert (kept.state, kept.attempts, kept.wasted.turns) == ("success", 1, 0)
    assert result.wasted.turns == 3
    assert result.answer == "All of it."


async def test_a_lost_attempt_is_wasted_at_its_whole_grant(environment: OpenEnvironment) -> None:
    """A child that is terminated by hand is charged its whole grant, which is waste; its sibling goes on."""
    held = Held(answer("Never."))
    script = Script().plan(*topics(2)).work("T1", held)
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL)
        await asyncio.wait_for(held.reached.wait(), 30)
        child = (await session.status()).subtasks[0].workflow_id
        assert child is not None
        await opened.chargehand.client.get_workflow_handle(child).terminate("by hand")
        result = await asyncio.wait_for(session.result(), 30)

    assert [(record.state, record.reason) for record in result.subtasks] == [
        ("failure", "terminated"),
        ("success", ""),
    ]
    assert result.usage.possibly_billed_twice_usd > 0
    [lost] = [line for line in result.spend if line.purpose == "lost"]
    assert lost.usage.cost_usd > 0
    assert result.subtasks[0].wasted == lost.usage
    assert result.wasted == lost.usage
    assert result.reserved_usd == 0


async def test_another_attempt_that_cannot_be_paid_waits_in_a_paused_session(environment: OpenEnvironment) -> None:
    """With on_limit "pause" a bad end is not given up for want of means: raised limits pay for the next attempt."""
    script = (
        Script()
        .plan(subtask("T1"))
        .refine(refined(BETTER))
        .work("", answer("", status="no_answer"))
        .work(BETTER, answer("Found."))
    )
    tight = GOAL.model_copy(update={"limits": Limits(max_turns=3, on_limit="pause")})
    async with environment(script) as opened:
        session = await opened.chargehand.start(tight)
        await until_state(session, "paused")
        before = len(opened.model.calls)
        await session.raise_limits(max_turns=20)
        result = await asyncio.wait_for(session.result(), 60)

    assert before == 2
    assert [call.task.kind for call in opened.model.calls[before:]] == ["refine", "work"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    assert _uses(result)["max_turns"] == (4, 20)
    assert result.stop_reason == "completed"
