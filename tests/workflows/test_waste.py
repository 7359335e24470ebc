"""What a report says of its own cost: what came to nothing, what is still set aside, how close each limit came."""

import asyncio
from datetime import timedelta
from decimal import Decimal

from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.refine import RefineTask
from activities.turn_kinds.work import WorkTask
from chargehand.client import Session
from chargehand.contracts import Limits, RaisedLimits, Report, SessionRequest
from tests.scripted_model import COST, Held, answer, plan, refined, reply, report, subtask, use
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")
BETTER = "Look in the second chapter of the handbook, and nowhere else."


def _uses(result: Report) -> dict[str, tuple[float, float]]:
    return {use.limit: (use.used, use.allowed) for use in result.limits}


async def test_a_session_that_goes_well_wastes_nothing_and_names_every_limit(environment: OpenEnvironment) -> None:
    """Every limit of the request stands in the report with what was used of it; nothing stays set aside."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2"), subtask("T3", after=["T1", "T2"])))
        if not isinstance(call.task, WorkTask):
            return reply(report("All of it."))
        return reply(answer("Known.")) if call.task.rounds else use("search_documents")

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    uses = _uses(result)
    assert result.wasted.cost_usd == 0
    assert result.wasted.turns == 0
    assert result.reserved_usd == 0
    counted = ("max_turns", "budget_usd", "max_depth", "max_parallel", "max_attempts", "max_rounds")
    assert {name: uses[name] for name in counted} == {
        "max_turns": (8, 40),
        "budget_usd": (float(8 * COST), 2.0),
        "max_depth": (1, 5),
        "max_parallel": (2, 5),
        "max_attempts": (1, 3),
        "max_rounds": (2, 10),
    }
    timed = {name: use for name, use in uses.items() if name not in counted}
    assert {name: allowed for name, (_, allowed) in timed.items()} == {
        "deadline_seconds": 600,
        "subtask_deadline_seconds": 300,
    }
    assert timed["deadline_seconds"][0] == result.timing.wall.total_seconds()
    assert all(0 < used <= allowed for used, allowed in timed.values())


async def test_the_limits_of_a_report_are_those_of_the_request(environment: OpenEnvironment) -> None:
    """Whatever limit a request can set is in the report: a new one cannot be forgotten."""

    def respond(call: ModelCall) -> ModelReply:
        return reply(plan(subtask("T1")) if call.task.kind == "plan" else answer("Known."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    durations = {"deadline": "deadline_seconds", "subtask_deadline": "subtask_deadline_seconds"}
    assert set(_uses(result)) == {durations.get(name, name) for name in Limits.model_fields if name != "on_limit"}


async def test_a_rejected_plan_is_wasted(environment: OpenEnvironment) -> None:
    """A plan that could not be carried out is paid and named as waste; the mended one is not."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            planned = call.task
            mended = getattr(planned, "rejected", ())
            return reply(plan(subtask("T1", agent="reader" if mended else "nobody")))
        return reply(answer("Known."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert len(opened.model.of_kind("plan")) == 2
    assert (result.wasted.turns, result.wasted.cost_usd) == (1, COST)
    assert result.usage.cost_usd == 3 * COST
    assert result.subtasks[0].wasted.cost_usd == 0


async def test_an_attempt_that_failed_before_a_better_one_is_wasted(environment: OpenEnvironment) -> None:
    """The record and the report name what the failed attempt cost; the attempt that is used is not in it."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1")))
        if isinstance(call.task, RefineTask):
            return reply(refined(BETTER))
        assert isinstance(call.task, WorkTask)
        if call.task.instruction == BETTER:
            return reply(answer("Found."))
        return reply(answer("", status="no_answer")) if call.task.rounds else use("search_documents")

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    [record] = result.subtasks
    assert (record.state, record.attempts) == ("success", 2)
    assert (record.wasted.turns, record.wasted.cost_usd) == (2, 2 * COST)
    assert (record.usage.turns, record.usage.cost_usd) == (3, 3 * COST)
    assert (result.wasted.turns, result.wasted.cost_usd) == (2, 2 * COST)
    assert _uses(result)["max_attempts"] == (2, 3)


async def test_a_subtask_that_is_given_up_is_wasted_whole(environment: OpenEnvironment) -> None:
    """Nothing of three bad attempts is used: all of it is waste, and what a sibling cost is not."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2", agent="analyst")))
        if call.task.kind == "synthesis":
            return reply(report("One of two."))
        if isinstance(call.task, RefineTask):
            return reply(refined(BETTER))
        assert isinstance(call.task, WorkTask)
        return reply(answer("Known.") if "topic T2 in" in call.task.instruction else answer("", status="no_answer"))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    lost, kept = result.subtasks
    assert (lost.state, lost.attempts) == ("failure", 3)
    assert lost.wasted == lost.usage
    assert lost.wasted.turns == 3
    assert kept.wasted.turns == 0
    assert result.wasted.turns == 3


async def test_a_lost_attempt_is_wasted_at_its_whole_grant(environment: OpenEnvironment) -> None:
    """A child that somebody terminated is charged what it was lent, as lost, and that is waste."""
    reached, never = asyncio.Event(), asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2")))
        if call.task.kind == "synthesis":
            return reply(report("One of two."))
        assert isinstance(call.task, WorkTask)
        if "topic T1 in" in call.task.instruction:
            reached.set()
            return Held(reply(answer("Never.")), never)
        return reply(answer("Known."))

    async with environment(respond) as opened:
        session = await opened.chargehand.start(GOAL)
        await asyncio.wait_for(reached.wait(), 30)
        child = (await session.status()).subtasks[0].workflow_id
        assert child is not None
        await opened.chargehand.client.get_workflow_handle(child).terminate("by hand")
        result = await asyncio.wait_for(session.result(), 30)

    [lost] = [line for line in result.spend if line.purpose == "lost"]
    assert lost.usage.cost_usd > 0
    assert result.subtasks[0].wasted == lost.usage
    assert result.wasted == lost.usage
    assert result.reserved_usd == 0


async def test_depth_counts_the_sessions_below(environment: OpenEnvironment) -> None:
    """A subtask of a session below the root is two hops deep, whatever levels lie between."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan" and call.task.goal == GOAL.goal:
            return reply(plan(subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")))
        if call.task.kind == "plan" and "tides" in call.task.goal:
            return reply(plan(subtask("M1", agent="supervisor", instruction="Look into the ebb alone.")))
        return reply(plan(subtask("X1")) if call.task.kind == "plan" else answer("Known."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert _uses(result)["max_depth"] == (3, 5)
    assert result.usage.turns == 3 + 1


async def test_another_attempt_that_cannot_be_paid_waits_in_a_paused_session(environment: OpenEnvironment) -> None:
    """With on_limit "pause" a bad end is not given up for want of means: raised limits pay for the next attempt."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1")))
        if isinstance(call.task, RefineTask):
            return reply(refined(BETTER))
        assert isinstance(call.task, WorkTask)
        return reply(answer("Found.") if call.task.instruction == BETTER else answer("", status="no_answer"))

    tight = GOAL.model_copy(update={"limits": Limits(max_turns=3, on_limit="pause")})
    async with environment(respond) as opened:
        session = await opened.chargehand.start(tight)
        await until(lambda: _in_state(session, "paused"))
        before = len(opened.model.calls)
        await session.raise_limits(RaisedLimits(max_turns=20))
        result = await asyncio.wait_for(session.result(), 60)

    assert before == 2
    assert [call.task.kind for call in opened.model.calls[before:]] == ["refine", "work"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    assert _uses(result)["max_turns"] == (4, 20)
    assert result.stop_reason == "completed"


async def test_without_pause_another_attempt_that_cannot_be_paid_is_given_up(environment: OpenEnvironment) -> None:
    """The same session with on_limit "finish" reports what there is at once."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2")))
        if call.task.kind == "synthesis":
            return reply(report("One."))
        assert isinstance(call.task, WorkTask)
        unsure = "topic T1 in" in call.task.instruction
        return reply(answer("", status="no_answer") if unsure else answer("Known."))

    tight = GOAL.model_copy(update={"limits": Limits(max_turns=4)})
    async with environment(respond) as opened:
        result = await asyncio.wait_for((await opened.chargehand.start(tight)).result(), 60)

    assert [(record.state, record.attempts) for record in result.subtasks] == [("failure", 1), ("success", 1)]
    assert result.usage.turns == 4
    assert result.answer == "One."


async def _in_state(session: Session, state: str) -> bool:
    return (await session.status()).state == state


async def test_a_session_below_that_runs_out_of_time_hands_back_spend_and_findings(
    environment: OpenEnvironment,
) -> None:
    """At its parent's deadline a nested session in the middle of its work returns what it found and what it paid."""
    never = asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan" and call.task.goal == GOAL.goal:
            return reply(plan(subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")))
        if call.task.kind == "plan":
            return reply(plan(subtask("X1"), subtask("X2")))
        if not isinstance(call.task, WorkTask):
            return reply(report("The tide is high [S1]."))
        if "topic X2 in" in call.task.instruction:
            return Held(reply(answer("Never.")), never)
        if not call.task.rounds:
            return use("search_documents")
        return reply(answer("The tide is high.", ref="search_documents.md#L1"))

    request = GOAL.model_copy(update={"limits": Limits(max_turns=40, deadline=timedelta(seconds=12))})
    async with environment(respond) as opened:
        session = await opened.chargehand.start(request)
        result = await asyncio.wait_for(session.result(), 30)
        status = await session.status()

    assert [(record.state, record.reason) for record in result.subtasks] == [("partial", "deadline")]
    assert "The tide is high" in result.answer
    assert [source.ref for source in result.sources] == ["search_documents.md#L1"]
    assert result.usage.cost_usd == 5 * COST + result.usage.possibly_billed_twice_usd
    assert result.usage.cost_usd == status.spent_usd
    assert "lost" not in {line.purpose for line in result.spend}
    assert status.reserved_usd == Decimal(0)


async def test_a_session_below_that_is_cancelled_hands_back_spend_and_findings(environment: OpenEnvironment) -> None:
    """finish_now asks the nested session to stop: what it had finished, and its bill, come up into the report."""
    held, never = asyncio.Event(), asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan" and call.task.goal == GOAL.goal:
            return reply(plan(subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")))
        if call.task.kind == "plan":
            return reply(plan(subtask("X1"), subtask("X2", after=["X1"])))
        assert isinstance(call.task, WorkTask)
        if "topic X2 in" in call.task.instruction:
            held.set()
            return Held(reply(answer("Never.")), never)
        if not call.task.rounds:
            return use("search_documents")
        return reply(answer("The tide is high.", ref="search_documents.md#L1"))

    async with environment(respond) as opened:
        session = await opened.chargehand.start(GOAL)
        await asyncio.wait_for(held.wait(), 30)
        await session.finish_now()
        result = await asyncio.wait_for(session.result(), 30)
        status = await session.status()

    assert result.stop_reason == "finish_now"
    assert "The tide is high." in result.answer
    assert result.usage.cost_usd == 4 * COST + result.usage.possibly_billed_twice_usd
    assert "lost" not in {line.purpose for line in result.spend}
    assert result.usage.cost_usd == status.spent_usd
    assert status.reserved_usd == Decimal(0)
