"""Sessions that people stop, approve or answer, and pieces of them that are lost."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from pydantic import BaseModel
from temporalio.client import Client, WorkflowExecutionStatus

from activities.models.failures import ProviderError, ProviderFault
from activities.models.protocol import ModelCall
from activities.turn_kinds.work import WorkTask
from chargehand.client import Chargehand
from chargehand.contracts import Limits, Plan, Question, SessionRequest, Subtask
from chargehand.errors import SessionCancelled, SessionFailed, SessionTerminated, UpdateRefused
from chargehand.session import Session
from chargehand.wire import ErrorType
from tests.environment import SessionEnvironment
from tests.parameters import first_fast
from tests.scripted_model import Held, Script, answer, refined, report, subtask, topics, use, work_task
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment, RunSession
from tests.workflows.test_starting_again import paused

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")
BRIEF = GOAL.model_copy(update={"limits": Limits(deadline=timedelta(seconds=60))})


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("kind", "end"),
    first_fast([("work", "cancelled"), ("work", "terminated"), ("plan", "cancelled"), ("synthesis", "cancelled")], 2),
)
async def test_stopping_ends_a_session_promptly_at_every_stage(
    environment: OpenEnvironment, kind: str, end: str
) -> None:
    """It may be planning, working or writing; it closes as such, and no child or model call continues."""
    held = Held(report("Never."))
    async with environment(Script().plan(*topics(2)).on(kind, held)) as opened:
        session = await opened.start(GOAL, until=held)
        calls = len(opened.model.calls) if kind != "work" else 3

        handle = opened.chargehand.client.get_workflow_handle(session.id)
        await (session.cancel() if end == "cancelled" else handle.terminate("by hand"))
        with pytest.raises(SessionCancelled if end == "cancelled" else SessionTerminated):
            await session.result()

        assert (await session.status()).state == end
        assert len(opened.model.calls) <= calls
        await until(lambda: _none_running(opened, session.id))


async def _none_running(environment: SessionEnvironment, session_id: str) -> bool:
    below = environment.chargehand.client.list_workflows(f"RootWorkflowId = '{session_id}'")
    states = [execution.status async for execution in below]
    return bool(states) and WorkflowExecutionStatus.RUNNING not in states


async def test_a_plan_waits_for_approval_and_can_be_edited(environment: OpenEnvironment) -> None:
    """With approval "plan" the whole plan can be read, and no subtask starts before a decision or edit."""
    edited = Plan(subtasks=(Subtask(id="E1", agent="reader", instruction="Read only the handbook, please."),))
    script = Script().plan(subtask("T1"), subtask("T2", agent="analyst", after=["T1"]))
    async with environment(script) as opened:
        session = await opened.start(GOAL.model_copy(update={"approval": "plan"}), until="awaiting_approval")
        calls_before, shown, status = len(opened.model.calls), await session.plan(), await session.status()
        wrong = edited.model_copy(update={"subtasks": (edited.subtasks[0].model_copy(update={"agent": "nobody"}),)})
        with pytest.raises(UpdateRefused, match="there is no agent 'nobody'"):
            await session.edit(wrong)
        await session.edit(edited)
        result = await session.result()

    assert calls_before == 1
    assert isinstance(shown, Plan)
    assert (status.goal, shown.final_instruction) == (GOAL.goal, "Briefly.")
    planned = [(each.id, each.agent, each.depends_on) for each in shown.subtasks]
    assert planned == [("T1", "reader", ()), ("T2", "analyst", ("T1",))]
    assert shown.subtasks[0].instruction == subtask("T1").instruction
    assert [(record.id, record.state) for record in result.subtasks] == [("E1", "success")]


async def test_a_rejected_plan_fails_the_session_with_the_reason(environment: OpenEnvironment) -> None:
    """The failure is typed and quotes the person's reason; no agent was started."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        session = await opened.start(GOAL.model_copy(update={"approval": "plan"}), until="awaiting_approval")
        await session.reject("Too broad.")
        with pytest.raises(SessionFailed, match="Too broad") as failure:
            await session.result()

    assert failure.value.error_type is ErrorType.PLAN_REJECTED
    assert len(opened.model.calls) == 1


async def test_a_permanent_tool_error_is_returned_to_the_agent(run: RunSession) -> None:
    """The agent answers with what it has, and the session completes."""

    def tell(call: ModelCall) -> BaseModel:
        return answer(str([result.output.get("error") for result in work_task(call).rounds[0].results]))

    script = Script().plan(subtask("T1")).work("", use("no_such_tool", "search_documents"), tell)
    result, opened = await run(script, GOAL)

    assert "You have no such tool. Your tools: search_documents, read_document." in result.answer
    assert len(opened.tools["search_documents"].calls) == 1


_FAULT = ProviderFault(provider="scripted", status=529)


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("No key.", _FAULT, ErrorType.PROVIDER_REFUSED, is_final=True),
        ProviderError("Overloaded.", _FAULT, ErrorType.PROVIDER_UNAVAILABLE, retry_after=timedelta(hours=1)),
    ],
    ids=["a refused key", "a provider that asks for more time than there is"],
)
async def test_a_session_that_cannot_be_planned_fails_with_the_providers_reason(
    environment: OpenEnvironment, error: ProviderError
) -> None:
    """A permanent error ends the session after one call, and so does one that lasts longer than the session."""
    async with environment(Script().plans(error)) as opened:
        with pytest.raises(SessionFailed, match=error.message) as failure:
            await opened.run(GOAL)

    assert failure.value.error_type == error.kind
    assert len(opened.model.calls) == 1


async def test_a_session_without_a_worker_times_out_a_month_after_its_deadline(client: Client) -> None:
    """The server ends it although no worker polls; until then it can be cancelled."""
    session = await Chargehand(client, f"nobody-{uuid4().hex}").start(BRIEF)

    description = await client.get_workflow_handle(session.id).describe()
    info = description.raw_description.execution_config
    await session.cancel()

    assert info.workflow_execution_timeout.ToTimedelta() == timedelta(days=31, seconds=60)


@pytest.mark.slow
@pytest.mark.real_server
async def test_waiting_for_a_report_survives_a_paused_workflow(environment: OpenEnvironment) -> None:
    """A client that waits gets the report once an operator has resumed the session."""
    held = Held(answer("Known."))
    script = Script().plan(subtask("T1")).work("", held)
    async with environment(script) as opened:
        client = opened.chargehand.client
        session = await opened.start(GOAL, until="executing")
        async with paused(client, session.id):
            waiting = asyncio.create_task(session.result())
            await asyncio.wait([waiting], timeout=1.5)
            was_waiting = not waiting.done()
        held.released.set()
        result = await waiting

    assert was_waiting
    assert result.answer == "Known."


UNSURE = SessionRequest(
    goal="What do the documents say about the topics?", limits=Limits(max_turns=40), review="never", questions="allowed"
)
ASKED = "The fiscal year or the calendar year?"
MEANT = "The fiscal year, please."
BETTER = "Take the fiscal year, as the handbook does."


def unsure(*topics_in_doubt: str) -> Script:
    """Have the agents of these topics ask until a person or a better instruction has decided."""
    script = Script().plan(*topics(2)).refine(refined(BETTER))
    for topic in topics_in_doubt:
        question = answer("", status="ambiguous_input").model_copy(update={"message": ASKED})
        script = script.work(topic, question)
    return script.work(MEANT, answer("Known."))


def _instructions(environment: SessionEnvironment) -> list[str]:
    return [task.instruction for task in environment.model.tasks(WorkTask)]


async def _asks(session: Session, *subtasks: str) -> bool:
    return {asked.subtask for asked in (await session.status()).questions} == set(subtasks)


async def test_an_agents_question_is_in_the_status_until_it_is_answered(environment: OpenEnvironment) -> None:
    """The next instruction has the answer; subtasks without an open question take none, and siblings do not wait."""
    held = Held(answer("Known."))
    async with environment(unsure("T1").work(MEANT, held)) as opened:
        session = await opened.chargehand.start(UNSURE.model_copy(update={"answer_within": timedelta(minutes=4)}))
        await until(lambda: _asks(session, "T1"))
        await until(lambda: _has_ended(session, "T2"))
        asking = await session.status()
        before = _instructions(opened)
        with pytest.raises(UpdateRefused, match="subtask: 'T2' has no open question; subtasks that have one: T1"):
            await session.answer(subtask="T2", text=MEANT)
        after_update = await session.answer(subtask="T1", text=MEANT)
        with pytest.raises(UpdateRefused, match="subtask: 'T1' has no open question; subtasks that have one: none"):
            await session.answer(subtask="T1", text="The calendar year.")
        held.released.set()
        result = await session.result()

    [question] = asking.questions
    assert asking.started_at is not None
    assert question == Question(subtask="T1", agent="reader", text=ASKED, open_until=question.open_until)
    assert timedelta(minutes=4) <= question.open_until - asking.started_at <= timedelta(minutes=4, seconds=20)
    assert asking.state == "awaiting_answer"
    assert not any(MEANT in told for told in before)
    assert after_update.session == session.id
    first, *rest = [told for told in _instructions(opened) if "topic T1 in" in told]
    assert rest == [f"{first}\n\nA person was asked: {ASKED}\nThe answer, which decides: {MEANT}"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2), ("success", 1)]
    assert not opened.model.of_kind("refine")


async def _has_ended(session: Session, subtask_id: str) -> bool:
    return any(record.id == subtask_id and record.ended_at for record in (await session.status()).subtasks)


NESTED = (
    unsure("T1")
    .plan(subtask("T1"))
    .plan(subtask("N1", agent="supervisor", instruction="Look into topic T1 as a whole."), goal=UNSURE.goal)
)


@pytest.mark.parametrize(
    ("script", "questions"),
    [pytest.param(unsure("T1"), "none", id="not allowed"), pytest.param(NESTED, "allowed", id="nested")],
)
async def test_an_agent_that_may_not_ask_gets_a_refined_instruction(
    run: RunSession, script: Script, questions: str
) -> None:
    """Sessions that allow no questions, and nested ones, which no person watches, refine at once."""
    result, opened = await run(script, UNSURE.model_copy(update={"questions": questions}))

    assert len(opened.model.of_kind("refine")) == 1
    assert {record.state for record in result.subtasks} == {"success"}


async def test_finish_now_does_not_wait_for_an_answer(environment: OpenEnvironment) -> None:
    """A session that is told to finish drops its questions and reports what its other subtasks found."""
    async with environment(unsure("T1")) as opened:
        session = await opened.chargehand.start(UNSURE)
        await until(lambda: _asks(session, "T1"))
        await until(lambda: _has_ended(session, "T2"))
        await session.finish_now()
        result = await session.result()
        status = await session.status()

    assert result.stop_reason == "finish_now"
    assert [record.state for record in result.subtasks] == ["escalation", "success"]
    assert ASKED in " ".join(result.gaps)
    assert status.questions == ()
