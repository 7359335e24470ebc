"""The user's own criteria: a report is graded by each, revised where it fails, and says how it stands."""

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.grade_report import GradeTask
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import Grade, Limits, Report, SessionRequest
from tests.scripted_model import Script, answer, graded, report, subtask, topics, use
from tests.workflows.conftest import RunSession

CRITERIA = ("Names a date.", "Is one paragraph.")
GOAL = SessionRequest(goal="When is the notice due?", review="never", criteria=CRITERIA)
FOUND = answer(
    "Three months [search_documents.md#L1].", ref="search_documents.md#L1", quote="what search_documents read"
)
ONE = Script().plan(subtask("T1")).work("", use("search_documents"), FOUND)
TWO = Script().plan(*topics(2))


def _met(result: Report) -> list[bool]:
    return [each.met for each in result.grades]


async def test_a_report_states_how_it_stands_by_each_criterion(run: RunSession) -> None:
    """One more turn grades what the reader sees: the report with its citations, and what its sources say."""
    result, opened = await run(ONE.on("grade", graded("", "")), GOAL)

    [task] = opened.model.tasks(GradeTask)
    assert result.grades == tuple(Grade(criterion=criterion, met=True, reason="It does.") for criterion in CRITERIA)
    assert (task.goal, task.criteria, task.answer) == (GOAL.goal, CRITERIA, result.answer)
    assert [(source.ref, source.quote) for source in task.sources] == [
        ("search_documents.md#L1", "what search_documents read")
    ]
    assert [call.task.kind for call in opened.model.calls] == ["plan", "work", "work", "grade"]
    assert result.usage.turns == 4


@pytest.mark.parametrize(
    ("grades", "revisions", "met"),
    [
        pytest.param([("no date", ""), ("", "")], 1, [True, True], id="a revision that meets all of them"),
        pytest.param([("a", "b"), ("", "b"), ("", "")], 2, [True, True], id="one after the other"),
        pytest.param([("a", "b"), ("", "c"), ("", "d")], 2, [True, False], id="two revisions at most"),
        pytest.param([("a", ""), ("", "b")], 1, [False, True], id="a revision that makes nothing better"),
    ],
)
async def test_a_report_that_fails_a_criterion_is_revised(
    run: RunSession, grades: list[tuple[str, str]], revisions: int, met: list[bool]
) -> None:
    """The writer is told what is not met and why; the version that meets most is returned with its grades."""
    given = iter(grades)

    def graded_next(_: ModelCall) -> BaseModel:
        return graded(*next(given))

    script = TWO.on("grade", graded_next).synthesis(report("First."), report("Revised."))
    result, opened = await run(script, GOAL)

    written = opened.model.tasks(SynthesisTask)
    again = [task.problems for task in written if task.problems]
    assert {task.criteria for task in written} == {CRITERIA}
    assert len(again) == revisions
    assert f"“{CRITERIA[0]}”: {grades[0][0]}" in again[0][0]
    assert _met(result) == met
    assert result.wasted.turns == (0 if all(met) else 2)
    assert result.answer == ("First." if met == [False, True] else "Revised.")
    assert result.gaps == tuple(
        f"A criterion is not met: {criterion}" for criterion, is_met in zip(CRITERIA, met, strict=True) if not is_met
    )


@pytest.mark.parametrize(
    ("limits", "grades"),
    [
        pytest.param(Limits(max_turns=4), graded("", ""), id="no turn is left"),
        pytest.param(Limits(), graded(), id="the model grades nothing"),
    ],
)
async def test_a_report_that_is_not_graded_says_so(run: RunSession, limits: Limits, grades: BaseModel) -> None:
    """Grades that cannot be had are a named gap, never a pass, and cost nothing that the limits do not allow."""
    script = ONE.plan(subtask("T1")).on("grade", grades).work("", use("search_documents"), use("read_document"), FOUND)
    result, _ = await run(script, GOAL.model_copy(update={"limits": limits}))

    assert result.grades == ()
    assert (
        "The report was not graded by its criteria: no model could do so in time and within the limits." in result.gaps
    )
    assert result.usage.turns <= limits.max_turns


async def test_a_nested_session_is_not_graded(run: RunSession) -> None:
    """The criteria are about the report that the user reads, and are judged once."""
    nested = subtask("T1", "supervisor", instruction="Look into the notice as a whole.")
    script = ONE.plan(nested, goal=GOAL.goal).on("grade", graded("", ""))
    result, opened = await run(script, GOAL)

    assert len(opened.model.of_kind("grade")) == 1
    assert _met(result) == [True, True]
