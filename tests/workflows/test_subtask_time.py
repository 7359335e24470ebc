"""The time of one attempt: in the last part of it an agent must answer, at its end it hands back what it has."""

import asyncio
from datetime import timedelta

from activities.models.protocol import ModelCall
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, RaisedLimits, Report, SessionRequest
from tests.scripted_model import Held, Script, answer, keep_using, plan, subtask, topics, use
from tests.waiting import until, until_state
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")
NEVER = "Never said."


def timed(seconds: float, **limits: object) -> SessionRequest:
    return GOAL.model_copy(
        update={"limits": Limits.model_validate({"subtask_deadline": seconds, "max_turns": 40} | limits)}
    )


def stuck_at_t1() -> Script:
    """Let the agent of T1 read something and then never answer; the others answer."""
    small = subtask("X1", instruction="Read only the first half of it.")
    script = Script().plan(small).plan(*topics(2), goal=GOAL.goal)
    return script.work("T1", use("search_documents"), Held(answer(NEVER))).work("first half", answer("Known."))


def _use(result: Report, limit: str) -> tuple[float, float]:
    [use] = [use for use in result.limits if use.limit == limit]
    return use.used, use.allowed


async def test_an_attempt_out_of_time_becomes_a_session_of_its_own(environment: OpenEnvironment) -> None:
    """When its own time is up it escalates, and the work is split one level down; its sibling is not touched."""
    async with environment(stuck_at_t1()) as opened:
        result = await opened.run(timed(2))

    split, sibling = result.subtasks
    assert (split.state, split.attempts) == ("success", 2)
    assert split.workflow_id is not None
    assert "/supervisor/" in split.workflow_id
    assert (sibling.state, sibling.attempts) == ("success", 1)
    used, allowed = _use(result, "subtask_deadline_seconds")
    assert allowed == 2
    assert 2 <= used < 2 + 5
    assert result.stop_reason == "completed"


async def test_what_was_read_in_time_is_handed_on_when_nothing_can_be_split(environment: OpenEnvironment) -> None:
    """At the depth limit the passages that it had read become a partial outcome, and the doubt is a gap."""
    async with environment(stuck_at_t1()) as opened:
        result = await opened.run(timed(2, max_depth=1))

    record = result.subtasks[0]
    assert (record.state, record.reason, record.attempts) == ("partial", "timeout", 1)
    assert any("The time for this subtask was used up" in gap for gap in result.gaps)
    assert NEVER not in result.answer


async def test_an_attempt_that_read_nothing_in_time_is_given_up(environment: OpenEnvironment) -> None:
    """Without anything read there is nothing to hand on: the escalation stands, named as a gap."""
    script = stuck_at_t1().work("T1", Held(answer(NEVER)))
    async with environment(script) as opened:
        result = await opened.run(timed(2, max_depth=1))

    record = result.subtasks[0]
    assert (record.state, record.reason) == ("escalation", "timeout")
    assert any(gap.startswith("T1 (reader) failed") for gap in result.gaps)


async def test_in_the_last_fifth_of_its_time_an_agent_must_answer(environment: OpenEnvironment) -> None:
    """An agent that would use tools for ever is told in time that it must answer, and so needs no second attempt."""
    stopped = answer("Had to stop here.", status="partial", gaps=["the rest"])
    thinking = Held(keep_using("search_documents"), seconds=0.8)
    script = Script().plan(subtask("T1")).work("", thinking, forced=stopped)
    async with environment(script) as opened:
        result = await opened.run(timed(3))

    had_to_answer = [task.must_answer for task in opened.model.tasks(WorkTask)]
    assert had_to_answer[-1]
    assert not any(had_to_answer[:-1])
    assert 2 <= len(had_to_answer) <= 5
    assert [(record.state, record.attempts) for record in result.subtasks] == [("partial", 1)]
    assert result.gaps == ("the rest",)


async def test_waiting_for_a_grant_is_not_the_agents_time(environment: OpenEnvironment) -> None:
    """An attempt that waits in a paused session for longer than its own time goes on when the limits are raised, and
    has its time for the turn that it waited for."""
    raised = asyncio.Event()

    def finish(_: ModelCall) -> Held:
        return Held(answer("Known."), seconds=1.0 if raised.is_set() else 0.0)

    script = Script().plan(*topics(3)).work("", use("search_documents"), use("read_document"), finish)
    async with environment(script) as opened:
        session = await opened.chargehand.start(timed(3, max_turns=6, on_limit="pause"))
        await until_state(session, "paused")
        paused = await session.status()
        waiting_since = asyncio.get_running_loop().time()
        await until(lambda: _passed(waiting_since + 3.2))
        raised.set()
        await session.raise_limits(RaisedLimits(max_turns=20))
        result = await asyncio.wait_for(session.result(), 60)

    assert "running" in {record.state for record in paused.subtasks}
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)] * 3
    assert result.wasted.turns == 0


async def _passed(moment: float) -> bool:
    return asyncio.get_running_loop().time() > moment


async def test_a_session_below_has_the_time_of_the_session(environment: OpenEnvironment) -> None:
    """A subtask that is a session of its own may take longer than an attempt of an agent."""
    tides = subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")
    script = Script().plans(Held(plan(subtask("X1")), seconds=2.0)).plan(tides, goal=GOAL.goal)
    async with environment(script) as opened:
        result = await opened.run(timed(1))

    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)]
    assert result.timing.wall > timedelta(seconds=2)
