"""What a crew file says holds in its sessions."""

from pathlib import Path

import pytest

from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from tests.crew_files import READS_DOCUMENTS, crew_folder
from tests.scripted_model import Script, answer, plan, subtask, use
from tests.workflows.conftest import RunSession

GOAL = "What do the documents say about the topics of this year?"
SETTINGS = """profile = "quick"
strategy = "deliver"
confidence_threshold = 60
nested = "research"
limits = { max_parallel = 2, max_turns = 12 }"""
READER = f'tools = ["read_document"]\n{READS_DOCUMENTS}\ntier = "small"\nrounds = 2\nsees_goal = false'


@pytest.fixture
def crews(tmp_path: Path) -> tuple[Path, ...]:
    """Return a folder with the crew."""
    return (crew_folder(tmp_path, "letters", SETTINGS, reader=READER, writer=""),)


async def test_limits_are_the_requests_then_the_crews_then_the_profiles(
    run: RunSession, crews: tuple[Path, ...]
) -> None:
    """Each limit comes from the request if it says one, else from the crew, else from the crew's profile; a request
    that names a profile gets that profile's limits, whatever the crew's are."""
    own = SessionRequest(goal=GOAL, crew="letters", limits=Limits(max_parallel=3))
    profile = SessionRequest(goal=GOAL, crew="letters", profile="standard")
    for request, expected in ((own, (3, 12, 4, 0.25)), (profile, (5, 20, 10, 2))):
        result, _ = await run(Script().plan(subtask("T1", "writer")), request, own_crews=crews)
        allowed = {use.limit: use.allowed for use in result.limits}
        assert tuple(allowed[name] for name in ("max_parallel", "max_turns", "max_rounds", "budget_usd")) == expected


async def test_the_crews_strategy_replaces_the_planners(run: RunSession, crews: tuple[Path, ...]) -> None:
    """A plan that names no text to deliver is sent back, since this crew delivers one whatever the planner chose."""
    subtasks = subtask("T1"), subtask("T2", "writer", ["T1"])
    good = plan(*subtasks).model_copy(update={"deliver": "T2"})
    script = Script().plans(plan(*subtasks), good).work("T2", answer("Dear customer, it is so."))
    result, opened = await run(script, SessionRequest(goal=GOAL, crew="letters"), own_crews=crews)

    repaired = opened.model.tasks(PlanTask)[-1].rejected
    assert [error.partition(":")[0] for attempt in repaired for error in attempt.errors] == ["deliver"]
    assert result.answer.startswith("Dear customer, it is so.")


async def test_an_agent_keeps_to_its_rounds_and_may_not_see_the_goal(run: RunSession, crews: tuple[Path, ...]) -> None:
    """Its second round is its last, and nothing that it is sent contains the request."""
    script = Script().plan(subtask("T1")).work("T1", use("read_document"), answer("It is so."))
    _, opened = await run(script, SessionRequest(goal=GOAL, crew="letters"), own_crews=crews)

    calls = opened.model.of_kind("work")
    assert [call.task.must_answer for call in calls if isinstance(call.task, WorkTask)] == [False, True]
    assert not any(GOAL in message.text for call in calls for message in call.messages)


async def test_an_answer_below_the_threshold_is_tried_on_a_stronger_tier(
    run: RunSession, crews: tuple[Path, ...]
) -> None:
    """An agent that is less sure than its crew asks for gets a second attempt by the next tier."""
    unsure = answer("It may be so.").model_copy(update={"confidence": 59})
    script = (
        Script()
        .plan(subtask("T1", "writer"))
        .work("T1", lambda call: answer("It is so.") if call.model == "scripted-large" else unsure)
    )
    result, opened = await run(script, SessionRequest(goal=GOAL, crew="letters"), own_crews=crews)

    assert [call.model for call in opened.model.of_kind("work")] == ["scripted-medium", "scripted-large"]
    assert result.answer.startswith("It is so.")


async def test_a_nested_session_has_the_crew_that_is_named_for_it(run: RunSession, crews: tuple[Path, ...]) -> None:
    """The agents of the nested session are those of another crew, which has a team of its own."""
    whole = subtask("T1", "supervisor", instruction="Look into the survey as a whole, with all that belongs to it.")
    script = Script().plan(whole).plan(subtask("T1", "analyst"), goal="Look into the survey")
    request = SessionRequest(goal=GOAL, crew="letters", profile="standard")
    result, opened = await run(script, request, own_crews=crews)

    assert [call.agent for call in opened.model.of_kind("work")] == ["analyst"]
    assert result.stop_reason == "completed"
