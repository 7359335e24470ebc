"""The time of one attempt: in the last part of it an agent must answer, at its end it hands back what it has."""

import asyncio
from datetime import timedelta

from activities.contracts import WorkTask
from activities.models.protocol import ModelCall, ModelReply
from chargehand.client import Session
from chargehand.contracts import Limits, RaisedLimits, Report, SessionRequest
from tests.scripted_model import Held, answer, plan, reply, report, subtask, use
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")
NEVER = "Never said."


def timed(seconds: float, **limits: object) -> SessionRequest:
    return GOAL.model_copy(
        update={"limits": Limits.model_validate({"subtask_deadline": seconds, "max_turns": 40} | limits)}
    )


def _use(result: Report, limit: str) -> tuple[float, float]:
    [use] = [use for use in result.limits if use.limit == limit]
    return use.used, use.allowed


def _stuck_at_t1(call: ModelCall) -> ModelReply | Held:
    """Let the agent of T1 read something and then never answer; everybody else answers."""
    if call.task.kind == "plan":
        small = subtask("X1", instruction="Read only the first half of it.")
        return reply(plan(subtask("T1"), subtask("T2")) if call.task.goal == GOAL.goal else plan(small))
    if not isinstance(call.task, WorkTask):
        return reply(report("All of it."))
    if "topic T1 in" not in call.task.instruction:
        return reply(answer("Known."))
    return Held(reply(answer(NEVER)), asyncio.Event()) if call.task.rounds else use("search_documents")


async def test_an_attempt_out_of_time_becomes_a_session_of_its_own(environment: OpenEnvironment) -> None:
    """When its own time is up it escalates, and the work is split one level down; its sibling is not touched."""
    async with environment(_stuck_at_t1) as opened:
        result = await asyncio.wait_for((await opened.chargehand.start(timed(2))).result(), 60)

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
    async with environment(_stuck_at_t1) as opened:
        result = await asyncio.wait_for((await opened.chargehand.start(timed(2, max_depth=1))).result(), 60)

    record = result.subtasks[0]
    assert (record.state, record.reason, record.attempts) == ("partial", "timeout", 1)
    assert any("The time for this subtask was used up" in gap for gap in result.gaps)
    assert NEVER not in result.answer


async def test_an_attempt_that_read_nothing_in_time_is_given_up(environment: OpenEnvironment) -> None:
    """Without anything read there is nothing to hand on: the escalation stands, named as a gap."""

    def respond(call: ModelCall) -> ModelReply | Held:
        said = _stuck_at_t1(call)
        return Held(reply(answer(NEVER)), asyncio.Event()) if isinstance(said, ModelReply) and said.tool_calls else said

    async with environment(respond) as opened:
        result = await asyncio.wait_for((await opened.chargehand.start(timed(2, max_depth=1))).result(), 60)

    record = result.subtasks[0]
    assert (record.state, record.reason) == ("escalation", "timeout")
    assert any(gap.startswith("T1 (reader) failed") for gap in result.gaps)


async def test_in_the_last_fifth_of_its_time_an_agent_must_answer(environment: OpenEnvironment) -> None:
    """An agent that would use tools for ever is told in time that it must answer, and so needs no second attempt."""
    had_to_answer: list[bool] = []

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1")))
        assert isinstance(call.task, WorkTask)
        had_to_answer.append(call.task.must_answer)
        if call.task.must_answer:
            return reply(answer("Had to stop here.", status="partial", gaps=["the rest"]))
        thought = asyncio.Event()
        asyncio.get_running_loop().call_later(0.8, thought.set)
        return Held(use("search_documents", about=len(call.task.rounds)), thought)

    async with environment(respond) as opened:
        result = await asyncio.wait_for((await opened.chargehand.start(timed(3))).result(), 60)

    assert had_to_answer[-1]
    assert not any(had_to_answer[:-1])
    assert 2 <= len(had_to_answer) <= 5
    assert [(record.state, record.attempts) for record in result.subtasks] == [("partial", 1)]
    assert result.gaps == ("the rest",)


async def test_waiting_for_a_grant_is_not_the_agents_time(environment: OpenEnvironment) -> None:
    """An attempt that waits in a paused session for longer than its own time goes on when the limits are raised, and
    has its time for the turn that it waited for."""
    raised = asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan":
            return reply(plan(*(subtask(f"T{number}") for number in range(1, 4))))
        if not isinstance(call.task, WorkTask):
            return reply(report("All three."))
        if not call.task.rounds:
            return use("search_documents")
        thought = asyncio.Event()
        asyncio.get_running_loop().call_later(1.5 if raised.is_set() else 0.0, thought.set)
        return Held(reply(answer("Known.")), thought)

    async with environment(respond) as opened:
        session = await opened.chargehand.start(timed(4, max_turns=5, on_limit="pause"))
        await until(lambda: _in_state(session, "paused"))
        paused = await session.status()
        waiting_since = asyncio.get_running_loop().time()
        await until(lambda: _passed(waiting_since + 4.5))
        raised.set()
        await session.raise_limits(RaisedLimits(max_turns=20))
        result = await asyncio.wait_for(session.result(), 60)

    assert "running" in {record.state for record in paused.subtasks}
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)] * 3
    assert result.wasted.turns == 0


async def _passed(moment: float) -> bool:
    return asyncio.get_running_loop().time() > moment


async def _in_state(session: Session, state: str) -> bool:
    return (await session.status()).state == state


async def test_a_session_below_has_the_time_of_the_session(environment: OpenEnvironment) -> None:
    """A subtask that is a session of its own may take longer than an attempt of an agent."""
    released = asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan" and call.task.goal == GOAL.goal:
            return reply(plan(subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")))
        if call.task.kind == "plan":
            asyncio.get_running_loop().call_later(2.0, released.set)
            return Held(reply(plan(subtask("X1"))), released)
        return reply(answer("Known."))

    async with environment(respond) as opened:
        result = await asyncio.wait_for((await opened.chargehand.start(timed(1))).result(), 60)

    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)]
    assert result.timing.wall > timedelta(seconds=2)
