"""The session's deadline and other time limits: whatever is in progress, a report arrives in time."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Answer, Limits, PlanDecision, RaisedLimits, Report, SessionRequest
from tests.scripted_model import COST, Held, Script, answer, keep_using, plan, report, subtask, topics, use, work_task
from tests.simulation.directed import VirtualSession
from tests.workflows.test_recalling import QUOTED, READ, note
from tests.workflows.test_stopping import BETTER, MEANT, unsure

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")


def limited(**limits: object) -> SessionRequest:
    return GOAL.model_copy(update={"limits": Limits.model_validate({"max_turns": 40} | limits)})


def test_an_attempt_that_times_out_hands_back_its_notes() -> None:
    """Its notes come back as findings with sources, ahead of passages that it only read."""
    script = Script().plan(subtask("T1"))
    script = script.work("", use("search_documents"), note("It says so."), Held(answer("Never.")))
    result = VirtualSession(limited(subtask_deadline=60, max_depth=1), script).report()

    assert [(record.state, record.reason) for record in result.subtasks] == [("partial", "timeout")]
    assert result.sources == (QUOTED,)


@pytest.mark.parametrize("stop", ["deadline", "finish_now"])
def test_a_stopped_nested_session_hands_back_its_spend_and_findings(stop: str) -> None:
    tides = subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")
    script = Script().plan(subtask("X1"), subtask("X2", after=["X1"])).plan(tides, goal=GOAL.goal)
    script = script.work("X1", use("search_documents"), answer("The tide is high.", ref="search_documents.md#L1"))
    script = script.work("X2", Held(answer("Never."))).synthesis(report("The tide is high. [S1]"))
    session = VirtualSession(limited(deadline=60), script)
    session.run_until(30)
    if stop == "finish_now":
        session.update("finish_now")
    result = session.report()

    assert [(record.state, record.reason) for record in result.subtasks] == [("partial", stop)]
    assert "The tide is high." in result.answer
    assert [source.ref for source in result.sources] == ["search_documents.md#L1"]
    assert result.usage.cost_usd == COST * session.replies + result.usage.possibly_billed_twice_usd
    assert "lost" not in {line.purpose for line in result.spend}
    assert result.reserved_usd == 0


@pytest.mark.parametrize("seconds", [0, 239, 241])
def test_an_answer_counts_until_answer_within_has_passed(seconds: int) -> None:
    """The next instruction contains it; after the limit, the instruction is refined instead, once."""
    asking = {"questions": "allowed", "answer_within": timedelta(minutes=4)}
    session = VirtualSession(limited(deadline=600).model_copy(update=asking), unsure("T1"))
    session.run_until(seconds)
    session.update("answer", Answer(subtask="T1", text=MEANT))
    result = session.report()

    instructions = [task.instruction for task in session.tasks(WorkTask)]
    assert any(MEANT in each for each in instructions) == (seconds < 240)
    assert (instructions[-1] == BETTER) == (seconds > 240)
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2), ("success", 1)]
    assert result.timing.wall == timedelta(seconds=min(seconds, 240))


def _planned(request: SessionRequest) -> tuple[SessionRequest, str, object]:
    return request.model_copy(update={"approval": "plan"}), "decide_plan", PlanDecision(decision="approve")


def _asked(request: SessionRequest) -> tuple[SessionRequest, str, object]:
    return request.model_copy(update={"questions": "allowed"}), "answer", Answer(subtask="T1", text=MEANT)


def _paused(request: SessionRequest) -> tuple[SessionRequest, str, object]:
    limits = request.limits.model_copy(update={"max_turns": 4, "on_limit": "pause"})
    return request.model_copy(update={"limits": limits}), "raise_limits", RaisedLimits(max_turns=40)


@pytest.mark.parametrize("waits", [_planned, _asked, _paused])
@pytest.mark.parametrize("is_decided", [True, False])
def test_waiting_for_a_person_does_not_count_against_the_deadline(
    waits: Callable[..., tuple[Any, ...]], *, is_decided: bool
) -> None:
    """A decision counts until `answer_within`; without one, a session awaiting a plan or limits ends."""
    request, name, decision = waits(limited(deadline=60).model_copy(update={"answer_within": timedelta(hours=8)}))
    slow = Held(answer("Known."), seconds=30)
    session = VirtualSession(request, unsure("T1").work("topic 2", slow).work(MEANT, slow).work(BETTER, slow))
    session.run_until(7 * 3600)
    waiting = session.status()
    if is_decided:
        session.update(name, decision)
    result = session.report()

    [use] = [use for use in result.limits if use.limit == "deadline_seconds"]
    [wait] = waiting.waits
    assert wait.until - wait.since == timedelta(hours=8)
    assert [each.decision != "none" for each in result.decisions] == [is_decided]
    assert (result.stop_reason == "completed") == (is_decided or waits is _asked)
    assert result.timing.wall <= timedelta(hours=7 if is_decided else 8, minutes=1)
    assert use.used <= use.allowed == 60


UNHURRIED_SECONDS = 10 + 20 + 20 + 20 + 10
"""Seconds for the plan, two turns of each link of the chain, and the report."""


def _struck(seconds: float) -> Report:
    """Run a chain of subtasks, whose every turn takes ten seconds, with this deadline."""

    def work(call: ModelCall) -> BaseModel:
        topic = work_task(call).instruction.split("topic ")[1].split(" ")[0]
        return answer(f"Known: {topic}.", ref="search_documents.md#L1")

    chain = plan(subtask("T1"), subtask("T2"), subtask("T3", after=["T1"]), subtask("T4", after=["T2", "T3"]))
    respond = Script().plans(chain).work("", use("search_documents"), work)
    return VirtualSession(limited(deadline=seconds), lambda call: Held(respond(call), seconds=10)).report()


@pytest.mark.parametrize("seconds", range(2, 92, 3))
def test_a_session_ends_within_5_seconds_of_its_deadline(seconds: int) -> None:
    result = _struck(seconds)

    finished = [record.id for record in result.subtasks if record.state == "success"]
    named = " ".join(result.gaps)
    assert result.stop_reason == "deadline" or seconds >= UNHURRIED_SECONDS
    assert result.timing.wall <= timedelta(seconds=seconds) + timedelta(seconds=5)
    assert result.reserved_usd == 0
    assert result.answer
    assert all(f"Known: {id_}" in result.answer or "All of it." in result.answer for id_ in finished)
    assert all(record.id in named for record in result.subtasks if record.state in {"failure", "waiting"})


NEVER = "Never said."


def timed(seconds: float, **limits: object) -> SessionRequest:
    return limited(subtask_deadline=seconds, **limits)


def stuck_at_t1() -> Script:
    """Let the agent of T1 read something and then never answer; the others answer."""
    small = subtask("X1", instruction="Read only the first half of it.")
    script = Script().plan(small).plan(*topics(2), goal=GOAL.goal)
    return script.work("T1", use("search_documents"), Held(answer(NEVER))).work("first half", answer("Known."))


def _use(result: Report, limit: str) -> tuple[float, float]:
    [use] = [use for use in result.limits if use.limit == limit]
    return use.used, use.allowed


def test_a_subtask_that_times_out_is_split_into_a_nested_session() -> None:
    result = VirtualSession(timed(90), stuck_at_t1()).report()

    split, sibling = result.subtasks
    assert (split.state, split.attempts) == ("success", 2)
    assert split.workflow_id is not None
    assert "/supervisor/" in split.workflow_id
    assert (sibling.state, sibling.attempts) == ("success", 1)
    assert _use(result, "subtask_deadline_seconds") == (90, 90)
    assert result.stop_reason == "completed"


def test_a_split_subtask_passes_its_notes_to_the_nested_session() -> None:
    """Its goal includes the notes; a plan that gives their private text to an agent that reaches out is rejected."""
    leaking = plan(subtask("X1", agent="researcher"))
    script = Script().plans(leaking, plan(subtask("X1"))).plan(subtask("T1"), goal=GOAL.goal)
    session = VirtualSession(
        timed(90), script.work("T1", use("search_documents"), note("It says so."), Held(answer(NEVER)))
    )
    result = session.report()

    _, split, again = session.tasks(PlanTask)
    noted = f"Noted in an attempt that did not end:\n- It says so. [{READ.ref}] Quote: {QUOTED.quote}"
    assert split.goal.endswith(noted)
    assert "X1" in again.rejected[0].errors[0]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]


@pytest.mark.parametrize(
    ("script", "state", "told"),
    [
        (stuck_at_t1(), "partial", "The time for this subtask was used up"),
        (stuck_at_t1().work("T1", Held(answer(NEVER))), "escalation", "T1 (reader) failed"),
    ],
    ids=["read", "nothing read"],
)
def test_passages_read_before_a_timeout_become_a_partial_outcome(script: Script, state: str, told: str) -> None:
    """This applies when the subtask cannot be split; a subtask that read nothing escalates."""
    result = VirtualSession(timed(90, max_depth=1), script).report()

    record = result.subtasks[0]
    assert (record.state, record.reason, record.attempts) == (state, "timeout", 1)
    assert any(told in gap for gap in result.gaps)
    assert NEVER not in result.answer


def test_an_agent_must_answer_in_the_last_fifth_of_its_time() -> None:
    stopped = answer("Had to stop here.", status="partial", gaps=["the rest"])
    thinking = Held(keep_using("search_documents"), seconds=30)
    session = VirtualSession(timed(100), Script().plan(subtask("T1")).work("", thinking, forced=stopped))
    result = session.report()

    assert [task.must_answer for task in session.tasks(WorkTask)] == [False, False, False, True]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("partial", 1)]
    assert result.gaps == (
        "T1 (reader) had to answer without looking further: its time was nearly used up.",
        "the rest",
    )


def test_waiting_for_a_grant_does_not_use_up_an_agents_time() -> None:
    raised_at = 200

    def finish(_: ModelCall) -> Held:
        return Held(answer("Known."), seconds=45 if session.seconds >= raised_at else 0)

    script = Script().plan(*topics(3)).work("", use("search_documents"), use("read_document"), finish)
    session = VirtualSession(timed(60, max_turns=6, on_limit="pause"), script)
    session.run_until(raised_at)
    paused = session.status()
    session.update("raise_limits", RaisedLimits(max_turns=20))
    result = session.report()

    assert paused.state == "paused"
    assert "running" in {record.state for record in paused.subtasks}
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)] * 3
    assert result.wasted.turns == 0


def test_a_nested_session_is_limited_by_the_session_deadline_only() -> None:
    tides = subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")
    script = Script().plans(Held(plan(subtask("X1")), seconds=90)).plan(tides, goal=GOAL.goal)
    result = VirtualSession(timed(60), script).report()

    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)]
    assert result.timing.wall == timedelta(seconds=90)
