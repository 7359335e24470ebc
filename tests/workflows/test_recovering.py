"""Ways back from bad ends: what the recovery table says is what a session does."""

from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.judge import JudgeTask
from activities.turn_kinds.refine import RefineTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest, SubtaskRecord
from tests.scripted_model import answer, judged, plan, refined, reply, report, subtask, use
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never")
BETTER = "Look in the second chapter of the handbook, and nowhere else."


def _agent(call: ModelCall) -> str:
    return call.agent


async def test_a_failure_is_tried_again_with_a_better_instruction(environment: OpenEnvironment) -> None:
    """The model is given the error and the earlier instruction; the new one is carried out and accepted."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1")))
        if isinstance(call.task, RefineTask):
            return reply(refined(BETTER))
        assert isinstance(call.task, WorkTask)
        found = call.task.instruction == BETTER
        return reply(answer("Found." if found else "", status="success" if found else "no_answer"))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    [asked] = opened.model.of_kind("refine")
    assert isinstance(asked.task, RefineTask)
    assert asked.task.problem == "because of no_answer"
    assert asked.task.instruction == "Find out everything about topic T1 in the documents."
    assert result.answer == "Found."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    assert result.usage.turns == len(opened.model.calls)


async def test_a_failure_that_refining_does_not_mend_goes_to_the_fallback_agent(environment: OpenEnvironment) -> None:
    """After the refined instruction fails too, the agent that the crew declares as fallback gets its try."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1", agent="reader")))
        if isinstance(call.task, RefineTask):
            return reply(refined(BETTER))
        return reply(answer("Found.") if call.agent == "researcher" else answer("", status="no_answer"))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert [_agent(call) for call in opened.model.of_kind("work")] == ["reader", "reader", "researcher"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 3)]


async def test_three_bad_ends_open_the_breaker(environment: OpenEnvironment) -> None:
    """Whatever could still be tried, a subtask is given up after max_attempts, and its siblings are not touched."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2", agent="analyst")))
        if call.task.kind == "synthesis":
            return reply(report("One of two."))
        if isinstance(call.task, RefineTask):
            return reply(refined(BETTER))
        assert isinstance(call.task, WorkTask)
        return reply(answer("Known.") if "topic T2" in call.task.instruction else answer("", status="no_answer"))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert [(record.state, record.attempts) for record in result.subtasks] == [("failure", 3), ("success", 1)]
    assert result.answer == "One of two."


async def test_an_unsure_answer_goes_to_a_stronger_tier_and_then_to_a_judge(environment: OpenEnvironment) -> None:
    """The same agent answers again on the next tier; a judge chooses between both answers."""
    tiers: list[str] = []

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1")))
        if isinstance(call.task, JudgeTask):
            return reply(judged("A1"))
        tiers.append(call.agent)
        return reply(answer(f"Answer {len(tiers)}.", status="confidence_too_low"))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert len(tiers) == 2
    assert result.answer == "Answer 1."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("partial", 2)]


async def test_what_is_too_big_becomes_a_session_of_its_own(environment: OpenEnvironment) -> None:
    """A subtask that an agent finds too big is planned and carried out one level down."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan" and call.task.goal == GOAL.goal:
            return reply(plan(subtask("T1")))
        if call.task.kind == "plan":
            return reply(plan(subtask("X1", instruction="Read only the first half of it.")))
        assert isinstance(call.task, WorkTask)
        small = "first half" in call.task.instruction
        return reply(answer("The half is known.") if small else answer("", status="too_big"))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert result.answer == "The half is known."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    child = result.subtasks[0].workflow_id
    assert child is not None
    assert "/supervisor/" in child


async def _worked_example(environment: OpenEnvironment, required: tuple[str, ...]) -> list[SubtaskRecord]:
    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(
                plan(
                    subtask("T1"),
                    subtask("T2", agent="analyst"),
                    subtask("T3", after=["T1"], required=[need for need in required if need == "T1"]),
                    subtask("T4", agent="analyst", after=["T2"]),
                    subtask("T5", agent="writer", after=["T3", "T4"]),
                )
            )
        if call.task.kind == "synthesis":
            return reply(report("What is known."))
        if isinstance(call.task, RefineTask):
            return reply(refined())
        assert isinstance(call.task, WorkTask)
        return reply(answer("", status="out_of_scope") if "topic T1" in call.task.instruction else answer("Known."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()
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

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1")))
        assert isinstance(call.task, WorkTask)
        return reply(answer("Known.", status="partial")) if call.task.must_answer else use("search_documents")

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert len(opened.tools["search_documents"].calls) == 1
    assert len(opened.model.of_kind("work")) == 5
    assert [record.state for record in result.subtasks] == ["partial"]
