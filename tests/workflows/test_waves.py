"""Looks at a plan while it is carried out: differences that code finds, and waves that bring something new."""

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.review_outcomes import ReviewTask
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import SessionRequest
from tests.scripted_model import Script, answer, disagreement, judged, reviewed, subtask, topics, use
from tests.workflows.conftest import RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?")
TWO = Script().plan(*topics(2))


def _kinds(calls: list[ModelCall]) -> list[str]:
    return [call.task.kind for call in calls]


def _said(length: str) -> Script:
    """Have two researchers state a figure of their own, and nothing else doubtful."""
    other = answer(f"The tower of Bremen is {length} high.", ref="search_documents.md#L1")
    own = answer("The tower of Bremen is 3 metres high.", ref="search_documents.md#L1")
    use_first = use("search_documents")
    return TWO.work("T1", use_first, own).work("T2", use_first, other)


HEIGHT = "The tower of Bremen is … metres high."


async def test_figures_that_differ_are_judged_whether_or_not_the_writer_notices(run: RunSession) -> None:
    """Code finds them, the supervisor is told, a judge decides what stays open, and the writer gets the decision."""
    result, opened = await run(_said("4 metres").on("judge", judged("T2", "it is the survey", 90)), GOAL)

    [look] = opened.model.tasks(ReviewTask)
    [written, *_] = opened.model.tasks(SynthesisTask)
    assert [each.about for each in look.disagreements] == [HEIGHT]
    assert written.contradictions == result.contradictions
    assert [(each.about, each.resolution) for each in result.contradictions] == [
        (HEIGHT, "T2 is followed: it is the survey")
    ]


async def test_a_look_that_settles_a_difference_needs_no_judge(run: RunSession) -> None:
    """What the supervisor resolves stands in the report as resolved."""
    settled = disagreement(HEIGHT, "T1: 3", "T2: 4", resolution="T1 measured without the spire.")
    result, opened = await run(_said("4 metres").on("review", reviewed(contradictions=[settled])), GOAL)

    assert not opened.model.of_kind("judge")
    assert [each.resolution for each in result.contradictions] == ["T1 measured without the spire."]


async def test_a_difference_is_stated_where_nothing_is_reviewed(run: RunSession) -> None:
    """Finding it costs no turn; with `never` no judge is asked."""
    request = GOAL.model_copy(update={"review": "never"})
    result, opened = await run(_said("4 metres"), request)

    assert not opened.model.of_kind("judge")
    assert not opened.model.of_kind("review")
    assert [(each.about, each.resolution) for each in result.contradictions] == [(HEIGHT, "")]


async def test_equal_figures_cost_no_look(run: RunSession) -> None:
    """Without doubts or differences there is neither a review nor a judge."""
    result, opened = await run(_said("3 metres"), GOAL)

    assert not opened.model.of_kind("judge")
    assert not opened.model.of_kind("review")
    assert result.contradictions == ()


IN_TURN = Script().plan(subtask("T1"), subtask("T2", agent="analyst", after=["T1"]))


@pytest.mark.parametrize(
    ("first", "reviews", "kinds"),
    [
        pytest.param(answer("Known."), 2, ["plan", "work", "work", "synthesis"], id="nothing new"),
        pytest.param(
            answer("Known.", gaps=["the year"]), 2, ["plan", "work", "review", "work", "synthesis"], id="a gap"
        ),
        pytest.param(answer("Known.", gaps=["the year"]), 1, ["plan", "work", "work", "synthesis"], id="kept"),
    ],
)
async def test_a_wave_that_brings_something_new_is_looked_at(
    run: RunSession, first: BaseModel, reviews: int, kinds: list[str]
) -> None:
    """Before the next wave starts, and only if a review is left for the end of the plan."""
    request = GOAL.model_copy(update={"limits": GOAL.limits.model_copy(update={"max_reviews": reviews})})
    _, opened = await run(IN_TURN.work("T1", first), request)

    assert _kinds(opened.model.calls) == kinds


async def test_what_a_look_adds_runs_beside_the_rest_of_the_plan(run: RunSession) -> None:
    """The look is told what is still to come, and both are carried out."""
    script = IN_TURN.work("T1", answer("Known.", gaps=["the year"]))
    script = script.on("review", reviewed(subtask("T3", after=["T1"]), missing=["the year"]))
    result, opened = await run(script, GOAL)

    [look] = opened.model.tasks(ReviewTask)
    assert [line.split(":")[0] for line in look.waiting] == ["T2 (analyst)"]
    assert [(record.id, record.state) for record in result.subtasks] == [
        ("T1", "success"),
        ("T2", "success"),
        ("T3", "success"),
    ]
