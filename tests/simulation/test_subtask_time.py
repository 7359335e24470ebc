"""The time of one attempt: in the last part of it an agent must answer, at its end it hands back what it has."""

from datetime import timedelta

from activities.models.protocol import ModelCall
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, RaisedLimits, Report, SessionRequest
from tests.scripted_model import Held, Script, answer, keep_using, plan, subtask, topics, use
from tests.simulation.directed import VirtualSession
from tests.workflows.test_note_taking import QUOTED, READ, note

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


def test_an_attempt_out_of_time_becomes_a_session_of_its_own() -> None:
    """When its own time is up it escalates, and the work is split one level down; its sibling is not touched."""
    result = VirtualSession(timed(90), stuck_at_t1()).report()

    split, sibling = result.subtasks
    assert (split.state, split.attempts) == ("success", 2)
    assert split.workflow_id is not None
    assert "/supervisor/" in split.workflow_id
    assert (sibling.state, sibling.attempts) == ("success", 1)
    assert _use(result, "subtask_deadline_seconds") == (90, 90)
    assert result.stop_reason == "completed"


def test_the_session_that_splits_an_attempt_is_told_what_was_noted() -> None:
    """It plans with the notes in its goal, and no agent of it that reaches out may see what private text they hold."""
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


def test_what_was_read_in_time_is_handed_on_when_nothing_can_be_split() -> None:
    """At the depth limit the passages that it had read become a partial outcome, and the doubt is a gap."""
    result = VirtualSession(timed(90, max_depth=1), stuck_at_t1()).report()

    record = result.subtasks[0]
    assert (record.state, record.reason, record.attempts) == ("partial", "timeout", 1)
    assert any("The time for this subtask was used up" in gap for gap in result.gaps)
    assert NEVER not in result.answer


def test_an_attempt_that_read_nothing_in_time_is_given_up() -> None:
    """Without anything read there is nothing to hand on: the escalation stands, named as a gap."""
    script = stuck_at_t1().work("T1", Held(answer(NEVER)))
    result = VirtualSession(timed(90, max_depth=1), script).report()

    record = result.subtasks[0]
    assert (record.state, record.reason) == ("escalation", "timeout")
    assert any(gap.startswith("T1 (reader) failed") for gap in result.gaps)


def test_in_the_last_fifth_of_its_time_an_agent_must_answer() -> None:
    """An agent that would use tools for ever is told in time that it must answer, and so needs no second attempt."""
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


def test_waiting_for_a_grant_is_not_the_agents_time() -> None:
    """An attempt that waits in a paused session for longer than its own time goes on when the limits are raised, and
    has its time for the turn that it waited for."""
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


def test_a_session_below_has_the_time_of_the_session() -> None:
    """A subtask that is a session of its own may take longer than an attempt of an agent."""
    tides = subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")
    script = Script().plans(Held(plan(subtask("X1")), seconds=90)).plan(tides, goal=GOAL.goal)
    result = VirtualSession(timed(60), script).report()

    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)]
    assert result.timing.wall == timedelta(seconds=90)
