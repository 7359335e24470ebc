"""A session from the door to the report, with a scripted model on a real server."""

import asyncio
from decimal import Decimal

from activities.contracts import SubtaskDraft, WorkTask
from activities.models.protocol import ModelCall, ModelReply
from chargehand.contracts import Limits, Plan, SessionRequest
from tests.scripted_model import COST, Held, Respond, answer, plan, reply, report, subtask, use
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?")


def well_behaved(*subtasks: SubtaskDraft) -> Respond:
    """Script a model that plans these subtasks, uses one tool in each, answers with its source, and reports."""

    def respond(call: ModelCall) -> ModelReply:
        match call.task.kind:
            case "plan":
                return reply(plan(*subtasks))
            case "synthesise":
                return reply(report("All topics are known [S1], [S2] and [S9]."))
            case _:
                assert isinstance(call.task, WorkTask)
                if not call.task.rounds:
                    return use(call.tools[0].name)
                source = call.task.rounds[0].results[0].sources[0]
                return reply(answer(f"It is known [{source.ref}].", ref=source.ref, quote=source.quote))

    return respond


def _topic(task: WorkTask) -> str:
    return task.instruction.removeprefix("Find out everything about topic ")[:2]


async def test_two_agents_work_and_one_report_comes_out(environment: OpenEnvironment) -> None:
    """A plan of two subtasks becomes one report with the sources that agents really read, and the sum of all costs."""
    async with environment(well_behaved(subtask("T1"), subtask("T2", agent="analyst"))) as opened:
        session = await opened.chargehand.start(GOAL)

        result = await session.result()

    assert result.answer == "All topics are known [S1], [S2]."
    assert [source.ref for source in result.sources] == ["search_documents.md#L1", "query_data.md#L1"]
    assert [source.quote for source in result.sources] == ["what search_documents read", "what query_data read"]
    assert result.stop_reason == "completed"
    assert result.confidence == 90
    assert [(record.id, record.state, record.usage.turns) for record in result.subtasks] == [
        ("T1", "success", 2),
        ("T2", "success", 2),
    ]
    assert result.usage.turns == 6
    assert result.usage.cost_usd == 6 * COST
    assert result.usage.tool_calls == 2


async def test_one_subtask_needs_no_synthesis(environment: OpenEnvironment) -> None:
    """A plan of one subtask costs one plan turn and the agent's own turns, and its answer is the report."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        session = await opened.chargehand.start(GOAL)

        result = await session.result()

    assert result.answer == "It is known [S1]."
    assert [call.task.kind for call in opened.model.calls] == ["plan", "work", "work"]


async def test_independent_subtasks_overlap(environment: OpenEnvironment) -> None:
    """Five subtasks without dependencies are all being worked on at the same moment."""
    all_here = asyncio.Event()
    working: set[str] = set()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan":
            return reply(plan(*(subtask(f"T{number}") for number in range(1, 6))))
        if call.task.kind == "synthesise":
            return reply(report("Done."))
        assert isinstance(call.task, WorkTask)
        working.add(call.task.instruction)
        if len(working) == 5:
            all_here.set()
        return Held(reply(answer("Done.")), all_here)

    async with environment(respond) as opened:
        session = await opened.chargehand.start(GOAL)

        result = await asyncio.wait_for(session.result(), 30)

    assert result.stop_reason == "completed"
    assert len(working) == 5


async def test_max_parallel_is_never_exceeded(environment: OpenEnvironment) -> None:
    """With max_parallel 2, no more than two of six subtasks are ever worked on at once."""
    at_work = 0
    most = 0
    gate = asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        nonlocal at_work, most
        if call.task.kind == "plan":
            return reply(plan(*(subtask(f"T{number}") for number in range(1, 7))))
        if call.task.kind == "synthesise":
            return reply(report("Done."))
        assert isinstance(call.task, WorkTask)
        if not call.task.rounds:
            at_work += 1
            most = max(most, at_work)
            return use("search_documents")
        at_work -= 1
        gate.set()
        return Held(reply(answer("Done.")), gate)

    async with environment(respond) as opened:
        request = GOAL.model_copy(update={"limits": Limits(max_parallel=2)})
        session = await opened.chargehand.start(request)

        result = await session.result()

    assert result.stop_reason == "completed"
    assert most == 2


async def test_a_subtask_starts_the_moment_its_own_inputs_are_there(environment: OpenEnvironment) -> None:
    """T3, which needs only T1, finishes while T2 is still being worked on: subtasks are not started in waves."""
    third_is_done = asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2"), subtask("T3", after=["T1"])))
        if call.task.kind == "synthesise":
            return reply(report("Done."))
        assert isinstance(call.task, WorkTask)
        if "topic T2" in call.task.instruction:
            return Held(reply(answer("Second.")), third_is_done)
        if "topic T3" in call.task.instruction:
            third_is_done.set()
            return reply(answer("Third."))
        return reply(answer("First."))

    async with environment(respond) as opened:
        session = await opened.chargehand.start(GOAL)

        result = await asyncio.wait_for(session.result(), 30)

    assert [record.state for record in result.subtasks] == ["success", "success", "success"]


async def test_a_dependent_is_given_the_outcome_it_depends_on_and_nothing_else(environment: OpenEnvironment) -> None:
    """T2 sees T1's typed outcome; T3, which depends on nothing, sees none."""
    given: dict[str, list[str]] = {}

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2", after=["T1"]), subtask("T3")))
        if call.task.kind == "synthesise":
            return reply(report("Done."))
        assert isinstance(call.task, WorkTask)
        given[_topic(call.task)] = [f"{item.id}: {item.outcome.content}" for item in call.task.inputs]
        return reply(answer(f"Known about {_topic(call.task)}."))

    async with environment(respond) as opened:
        await (await opened.chargehand.start(GOAL)).result()

    assert given == {
        "T1": [],
        "T2": ["T1: Known about T1."],
        "T3": [],
    }


async def test_a_sibling_that_fails_stops_nobody(environment: OpenEnvironment) -> None:
    """When one of three subtasks fails, the others finish, and the report names the gap."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2"), subtask("T3")))
        if call.task.kind == "synthesise":
            return reply(report("Two of three."))
        assert isinstance(call.task, WorkTask)
        if "topic T2" in call.task.instruction:
            return ModelReply(stop="refused", model="scripted-1", provider="scripted")
        return reply(answer("Known."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert [record.state for record in result.subtasks] == ["success", "failure", "success"]
    assert result.gaps == ("T2 (reader) failed: The model declined to answer.",)
    assert result.stop_reason == "completed"


async def test_a_lost_required_input_skips_its_dependent_and_any_other_does_not(environment: OpenEnvironment) -> None:
    """T2 requires the lost T1 and is skipped; T3 merely depends on it and runs with the gap in its context."""

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"), subtask("T2", after=["T1"], required=["T1"]), subtask("T3", after=["T1"])))
        if call.task.kind == "synthesise":
            return reply(report("One of three."))
        assert isinstance(call.task, WorkTask)
        if "topic T1" in call.task.instruction:
            return reply(answer("", status="no_answer"))
        return reply(answer("Known in spite of the gap."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    assert [(record.state, record.reason) for record in result.subtasks] == [
        ("failure", "no_answer"),
        ("skipped", "skipped"),
        ("success", ""),
    ]


async def test_an_invalid_plan_goes_back_with_its_errors_named(environment: OpenEnvironment) -> None:
    """The second attempt sees the first plan and every reason against it, and a valid plan is then carried out."""
    wrong = plan(subtask("T1", agent="nobody"), subtask("T1", after=["T9"]))

    def respond(call: ModelCall) -> ModelReply:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1"))) if call.task.rejected else reply(wrong)
        return reply(answer("Known."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    plans = opened.model.of_kind("plan")
    assert result.stop_reason == "completed"
    assert len(plans) == 2
    assert "there is no agent 'nobody'" in plans[1].messages[0].text
    assert "the id occurs 2 times" in plans[1].messages[0].text
    assert "depends on 'T9', which is not in the plan" in plans[1].messages[0].text


async def test_the_plan_and_the_status_can_be_read_before_and_during_execution(environment: OpenEnvironment) -> None:
    """While a subtask is being worked on, queries show the plan and the subtask as running."""
    asked = asyncio.Event()
    go_on = asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan":
            return reply(plan(subtask("T1")))
        asked.set()
        return Held(reply(answer("Known.")), go_on)

    async with environment(respond) as opened:
        session = await opened.chargehand.start(GOAL)
        await asyncio.wait_for(asked.wait(), 30)
        shown, status = await session.plan(), await session.status()
        go_on.set()
        await session.result()
        after = await session.status()

    assert isinstance(shown, Plan)
    assert [item.id for item in shown.subtasks] == ["T1"]
    assert (status.state, status.subtasks[0].state, status.turns, status.spent_usd) == (
        "carrying_out",
        "running",
        1,
        COST,
    )
    assert status.reserved_usd > 0
    assert (after.state, after.subtasks[0].state, after.reserved_usd) == ("finished", "success", Decimal(0))


async def test_a_nested_session_is_one_hop_deeper_and_its_report_becomes_an_outcome(
    environment: OpenEnvironment,
) -> None:
    """A subtask for `supervisor` runs as a session of its own, whose spending and sources reach the report above."""

    def respond(call: ModelCall) -> ModelReply | Held:
        if call.task.kind == "plan" and call.task.goal == GOAL.goal:
            return reply(plan(subtask("N1", agent="supervisor", instruction="Look into the second topic as a whole.")))
        return well_behaved(subtask("T1"))(call)

    async with environment(respond) as opened:
        session = await opened.chargehand.start(GOAL)
        result = await session.result()

    assert result.answer == "It is known [S1]."
    assert [source.ref for source in result.sources] == ["search_documents.md#L1"]
    assert result.usage.turns == 4
    child = result.subtasks[0].workflow_id
    assert child is not None
    assert child.startswith(f"{session.id}/supervisor/")


async def test_nesting_stops_at_the_depth_limit(environment: OpenEnvironment) -> None:
    """With max_depth 1 a plan that nests a session is refused, with the reason."""
    nested = plan(subtask("N1", agent="supervisor", instruction="Look into the second topic as a whole."))

    async with environment(lambda _: reply(nested)) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"limits": Limits(max_depth=1)}))
        result = await session.result()

    assert "the depth limit allows no nested session" in result.gaps[0]
    assert [record.agent for record in result.subtasks] == ["researcher"]
