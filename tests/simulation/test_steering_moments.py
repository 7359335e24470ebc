"""Messages, interruptions and plan edits at every moment of a session, in virtual time."""

from collections.abc import Iterator
from itertools import pairwise

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Interruption, Limits, PlanEdit, Report, SessionRequest, UserMessage
from chargehand.wire import ErrorType
from tests.recording_server import Update
from tests.scripted_model import Held, Script, answer, plan, report, subtask, use
from tests.simulation.directed import VirtualSession

GOAL = SessionRequest(goal="What do the documents say?", review="never", limits=Limits(max_turns=40))
SCRIPT = (
    Script()
    .plans(Held(plan(subtask("N1", agent="supervisor"), subtask("T1"), subtask("T2", after=["T1"])), seconds=10))
    .plans(Held(plan(subtask("X1")), seconds=10), goal="topic N1")
    .work("", Held(use("search_documents"), seconds=10), Held(answer("Known."), seconds=10))
    .synthesis(Held(report("All of it."), seconds=10))
)
MOMENTS = range(1, 65, 7)
"""Seconds that cover planning, each turn of each agent, and writing the report."""
TEXT = "In metres."
ENDS = {"topic T1": 30, "topic X1": 40, "topic T2": 50}
"""When the agents end, by words of their instructions."""


def _at_every_moment(name: str, argument: object) -> Iterator[tuple[int, VirtualSession, Update, Report]]:
    for moment in MOMENTS:
        session = VirtualSession(GOAL, SCRIPT)
        session.run_until(moment)
        update = session.update(name, argument)
        yield moment, session, update, session.report()


def test_a_message_reaches_all_unfinished_agents_once_or_is_refused() -> None:
    """This holds at any moment, in nested sessions too; an agent about to end takes one more turn."""
    usual = VirtualSession(GOAL, SCRIPT)
    usual.report()
    refused: dict[int, str] = {}
    for moment, session, update, result in _at_every_moment("tell", UserMessage(text=TEXT)):
        if update.failure is not None:
            refused[moment] = update.failure.application_failure_info.type
        for words, end in ENDS.items():
            last = [task for task in session.tasks(WorkTask) if words in task.instruction][-1]
            heard = [*last.told, *(text for past in last.rounds for text in past.told)]
            assert heard.count(TEXT) + last.goal.count(TEXT) == (moment < end)
        assert not any("was not read" in gap for gap in result.gaps)
        assert session.replies == result.usage.turns
        assert usual.replies <= session.replies <= usual.replies + 2
        assert result.wasted.turns == 0

    assert refused == {50: ErrorType.UPDATE_REFUSED, 57: ErrorType.UPDATE_REFUSED, 64: ""}  # it is over by then


def test_an_interruption_never_discards_a_model_call() -> None:
    """Every reply is used, and every subtask ends as it would have."""
    for _, session, _, result in _at_every_moment("interrupt", Interruption()):
        assert session.replies == result.usage.turns
        assert {record.state for record in result.subtasks} == {"success"}
        assert result.gaps == ()


def test_a_plan_edit_applies_completely_or_is_refused_at_any_moment() -> None:
    """Started subtasks cannot be dropped; dropped ones never start and leave no gap; added ones run."""
    added = subtask("T3", after=["T1"]).model_dump(exclude={"for_each"})
    edit = PlanEdit.model_validate(
        {"edits": [{"edit": "drop", "subtask": "T2"}, {"edit": "add", "subtask": {**added, "tier": None}}]}
    )
    accepted: list[bool] = []
    for _, _, update, result in _at_every_moment("edit_plan", edit):
        accepted.append(update.failure is None)
        ids = [record.id for record in result.subtasks]
        assert ids == ["N1", "T1", "T3" if accepted[-1] else "T2"]
        assert [each.edit for each in result.edits] == (["drop", "add"] if accepted[-1] else [])
        assert {record.state for record in result.subtasks} == {"success"}
        assert result.gaps == ()
        assert result.usage.turns == 9

    changes = [pair for pair in pairwise(accepted) if len(set(pair)) == 2]
    assert changes == [(False, True), (True, False)]


def test_a_session_accepts_at_most_500_plan_edits() -> None:
    """With 500 long edits its status can still be queried, and it completes."""
    script = Script().plan(subtask("T1"), subtask("T2", after=["T1"])).work("", answer("Known."))
    session = VirtualSession(GOAL, script.work("topic T1", Held(answer("Known."), seconds=90)))
    session.run_until(30)
    texts = [f"Find out about {number} instead. {'Really! ' * 480}" for number in range(100)]
    edits = [{"edit": "reword", "subtask": "T2", "instruction": text} for text in texts]
    updates: list[Update] = []
    for moment in range(31, 37):
        updates.append(session.update("edit_plan", PlanEdit.model_validate({"edits": edits})))
        session.run_until(moment)
    status = session.status()

    assert [update.failure is None for update in updates] == [*[True] * 5, False]
    assert "edits: a session takes 500 at most" in str(updates[-1].failure)
    assert len(status.edits) == 500
    assert len(status.model_dump_json()) < 1_000_000
    assert session.report().stop_reason == "completed"


def test_a_paused_session_resumes_when_unaffordable_subtasks_are_dropped() -> None:
    """Dropping subtasks is an alternative to raising the limits; the others are reported."""
    request = GOAL.model_copy(update={"limits": Limits(max_turns=5, max_parallel=1, on_limit="pause")})
    script = Script().plan(subtask("T1"), subtask("T2"), subtask("T3")).work("", use("search_documents"))
    script = script.work("", use("search_documents"), answer("Known."))
    session = VirtualSession(request, script)
    session.run_until(60)
    paused = session.status()
    waiting = [record.id for record in paused.subtasks if record.state == "waiting"]
    edit = {"edits": [{"edit": "drop", "subtask": id_} for id_ in waiting]}
    session.update("edit_plan", PlanEdit.model_validate(edit))
    result = session.report()

    assert paused.state == "paused"
    assert waiting
    assert result.stop_reason == "completed"
    assert (len(result.subtasks), result.gaps) == (3 - len(waiting), ())
