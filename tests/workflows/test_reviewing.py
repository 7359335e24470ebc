"""Reviews of a plan during and after its execution: what is missing is added, contradictions are decided."""

import json

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.judgements import JudgeTask
from activities.turn_kinds.plan import ReviewTask
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import SessionRequest
from tests.scripted_model import Script, answer, disagreement, judged, reply, report, reviewed, subtask, topics, use
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?")
TWO = Script().plan(*topics(2))


def _kinds(calls: list[ModelCall]) -> list[str]:
    return [call.task.kind for call in calls]


def _said(length: str) -> Script:
    """Have two researchers state different figures, with nothing else doubtful."""
    other = answer(f"The tower of Bremen is {length} high.", ref="search_documents.md#L1")
    own = answer("The tower of Bremen is 3 metres high.", ref="search_documents.md#L1")
    use_first = use("search_documents")
    return TWO.work("T1", use_first, own).work("T2", use_first, other)


HEIGHT = "The tower of Bremen is … metres high."


@pytest.mark.parametrize(
    ("verdict", "resolution", "confidence"),
    [(judged("T2", "it is the survey", 90), "T2 is followed: it is the survey", 90), (judged(""), "", 0)],
    ids=["decided", "open"],
)
async def test_differing_figures_are_judged_even_if_the_writer_misses_them(
    run: RunSession, verdict: BaseModel, resolution: str, confidence: int
) -> None:
    """Code finds them, a judge sees both outcomes, and writer and report get both sides with the decision."""
    result, opened = await run(_said("4 metres").on("judge", verdict), GOAL)

    [look] = opened.model.tasks(ReviewTask)
    [asked] = opened.model.tasks(JudgeTask)
    [written, *_] = opened.model.tasks(SynthesisTask)
    assert [each.about for each in look.disagreements] == [HEIGHT]
    assert written.contradictions == result.contradictions
    assert [given.id for given in asked.candidates] == ["T1", "T2"]
    [stated] = result.contradictions
    assert (stated.about, stated.resolution, stated.confidence) == (HEIGHT, resolution, confidence)
    assert ["3 metres" in stated.positions[0], "4 metres" in stated.positions[1]] == [True, True]
    assert result.gaps == (() if resolution else (f"Outcomes disagree, and nothing decided which is right: {HEIGHT}",))


_SETTLED = disagreement(HEIGHT, "T1: 3", "T2: 4", resolution="T1 measured without the spire.")


@pytest.mark.parametrize(
    ("turn", "reply", "stated"),
    [
        ("judge", judged("", "One is with the spire.").model_copy(update={"compatible": True}), []),
        ("review", reviewed(compatible=[HEIGHT]), []),
        ("review", reviewed(contradictions=[_SETTLED]), ["T1 measured without the spire."]),
    ],
)
async def test_a_decided_contradiction_is_not_judged_again(
    run: RunSession, turn: str, reply: BaseModel, stated: list[str]
) -> None:
    """Figures that can both be right are no contradiction; what the supervisor resolves is reported as resolved."""
    repeated = report("3 or 4 metres.").model_copy(update={"contradictions": [disagreement(HEIGHT, "T1: 3", "T2: 4")]})
    result, opened = await run(_said("4 metres").on(turn, reply).synthesis(repeated), GOAL)

    assert len(opened.model.of_kind("judge")) == (turn == "judge")
    assert [each.resolution for each in result.contradictions] == stated


@pytest.mark.parametrize(
    ("length", "review", "stated"), [("4 metres", "never", [(HEIGHT, "")]), ("3 metres", "auto", [])]
)
async def test_no_judge_is_asked_without_reviews_or_differences(
    run: RunSession, length: str, review: str, stated: list[tuple[str, str]]
) -> None:
    """Finding a difference costs no turn: with `never` it is only stated, and equal figures are no difference."""
    result, opened = await run(_said(length), GOAL.model_copy(update={"review": review}))

    assert not opened.model.of_kind("judge")
    assert not opened.model.of_kind("review")
    assert [(each.about, each.resolution) for each in result.contradictions] == stated


IN_TURN = Script().plan(subtask("T1"), subtask("T2", agent="analyst", after=["T1"]))


@pytest.mark.parametrize(
    ("gaps", "reviews", "looks"),
    [([], 2, []), (["the year"], 2, ["review"]), (["the year"], 1, [])],
    ids=["nothing new", "a gap", "kept"],
)
async def test_new_findings_are_reviewed_before_the_next_wave(
    run: RunSession, gaps: list[str], reviews: int, looks: list[str]
) -> None:
    """This happens only if a review remains for the end of the plan."""
    request = GOAL.model_copy(update={"limits": GOAL.limits.model_copy(update={"max_reviews": reviews})})
    _, opened = await run(IN_TURN.work("T1", answer("Known.", gaps=gaps)), request)

    assert _kinds(opened.model.calls) == ["plan", "work", *looks, "work", "synthesis"]


async def test_subtasks_added_by_a_mid_plan_review_run_with_the_rest(run: RunSession) -> None:
    """The review is told which subtasks are still waiting, and all are executed with existing outcomes as inputs."""
    script = IN_TURN.work("T1", answer("Known.", gaps=["the year"]))
    script = script.on("review", reviewed(subtask("T3", after=["T1"]), missing=["the year"]))
    result, opened = await run(script, GOAL)

    [look] = opened.model.tasks(ReviewTask)
    [third] = [task for task in opened.model.tasks(WorkTask) if "T3" in task.instruction]
    assert [line.split(":")[0] for line in look.waiting] == ["T2 (analyst)"]
    assert [given.id for given in third.inputs] == ["T1"]
    assert [record.id for record in result.subtasks] == ["T1", "T2", "T3"]
    assert {record.state for record in result.subtasks} == {"success"}


ALWAYS = GOAL.model_copy(update={"review": "always"})


@pytest.mark.parametrize(
    "added",
    [
        pytest.param(subtask("T1", agent="analyst"), id="an id that is there"),
        pytest.param(subtask("T3", instruction=subtask("T1").instruction), id="the same work again"),
    ],
)
async def test_subtasks_added_by_a_review_are_validated_like_a_plan(run: RunSession, added: BaseModel) -> None:
    """Invalid additions are not executed, and what they were for is a gap."""
    found = reviewed(missing=["the third topic"]).model_copy(update={"subtasks": [added]})

    result, opened = await run(TWO.on("review", found), ALWAYS)

    assert [record.id for record in result.subtasks] == ["T1", "T2"]
    assert result.gaps == ("the third topic",)
    assert len(opened.model.of_kind("work")) == 2


async def test_a_session_is_reviewed_at_most_twice(environment: OpenEnvironment) -> None:
    """A reviewer that is never satisfied cannot keep a session running: what it still misses becomes a gap."""

    def review(_: ModelCall) -> BaseModel:
        number = 2 + len(opened.model.of_kind("review"))
        return reviewed(subtask(f"T{number}"), missing=["ever more"])

    async with environment(TWO.on("review", review)) as opened:
        result = await opened.run(ALWAYS)

    assert len(opened.model.of_kind("review")) == 2
    assert [record.id for record in result.subtasks] == ["T1", "T2", "T3", "T4"]
    assert result.stop_reason == "completed"


async def test_a_contradiction_found_by_the_writer_is_judged_and_rewritten(run: RunSession) -> None:
    """It goes to a judge too, and the report is written again with the decision."""
    year = disagreement("the year", "T1 says 1987", "T2 says 1990")
    first = report("It was 1987 or 1990.").model_copy(update={"contradictions": [year]})
    script = TWO.synthesis(first, report("It was 1990.")).on("judge", judged("T2", "it is the later one"))
    result, opened = await run(script, GOAL)

    assert _kinds(opened.model.calls)[3:] == ["synthesis", "judge", "critique", "synthesis"]
    assert result.answer == "It was 1990."
    assert [one.resolution for one in result.contradictions] == ["T2 is followed: it is the later one"]


async def test_select_returns_the_candidate_that_a_judge_chooses(run: RunSession) -> None:
    """The report is its text with its sources, plus the reason for the choice."""
    script = Script().plan(subtask("T1"), subtask("T2", agent="researcher"), strategy="select")
    script = script.on("judge", judged("T2", "it is primary [search.md#L1]", 60))
    for agent, tool in (("reader", "search_documents"), ("researcher", "search")):
        known = answer(f"{agent} knows [{tool}.md#L1].", ref=f"{tool}.md#L1")
        script = script.work("", use(tool), known, agent=agent)
    result, opened = await run(script, GOAL)

    assert result.answer == ("researcher knows [S1].\n\n*T2 (researcher) was chosen over T1: it is primary [S1]*")
    assert [source.ref for source in result.sources] == ["search.md#L1"]
    assert result.confidence == 60
    assert not opened.model.of_kind("synthesis")


async def test_a_reviewer_reports_issues_with_location_and_severity(run: RunSession) -> None:
    """They reach the report, worst first, and its writer; an unknown severity is sent back for correction."""
    minor = {"severity": "minor", "location": "T1: Known.", "message": "Vague.", "suggestion": "", "confidence": 90}
    major = {"severity": "major", "location": "T1", "message": "No source.", "suggestion": "Name it.", "confidence": 70}
    found = answer("Two things are wrong.").model_dump(exclude={"kind"}) | {"issues": [minor, major]}
    wrong = found | {"issues": [minor | {"severity": "dreadful"}]}
    turns = [reply(answer("")).model_copy(update={"text": json.dumps(each)}) for each in (wrong, found)]
    script = Script().plan(subtask("T1"), subtask("R1", agent="reviewer", after=["T1"]))
    script = script.work("", *turns, agent="reviewer")
    result, opened = await run(script, GOAL)

    assert [issue.model_dump() for issue in result.issues] == [major, minor]
    assert len([call for call in opened.model.of_kind("work") if call.agent == "reviewer"]) == 2
    prompt = opened.model.of_kind("synthesis")[0].messages[0].text
    assert "Issue R1.2 (major, confidence 70) at T1: No source. Suggestion: Name it." in prompt
