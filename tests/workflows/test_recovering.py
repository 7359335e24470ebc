"""Ways back from bad ends: what the recovery table says is what a session does."""

from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.refine import RefineTask
from chargehand.contracts import Limits, SessionRequest, SubtaskRecord
from tests.scripted_model import Script, answer, judged, refined, report, subtask, use
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")
BETTER = "Look in the second chapter of the handbook, and nowhere else."


async def test_a_failure_is_tried_again_with_a_better_instruction(environment: OpenEnvironment) -> None:
    """The model is given the error and the earlier instruction; the new one is carried out and accepted."""
    script = (
        Script()
        .plan(subtask("T1"))
        .refine(refined(BETTER))
        .work("", answer("", status="no_answer"))
        .work(BETTER, answer("Found."))
    )
    async with environment(script) as opened:
        result = await opened.run(GOAL)

    [asked] = opened.model.tasks(RefineTask)
    assert asked.problem == "because of no_answer"
    assert asked.instruction == "Find out everything about topic T1 in the documents."
    assert result.answer == "Found."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    assert result.usage.turns == len(opened.model.calls)


async def test_a_failure_that_refining_does_not_mend_goes_to_the_fallback_agent(environment: OpenEnvironment) -> None:
    """After the refined instruction fails too, the agent that the crew declares as fallback gets its try."""
    script = Script().plan(subtask("T1")).refine(refined(BETTER))
    script = script.work("", answer("", status="no_answer")).work("", answer("Found."), agent="researcher")
    async with environment(script) as opened:
        result = await opened.run(GOAL)

    assert [call.agent for call in opened.model.of_kind("work")] == ["reader", "reader", "researcher"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 3)]


async def test_three_bad_ends_open_the_breaker(environment: OpenEnvironment) -> None:
    """Whatever could still be tried, a subtask is given up after max_attempts, and its siblings are not touched."""
    script = Script().plan(subtask("T1"), subtask("T2", agent="analyst")).refine(refined(BETTER))
    script = (
        script.work("", answer("", status="no_answer")).work("T2", answer("Known.")).synthesis(report("One of two."))
    )
    async with environment(script) as opened:
        result = await opened.run(GOAL)

    assert [(record.state, record.attempts) for record in result.subtasks] == [("failure", 3), ("success", 1)]
    assert result.answer == "One of two."


async def test_an_unsure_answer_goes_to_a_stronger_tier_and_then_to_a_judge(environment: OpenEnvironment) -> None:
    """The same agent answers again on the next tier; a judge chooses between both answers."""

    def work(_: ModelCall) -> BaseModel:
        return answer(f"Answer {len(opened.model.of_kind('work'))}.", status="confidence_too_low")

    script = Script().plan(subtask("T1")).work("", work).on("judge", judged("A1"))
    async with environment(script) as opened:
        result = await opened.run(GOAL)

    assert len(opened.model.of_kind("work")) == 2
    assert result.answer == "Answer 1."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("partial", 2)]


async def test_what_is_too_big_becomes_a_session_of_its_own(environment: OpenEnvironment) -> None:
    """A subtask that an agent finds too big is planned and carried out one level down."""
    script = (
        Script().plan(subtask("X1", instruction="Read only the first half of it.")).plan(subtask("T1"), goal=GOAL.goal)
    )
    script = script.work("", answer("", status="too_big")).work("first half", answer("The half is known."))
    async with environment(script) as opened:
        result = await opened.run(GOAL)

    assert result.answer == "The half is known."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    child = result.subtasks[0].workflow_id
    assert child is not None
    assert "/supervisor/" in child


async def _worked_example(environment: OpenEnvironment, required: tuple[str, ...]) -> list[SubtaskRecord]:
    third = subtask("T3", after=["T1"], required=required)
    second, fourth = subtask("T2", agent="analyst"), subtask("T4", agent="analyst", after=["T2"])
    fifth = subtask("T5", agent="writer", after=["T3", "T4"])
    script = Script().plan(subtask("T1"), second, third, fourth, fifth)
    script = script.work("T1", answer("", status="out_of_scope"))
    async with environment(script) as opened:
        result = await opened.run(GOAL)
    return list(result.subtasks)


async def test_the_worked_example_with_an_input_that_is_not_required(environment: OpenEnvironment) -> None:
    """T1 is lost for good: T3 runs with the gap stated, T2, T4 and T5 run as planned."""
    records = await _worked_example(environment, ())

    assert [record.state for record in records] == ["escalation", "success", "success", "success", "success"]


async def test_the_worked_example_with_a_required_input(environment: OpenEnvironment) -> None:
    """T1 is lost for good: T3, which requires it, is skipped; T5, which merely depends on T3, still runs."""
    records = await _worked_example(environment, ("T1",))

    assert [record.state for record in records] == ["escalation", "success", "skipped", "success", "success"]


async def test_an_agent_that_asks_the_same_thing_again_and_again_must_answer(environment: OpenEnvironment) -> None:
    """A tool is used once for the same question; after three repetitions the agent gets no more tools."""
    script = Script().plan(subtask("T1")).work("", use("search_documents"), forced=answer("Known.", status="partial"))
    async with environment(script) as opened:
        result = await opened.run(GOAL)

    assert len(opened.tools["search_documents"].calls) == 1
    assert len(opened.model.of_kind("work")) == 5
    assert [record.state for record in result.subtasks] == ["partial"]
