"""Ways back from bad ends: what the recovery table says is what a session does."""

from pydantic import BaseModel

from activities.models.protocol import ModelCall
from chargehand.contracts import Limits, SessionRequest
from tests.scripted_model import Script, answer, judged, subtask, use
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")
BETTER = "Look in the second chapter of the handbook, and nowhere else."


async def test_an_agent_that_reads_documents_is_no_fallback_without_any(run: RunSession) -> None:
    """A researcher that found nothing is not followed by a reader who has nothing to read."""
    script = Script().plan(subtask("T1", "researcher")).work("", answer("", status="no_answer"))
    result, opened = await run(script, GOAL)

    assert [call.agent for call in opened.model.of_kind("work")] == ["researcher"]
    assert result.stop_reason == "nothing_succeeded"


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


async def test_what_is_too_big_becomes_a_session_of_its_own(run: RunSession) -> None:
    """A subtask that an agent finds too big is planned and carried out one level down."""
    script = (
        Script().plan(subtask("X1", instruction="Read only the first half of it.")).plan(subtask("T1"), goal=GOAL.goal)
    )
    script = script.work("", answer("", status="too_big")).work("first half", answer("The half is known."))
    result, _ = await run(script, GOAL)

    assert result.answer == "The half is known."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    child = result.subtasks[0].workflow_id
    assert child is not None
    assert "/supervisor/" in child


async def test_an_agent_that_asks_the_same_thing_again_and_again_must_answer(run: RunSession) -> None:
    """A tool is used once for the same question; after three repetitions the agent gets no more tools."""
    script = Script().plan(subtask("T1")).work("", use("search_documents"), forced=answer("Known.", status="partial"))
    result, opened = await run(script, GOAL)

    assert len(opened.tools["search_documents"].calls) == 1
    assert len(opened.model.of_kind("work")) == 5
    assert [record.state for record in result.subtasks] == ["partial"]
