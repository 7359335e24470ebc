"""After the plan's subtasks: what is missing is added, what contradicts is decided, the report is read once more."""

import json
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.compress import CompressTask
from activities.turn_kinds.critique import CritiqueTask
from activities.turn_kinds.judge import JudgeTask
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.review import ReviewTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Contradiction, SessionRequest
from tests.scripted_model import (
    answer,
    compressed,
    criticised,
    disagreement,
    judged,
    plan,
    reply,
    report,
    reviewed,
    subtask,
    use,
)
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?")
ALWAYS = GOAL.model_copy(update={"review": "always"})


def answering(**answers: BaseModel | Callable[[ModelCall], BaseModel]) -> Callable[[ModelCall], ModelReply]:
    """Answer each kind of task in its way; whatever is not said otherwise goes well."""
    usual: dict[str, BaseModel] = {
        "plan": plan(subtask("T1"), subtask("T2")),
        "work": answer("Known."),
        "synthesis": report("All of it."),
        "review": reviewed(),
        "critique": criticised(),
    }

    def respond(call: ModelCall) -> ModelReply:
        said = answers.get(call.task.kind) or usual[call.task.kind]
        return reply(said if isinstance(said, BaseModel) else said(call))

    return respond


def _kinds(calls: list[ModelCall]) -> list[str]:
    return [call.task.kind for call in calls]


async def test_a_session_without_doubts_is_not_looked_at_again(environment: OpenEnvironment) -> None:
    """When every subtask succeeded with nothing missing, neither a review nor a critic is paid for."""
    async with environment(answering()) as opened:
        await (await opened.chargehand.start(GOAL)).result()

    assert _kinds(opened.model.calls) == ["plan", "work", "work", "synthesis"]


async def test_what_a_review_finds_missing_is_added_to_the_plan(environment: OpenEnvironment) -> None:
    """Added subtasks run with what is there as their input, and the plan, its records and the report have them."""

    def review(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, ReviewTask)
        there = [given.id for given in call.task.outcomes]
        return reviewed() if "T3" in there else reviewed(subtask("T3", after=["T1"]), missing=["the third topic"])

    def work(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, WorkTask)
        return answer("Half.", status="partial") if "topic T1" in call.task.instruction else answer("Known.")

    async with environment(answering(review=review, work=work)) as opened:
        session = await opened.chargehand.start(GOAL)
        result = await session.result()
        followed = await session.plan()

    [added] = [call.task for call in opened.model.of_kind("work") if "topic T3" in call.messages[0].text]
    assert isinstance(added, WorkTask)
    assert [given.id for given in added.inputs] == ["T1"]
    assert followed is not None
    assert [planned.id for planned in followed.subtasks] == ["T1", "T2", "T3"]
    assert [(record.id, record.state) for record in result.subtasks] == [
        ("T1", "partial"),
        ("T2", "success"),
        ("T3", "success"),
    ]
    assert len(opened.model.of_kind("review")) == 2


@pytest.mark.parametrize(
    "added",
    [
        pytest.param(subtask("T1", agent="analyst"), id="an id that is there"),
        pytest.param(subtask("T3", agent="nobody"), id="an unknown agent"),
        pytest.param(subtask("T3", instruction=subtask("T1").instruction), id="the same work again"),
        pytest.param(subtask("T3", after=["T9"]), id="an unknown input"),
    ],
)
async def test_a_replan_is_checked_like_a_plan(environment: OpenEnvironment, added: BaseModel) -> None:
    """Additions that could not stand in a plan are not carried out; what they were for is named as a gap."""
    found = reviewed(missing=["the third topic"]).model_copy(update={"subtasks": [added]})

    async with environment(answering(review=found)) as opened:
        result = await (await opened.chargehand.start(ALWAYS)).result()

    assert [record.id for record in result.subtasks] == ["T1", "T2"]
    assert result.gaps == ("the third topic",)
    assert len(opened.model.of_kind("work")) == 2


async def test_a_session_is_reviewed_twice_at_most(environment: OpenEnvironment) -> None:
    """A judge that is never content cannot keep a session going: what it still misses becomes a gap."""

    def review(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, ReviewTask)
        return reviewed(subtask(f"T{len(call.task.outcomes) + 1}"), missing=["ever more"])

    async with environment(answering(review=review)) as opened:
        result = await (await opened.chargehand.start(ALWAYS)).result()

    assert len(opened.model.of_kind("review")) == 2
    assert [record.id for record in result.subtasks] == ["T1", "T2", "T3", "T4"]
    assert result.stop_reason == "completed"


async def test_a_judge_decides_a_contradiction(environment: OpenEnvironment) -> None:
    """It is shown the outcomes that disagree; the report states both sides with confidence, the decision, and why."""
    found = reviewed(contradictions=[disagreement("the year", "T1 says 1987", "T2 says 1990")])

    async with environment(answering(review=found, judge=judged("T2", "the charter itself says so", 90))) as opened:
        result = await (await opened.chargehand.start(ALWAYS)).result()

    [asked] = opened.model.of_kind("judge")
    assert isinstance(asked.task, JudgeTask)
    assert [given.id for given in asked.task.candidates] == ["T1", "T2"]
    decided = Contradiction(
        about="the year",
        positions=("T1 says 1987 (confidence T1: 80)", "T2 says 1990 (confidence T2: 80)"),
        resolution="T2 is followed: the charter itself says so",
        confidence=90,
    )
    assert result.contradictions == (decided,)
    [written] = opened.model.of_kind("synthesis")
    assert isinstance(written.task, SynthesisTask)
    assert written.task.contradictions == (decided,)


async def test_what_a_judge_cannot_decide_is_left_open(environment: OpenEnvironment) -> None:
    """Both sides stand in the report with their confidence, and no resolution is made up."""
    found = reviewed(contradictions=[disagreement("the year", "T1 says 1987", "T2 says 1990")])

    async with environment(answering(review=found, judge=judged(""))) as opened:
        result = await (await opened.chargehand.start(ALWAYS)).result()

    assert [(one.resolution, one.confidence) for one in result.contradictions] == [("", 0)]
    assert result.contradictions[0].positions[0] == "T1 says 1987 (confidence T1: 80)"


async def test_a_contradiction_that_the_writer_finds_is_decided_and_written_in(environment: OpenEnvironment) -> None:
    """What only the writing shows is put to a judge as well, and the report is written anew with the decision."""

    def write(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, SynthesisTask)
        if call.task.problems:
            return report("It was 1990.")
        return SynthesisAnswer(
            answer="It was 1987 or 1990.",
            gaps=[],
            contradictions=[disagreement("the year", "T1 says 1987", "T2 says 1990")],
            confidence=70,
        )

    async with environment(answering(synthesis=write, judge=judged("T2", "it is the later one"))) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert _kinds(opened.model.calls)[3:] == ["synthesis", "judge", "synthesis"] or "critique" in _kinds(
        opened.model.calls
    )
    assert result.answer == "It was 1990."
    assert [one.resolution for one in result.contradictions] == ["T2 is followed: it is the later one"]


async def test_a_critic_may_send_the_report_back_once(environment: OpenEnvironment) -> None:
    """The writer is told what is wrong and writes again; nobody reads the second version."""

    def write(call: ModelCall) -> BaseModel:
        assert isinstance(call.task, SynthesisTask)
        return report(f"Mended: {call.task.problems[0]}" if call.task.problems else "First.")

    async with environment(answering(synthesis=write, critique=criticised("no source"))) as opened:
        result = await (await opened.chargehand.start(ALWAYS)).result()

    [read] = opened.model.of_kind("critique")
    assert isinstance(read.task, CritiqueTask)
    assert read.task.draft.answer == "First."
    assert len(opened.model.of_kind("synthesis")) == 2
    assert result.answer == "Mended: no source"


async def test_looking_again_never_costs_the_report(environment: OpenEnvironment) -> None:
    """With turns for the plan, the work and the report alone, the report is written and nothing else is asked."""
    request = ALWAYS.model_copy(update={"limits": ALWAYS.limits.model_copy(update={"max_turns": 4})})

    async with environment(answering()) as opened:
        result = await (await opened.chargehand.start(request)).result()

    assert _kinds(opened.model.calls) == ["plan", "work", "work", "synthesis"]
    assert result.answer == "All of it."


async def test_select_takes_the_candidate_that_a_judge_chooses(environment: OpenEnvironment) -> None:
    """Its own words are the report, with its sources, and the reason why it was chosen."""
    candidates = plan(subtask("T1"), subtask("T2", agent="researcher"), strategy="select")

    def respond(call: ModelCall) -> ModelReply:
        match call.task:
            case WorkTask() if not call.task.rounds:
                return use("search_documents" if call.agent == "reader" else "search")
            case WorkTask():
                ref = "search_documents.md#L1" if call.agent == "reader" else "search.md#L1"
                return reply(answer(f"{call.agent} knows [{ref}].", ref=ref))
            case JudgeTask():
                return reply(judged("T2", "it is primary [search.md#L1]", 60))
            case _:
                return reply(candidates)

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert result.answer == ("researcher knows [S1].\n\n*T2 (researcher) was chosen over T1: it is primary [S1]*")
    assert [source.ref for source in result.sources] == ["search.md#L1"]
    assert result.confidence == 60
    assert not opened.model.of_kind("synthesis")


async def test_a_long_outcome_is_compressed_by_the_small_tier(environment: OpenEnvironment) -> None:
    """The prose is shortened before others read it; findings and sources go on as they were."""
    long = "It is so. " * 1_200

    def respond(call: ModelCall) -> ModelReply:
        match call.task:
            case PlanTask():
                return reply(plan(subtask("T1"), subtask("T2", after=["T1"])))
            case WorkTask() if "topic T1" in call.task.instruction:
                read = bool(call.task.rounds)
                return reply(answer(long, ref="search_documents.md#L1")) if read else use("search_documents")
            case CompressTask():
                return reply(compressed("In short: so."))
            case SynthesisTask():
                return reply(report("So it is."))
            case _:
                return reply(answer("Known."))

    async with environment(respond) as opened:
        await (await opened.chargehand.start(GOAL)).result()

    [asked] = opened.model.of_kind("compress")
    assert asked.model == "scripted-small"
    second = opened.model.of_kind("work")[-1].task
    assert isinstance(second, WorkTask)
    [given] = second.inputs
    assert given.outcome.content == "In short: so."
    assert [finding.sources for finding in given.outcome.findings] == [("search_documents.md#L1",)]
    assert [source.ref for source in given.outcome.sources] == ["search_documents.md#L1"]


async def test_many_outcomes_are_summarised_in_a_tree(environment: OpenEnvironment) -> None:
    """The writer is shown summaries that together fit its cap, and a source cited in one can be cited in the report."""
    count = 14

    def respond(call: ModelCall) -> ModelReply:
        match call.task:
            case SynthesisTask(is_part=True):
                return reply(report(f"Summary of {len(call.task.outcomes)} [S1]."))
            case SynthesisTask():
                return reply(report("From all of it [S1]."))
            case WorkTask() if not call.task.rounds:
                return use("search_documents")
            case WorkTask():
                return reply(answer("x" * 7_900, ref="search_documents.md#L1"))
            case _:
                return reply(plan(*(subtask(f"T{number}") for number in range(1, count + 1)), strategy="reduce"))

    async with environment(respond) as opened:
        request = GOAL.model_copy(
            update={"limits": GOAL.limits.model_copy(update={"max_turns": 60, "max_parallel": 14})}
        )
        result = await (await opened.chargehand.start(request)).result()

    *parts, last = [call.task for call in opened.model.of_kind("synthesis")]
    assert isinstance(last, SynthesisTask)
    assert len(parts) >= 2
    assert sum(len(given.model_dump_json()) for given in last.outcomes) <= 50_000
    assert len({given.id for given in last.outcomes}) < count
    assert result.answer == "From all of it [S1]."
    assert [source.ref for source in result.sources] == ["search_documents.md#L1"]


async def test_a_reviewer_says_what_is_wrong_where_and_how_badly(environment: OpenEnvironment) -> None:
    """Its issues reach the report, the worst first, and whoever writes it; one without a known severity is mended."""
    minor = {"severity": "minor", "location": "T1: Known.", "message": "Vague.", "suggestion": "", "confidence": 90}
    major = {"severity": "major", "location": "T1", "message": "No source.", "suggestion": "Name it.", "confidence": 70}

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("R1", agent="reviewer", after=["T1"])))
        if call.agent != "reviewer" or not isinstance(call.task, WorkTask):
            return reply(answer("Known.") if call.task.kind == "work" else report("All of it."))
        found = answer("Two things are wrong.").model_dump(exclude={"kind"}) | {"issues": [minor, major]}
        wrong = found | {"issues": [minor | {"severity": "dreadful"}]}
        said = json.dumps(found if call.task.rounds else wrong)
        return reply(answer("")).model_copy(update={"text": said})

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert [issue.model_dump() for issue in result.issues] == [major, minor]
    assert len([call for call in opened.model.of_kind("work") if call.agent == "reviewer"]) == 2
    assert "Issue (major, confidence 70) at T1: No source. Suggestion: Name it." in (
        opened.model.of_kind("synthesis")[0].messages[0].text
    )


async def test_a_dense_plan_does_not_multiply_outcomes(environment: OpenEnvironment) -> None:
    """A subtask that depends on very many is given all of them, shortened evenly until they fit together."""

    def respond(call: ModelCall) -> ModelReply:
        match call.task:
            case WorkTask() if call.task.inputs:
                return reply(answer("From all of them."))
            case WorkTask():
                return reply(answer("x" * 7_900))
            case SynthesisTask():
                return reply(report("All of it."))
            case _:
                many = [subtask(f"T{number}") for number in range(1, 16)]
                return reply(plan(*many, subtask("Z", agent="writer", after=[each.id for each in many])))

    async with environment(respond) as opened:
        limits = GOAL.limits.model_copy(update={"max_turns": 60, "max_parallel": 15})
        await (await opened.chargehand.start(GOAL.model_copy(update={"limits": limits}))).result()

    [last] = [
        call.task for call in opened.model.of_kind("work") if isinstance(call.task, WorkTask) and call.task.inputs
    ]
    assert len(last.inputs) == 15
    assert sum(len(given.model_dump_json()) for given in last.inputs) <= 100_000
    assert len({len(given.outcome.content) for given in last.inputs}) == 1
