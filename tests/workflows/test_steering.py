"""Messages and interruptions of a person while agents work."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateStage

from activities.contracts.tool import ToolAnswer, ToolContext
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, RerouteSubtask, SessionRequest, Status, UserMessage
from chargehand.errors import ChargehandError, UpdateRefused
from chargehand.session import Session
from tests.crew_files import READS_DOCUMENTS
from tests.environment import SessionEnvironment
from tests.parameters import first_fast
from tests.scripted_model import Held, Script, answer, refined, request_tool, request_tools, subtask, use
from tests.waiting import runs_of, until
from tests.workflows.conftest import OpenEnvironment, server_of
from tests.workflows.test_tool_approval import complaints_desk, pending
from workflows import run_end

GOAL = SessionRequest(goal="What do the documents say?", review="never", limits=Limits(max_turns=40))
NESTED = "Look into the second topic as a whole."


def heard(task: WorkTask) -> list[str]:
    """List what an agent was told up to a turn."""
    return [*task.told, *(text for past in task.rounds for text in past.told)]


def turns_of(opened: SessionEnvironment, words: str) -> list[WorkTask]:
    return [task for task in opened.model.tasks(WorkTask) if words in task.instruction]


async def send(session: Session, client: Client, text: str, update_id: str) -> Status:
    """Send a message as any Temporal client does."""
    handle = client.get_workflow_handle(session.id)
    sent = await handle.start_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
        "tell", UserMessage(text=text), id=update_id, wait_for_stage=WorkflowUpdateStage.ACCEPTED, result_type=Status
    )
    return await sent.result()


@pytest.mark.real_server
@pytest.mark.parametrize(("count", "cached", "most_events"), first_fast([(4, 0, 4_000), (20, 1_000, 25)]))
async def test_messages_are_read_once_and_in_order_at_the_next_turn(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch, count: int, cached: int, most_events: int
) -> None:
    """The running call is used; the next and later turns have all messages, across runs and replays."""
    monkeypatch.setattr(run_end, "MOST_EVENTS", most_events)
    first = Held(use("search_documents", about=1))
    script = Script().plan(subtask("T1")).work("T1", first, use("read_document", about=2), answer("Done."))
    texts = [f"Message {number}." for number in range(count)]

    async with environment(script, cached_workflows=cached) as opened:
        session = await opened.start(GOAL, until=first)
        for number, text in enumerate(texts):
            await send(session, opened.chargehand.client, text, f"m{number}")
        await send(session, opened.chargehand.client, texts[3], "m3")
        first.released.set()
        result = await session.result()
        child = result.subtasks[0].workflow_id or ""
        await runs_of(opened.chargehand.client, child, 2 if most_events < count * 2 else 1)
        steps = [step for step in (await session.trace()).steps if step.kind == "message"]

    assert [(step.name, step.purpose) for step in steps if step.parent == child] == [(each, "turn-2") for each in texts]
    assert [step.name for step in steps if step.parent == session.id] == texts
    assert [heard(task) for task in turns_of(opened, "T1")] == [[], texts, texts]
    assert (result.answer, result.gaps) == ("Done.", ())
    assert result.usage.turns == len(opened.model.calls) == 4


async def test_a_message_that_an_agent_has_no_turn_to_read_is_named(environment: OpenEnvironment) -> None:
    """If its limits allow no other turn, its earlier answer stands."""
    last = Held(answer("In English."))
    script = Script().plan(subtask("T1")).work("T1", last, answer("In French."))

    async with environment(script) as opened:
        limits = Limits(max_turns=40, max_rounds=1)
        session = await opened.start(GOAL.model_copy(update={"limits": limits}), until=last)
        await session.tell(text="Write in French.", subtask="T1")
        last.released.set()
        result = await session.result()

    assert result.answer == "In English."
    assert result.wasted.turns == 0
    assert any("A message to T1 was not read: “Write in French.”" in gap for gap in result.gaps)


async def test_a_waiting_subtask_reads_its_messages_in_every_attempt(environment: OpenEnvironment) -> None:
    """They are in the first turn of each attempt; ended or unknown subtasks are refused."""
    second = Held(answer("Known."))
    script = Script().plan(subtask("T1"), subtask("T2", after=["T1"]), subtask("T3", after=["T2"]))
    script = script.work("T2", second).refine(refined("Find out about T3 in another way, please."))
    script = script.work("T3", answer("", status="no_answer"), agent="reader").work("another way", answer("Known."))

    async with environment(script) as opened:
        session = await opened.start(GOAL, until=second)
        with pytest.raises(UpdateRefused, match=r"subtask: 'T1' has ended; .*not ended: T2, T3"):
            await session.tell(text="Too late.", subtask="T1")
        with pytest.raises(UpdateRefused, match="subtask: 'T9' is not in the plan"):
            await session.tell(text="To nobody.", subtask="T9")
        await session.tell(text="Only the new ones.", subtask="T3")
        await session.tell(text="In metres.")
        second.released.set()
        result = await session.result()
        with pytest.raises(ChargehandError, match=r"has ended \(answered.*\)\. It can no longer be changed"):
            await session.tell(text="After the end.")

    [failed, *again] = [task for task in opened.model.tasks(WorkTask) if "T3" in task.instruction]
    assert [heard(task) for task in (failed, *again)] == [["Only the new ones.", "In metres."]] * 2
    assert heard(turns_of(opened, "topic T2")[-1]) == ["In metres."]
    assert result.gaps == ()


@pytest.mark.usefixtures("short_histories")
async def test_messages_and_edits_survive_continue_as_new(environment: OpenEnvironment) -> None:
    """A message to a later subtask, and a change of it, apply in whichever run the subtask starts."""
    first = Held(answer("Known."))
    chain = (subtask(f"T{n}", after=[f"T{n - 1}"] if n > 1 else []) for n in range(1, 5))

    async with environment(Script().plan(*chain).work("topic T1", first)) as opened:
        session = await opened.start(GOAL, until=first)
        await session.tell(text="In metres.", subtask="T4")
        await session.edit_plan(edits=(RerouteSubtask(subtask="T4", agent="analyst"),))
        first.released.set()
        result = await session.result()

    assert server_of(opened).runs(session.id) > 1
    assert [heard(task) for task in turns_of(opened, "topic T4")] == [["In metres."]]
    assert result.subtasks[-1].agent == "analyst"
    assert [each.edit for each in result.edits] == ["reroute"]
    assert result.gaps == ()


@pytest.mark.usefixtures("short_histories")
async def test_a_nested_session_passes_messages_on_to_its_agents(environment: OpenEnvironment) -> None:
    """A path addresses one agent, otherwise all get it; an unknown agent is a gap in the report, in any run."""
    held = [Held(answer("Known.")), Held(answer("Known."))]
    script = Script().plan(subtask("N1", agent="supervisor", instruction=NESTED))
    script = script.plan(subtask("X1"), subtask("X2"), subtask("X3", after=["X1", "X2"]), goal=NESTED)
    script = script.work("X1", held[0], answer("Known.")).work("X2", held[1], answer("Known."))

    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL)
        await asyncio.gather(*(each.reached.wait() for each in held))
        await session.tell(text="To one.", subtask="N1/X2")
        await session.tell(text="To all.", subtask="N1")
        await session.tell(text="To nobody.", subtask="N1/X9")
        for each in held:
            each.released.set()
        result = await session.result()

    assert heard(turns_of(opened, "X1")[-1]) == ["To all."]
    assert heard(turns_of(opened, "X2")[-1]) == ["To one.", "To all."]
    assert [gap for gap in result.gaps if "was not read" in gap] == ["N1: A message to X9 was not read: “To nobody.”"]


async def test_an_interruption_ends_running_tools_and_the_agent_continues(
    environment: OpenEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An acting call is reported as doubtful and is not made again; other agents are not affected."""
    both = request_tools(("search_documents", {"query": "all"}), ("refund", {"amount": 10}))
    hanging = asyncio.Semaphore(0)

    async def hang(_: Mapping[str, Any], __: ToolContext) -> ToolAnswer:
        hanging.release()
        await asyncio.Event().wait()
        raise AssertionError

    crews = complaints_desk(tmp_path, READS_DOCUMENTS, tools=("refund", "search_documents"))
    other = Held(answer("Known."))
    script = Script().plan(subtask("T1", agent="clerk"), subtask("T2", agent="clerk"))
    script = script.work("T1", both, both, answer("Done.")).work("T2", other)
    async with environment(script, own_crews=(crews,), acting=("refund", "fraud_check", "letter")) as opened:
        usual = opened.tools["search_documents"].use
        for name in ("search_documents", "refund"):
            monkeypatch.setattr(opened.tools[name], "use", hang)
        session = await opened.chargehand.start(GOAL.model_copy(update={"crew": "desk"}))
        await asyncio.gather(other.reached.wait(), hanging.acquire(), hanging.acquire())
        monkeypatch.setattr(opened.tools["search_documents"], "use", usual)
        with pytest.raises(UpdateRefused, match="subtask: 'T3' does not run; subtasks that run: T1, T2"):
            await session.interrupt(subtask="T3")
        await session.tell(text="Look at the letter instead.", subtask="T1")
        await session.interrupt(subtask="T1")
        await until(lambda: len(turns_of(opened, "T1")) == 3)
        other.released.set()
        result = await session.result()

    [_, second, third] = turns_of(opened, "T1")
    [searched, refunded] = second.rounds[0].results
    [found, refused] = third.rounds[1].results
    assert searched.output["error"] == "Interrupted by the user."
    assert str(refunded.output["error"]).startswith("Interrupted by the user. Whether this call was applied is unknown")
    assert heard(second) == ["Look at the letter instead."]
    assert found.ok
    assert not refused.ok
    assert hanging.locked()  # the one that acts was made once
    [doubt] = [gap for gap in result.gaps if "refund" in gap]
    assert doubt == 'Outcome unknown: whether refund {"amount": 10} was applied has to be checked by a person.'
    assert {record.state for record in result.subtasks} == {"success"}


async def test_a_call_awaiting_approval_is_not_interrupted(environment: OpenEnvironment, tmp_path: Path) -> None:
    """If approved afterwards it is made, and its outcome is not in doubt."""
    crews = complaints_desk(tmp_path, 'approve = ["refund"]')
    script = Script().plan(subtask("T1", agent="clerk")).work("", request_tool("refund", amount=10), answer("Done."))
    async with environment(script, own_crews=(crews,), acting=("refund", "fraud_check", "letter")) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"crew": "desk"}))
        [call] = await pending(session, 1)
        await session.interrupt(subtask="T1")
        await session.approve_call(call)
        result = await session.result()

    assert opened.tools["refund"].calls == [{"amount": 10}]
    assert (result.answer, result.gaps) == ("Done.", ())
