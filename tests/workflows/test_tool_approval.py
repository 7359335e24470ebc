"""Tool calls that need permission from a policy or a person; decisions are recorded before they apply."""

import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RetryPolicy

from activities.contracts.tool import ToolAnswer, ToolContext
from activities.models.protocol import ModelCall
from activities.turn_kinds.judgements import JudgeCallAnswer, JudgeCallTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, PendingCall, RewordSubtask, SessionRequest, Trace
from chargehand.errors import UpdateRefused
from chargehand.record import FOLDER, Record
from chargehand.session import Session
from chargehand.visibility import describe
from tests.crew_files import READS_DOCUMENTS, crew_folder
from tests.environment import SessionEnvironment
from tests.scripted_model import Held, Script, Turn, answer, refuse, request_tool, request_tools, subtask
from tests.waiting import eventually, until, until_state
from tests.workflows.conftest import OpenEnvironment, server_of, start_plainly
from tests.workflows.test_starting_again import reset
from workflows import options

GOAL = SessionRequest(
    goal="Settle the complaints.",
    crew="desk",
    review="never",
    limits=Limits(max_turns=60, max_parallel=10),
    answer_within=timedelta(minutes=3),
)

Desk = Callable[..., AbstractAsyncContextManager[SessionEnvironment]]


@pytest.fixture
def desk(environment: OpenEnvironment, tmp_path: Path) -> Desk:
    """Open a worker with the crew `desk`, whose clerk has these settings."""

    def opened(
        script: Script, clerk: str, crew: str = "", **options: Any
    ) -> AbstractAsyncContextManager[SessionEnvironment]:
        crews, acting = (complaints_desk(tmp_path, clerk, crew),), ("refund", "fraud_check", "letter")
        return environment(script, own_crews=crews, acting=acting, **options)

    return opened


def complaints_desk(folder: Path, clerk: str, crew: str = "", tools: Sequence[str] = ("refund", "fraud_check")) -> Path:
    """Write the crew `desk`: a clerk with these tools and settings, and a helper whom the clerk backs."""
    own = f"tools = {json.dumps(tools)}\n{clerk}"
    helper = f'tools = ["search_documents", "letter"]\n{READS_DOCUMENTS}\nfallback = "clerk"'
    return crew_folder(folder, "desk", crew, clerk=own, helper=helper)


def refunding(*turns: Turn) -> Script:
    """Have one clerk take these turns."""
    return Script().plan(subtask("T1", agent="clerk")).work("", *turns, answer("Settled."))


async def pending(session: Session, count: int) -> tuple[PendingCall, ...]:
    """Wait until this many calls wait for a person."""
    return (await eventually(session.status, lambda status: len(status.calls) == count)).calls


def decisions(trace: Trace) -> list[str]:
    return [step.name for step in trace.steps if step.kind == "decision"]


def told(opened: SessionEnvironment) -> list[Mapping[str, Any]]:
    """List the results that agents were given for their calls."""
    longest = max(opened.model.tasks(WorkTask), key=lambda task: len(task.rounds))
    return [result.output for past in longest.rounds for result in past.results]


@pytest.mark.real_server
async def test_a_call_is_made_as_approved_or_edited_or_not_at_all(desk: Desk) -> None:
    """Each decision applies once, to the call that the person saw, and appears in the trace."""
    amounts = (10, 20, 30)
    script = refunding(request_tools(*(("refund", {"amount": amount}) for amount in amounts)))
    async with desk(script, 'approve = ["refund"]') as opened:
        session = await opened.chargehand.start(GOAL)
        calls = {call.arguments["amount"]: call for call in await pending(session, 3)}
        waiting = await session.status()
        with pytest.raises(UpdateRefused, match="hash: is not that of"):
            await session.approve_call(calls[10].model_copy(update={"hash": calls[20].hash}))
        with pytest.raises(UpdateRefused, match=r"arguments\.amount: .* is not of type 'number'"):
            await session.approve_call(calls[20], {"amount": "19"})
        await session.approve_call(calls[20], {"amount": 19})
        await session.reject_call(calls[30], "Too much.")
        decided = f"'{calls[30].id}' does not wait for a decision; calls that do: {calls[10].id}"
        with pytest.raises(UpdateRefused, match=decided):
            await session.approve_call(calls[30])
        handle = opened.chargehand.client.get_workflow_handle(session.id)
        by_hand = {"call": calls[10].id, "hash": calls[10].hash, "decision": "approve"}
        with pytest.raises(WorkflowUpdateFailedError) as incomplete:
            await handle.execute_update("decide_call", by_hand | {"decision": "edit"})  # pyright: ignore[reportUnknownMemberType]  # SDK
        assert "arguments: is required with the decision 'edit'" in str(incomplete.value.cause)
        await handle.execute_update("decide_call", by_hand)  # pyright: ignore[reportUnknownMemberType]  # SDK
        result = await session.result()
        trace = await session.trace()

    assert waiting.state == "awaiting_call_approval"
    assert [call["amount"] for call in opened.tools["refund"].calls] in ([10, 19], [19, 10])
    assert told(opened)[1]["arguments_set_by_a_person"] == {"amount": 19}
    assert told(opened)[2]["error"] == "A person rejected this call. Too much."
    assert [record.state for record in result.subtasks] == ["success"]
    assert sorted(decisions(trace)) == ["refund: approved", "refund: edited", "refund: rejected: Too much."]


async def test_a_call_within_its_rule_is_made_unless_a_judge_objects(desk: Desk) -> None:
    """A person sees calls beyond the rule, calls the judge does not expect, and calls no judge could or should read."""
    rule = 'tool = "refund"\napproval = "auto"\nwithin = { amount = 50 }\njudged = true'

    def judge(call: ModelCall) -> Turn:
        assert isinstance(call.task, JudgeCallTask)
        if call.task.arguments["amount"] == 30:
            return refuse
        amount = call.task.arguments["amount"]
        return JudgeCallAnswer(is_expected=amount in (10, 40), reason="" if amount == 10 else "Nobody asked for it.")

    asked = [*({"amount": amount} for amount in (10, 20, 30, 40, 60)), {"amount": 50, "note": "x" * 10_000}]
    script = refunding(request_tools(*(("refund", arguments) for arguments in asked)))
    async with desk(script.on("judge_call", judge), f'tier = "small"\n[[agents.policy]]\n{rule}') as opened:
        session = await opened.chargehand.start(GOAL)
        calls = await pending(session, 5)
        for call in calls:
            await session.reject_call(call, "No.")
        await session.result()

    assert {call.arguments["amount"]: call.why for call in calls} == {
        20: "a model finds: Nobody asked for it.",
        30: "no model could judge it",
        40: "a model finds: Nobody asked for it.",
        50: "the call, or what the user has said, is too long for a model to judge",
        60: "amount: is not a number from 0 to 50",
    }
    assert [call["amount"] for call in opened.tools["refund"].calls] == [10]
    assert {call.model for call in opened.model.of_kind("judge_call")} == {"scripted-medium"}  # not the agent's own


async def test_an_unapproved_call_expires_without_costing_agent_time(desk: Desk) -> None:
    """It is denied after `answer_within`, which may be longer than the agent's own time."""
    limits = Limits(subtask_deadline=timedelta(minutes=1), max_attempts=1)
    request = GOAL.model_copy(update={"answer_within": timedelta(minutes=20), "limits": limits})
    async with desk(refunding(request_tool("refund", amount=10)), 'approve = ["refund"]') as opened:
        session = await opened.chargehand.start(request)
        await pending(session, 1)
        server_of(opened).skip(timedelta(minutes=20))
        result = await session.result()

    assert opened.tools["refund"].calls == []
    assert "it was not approved in time" in told(opened)[0]["error"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)]


async def test_a_call_can_be_approved_long_after_the_session_deadline(desk: Desk) -> None:
    """Waiting for a person stops the clock of the session and of its nested sessions."""
    nested = subtask("S1", agent="supervisor", instruction="Settle the complaints below.")
    script = Script().plan(nested).plan(subtask("N1", agent="clerk"), goal="Settle the complaints below")
    script = script.work("", request_tool("refund", amount=10), answer("Settled."))
    request = GOAL.model_copy(update={"answer_within": None, "limits": Limits(deadline=timedelta(minutes=1))})
    async with desk(script, 'approve = ["refund"]') as opened:
        session = await opened.chargehand.start(request)
        await pending(session, 1)
        server_of(opened).skip(timedelta(hours=23))
        [call] = await pending(session, 1)
        await session.approve_call(call)
        result = await session.result()

    assert [call["amount"] for call in opened.tools["refund"].calls] == [10]
    assert result.stop_reason == "completed"


@pytest.mark.real_server
async def test_a_session_awaiting_approval_ends_before_its_execution_timeout(desk: Desk) -> None:
    """The wait ends early enough for the session to finish its work."""
    async with desk(refunding(request_tool("refund", amount=10)), 'approve = ["refund"]') as opened:
        request = GOAL.model_copy(update={"limits": Limits(deadline=timedelta(seconds=5))})
        session = await start_plainly(opened, request, execution_timeout=timedelta(seconds=7))
        report = await session.result()

    assert [(each.kind, each.decision) for each in report.decisions] == [("call", "none")]


@pytest.mark.parametrize("stop", ["finish_now", "terminated"])
async def test_a_call_awaiting_approval_ends_with_its_subtask(desk: Desk, stop: str) -> None:
    """After `finish_now`, or a terminated subtask, the call can no longer be approved, and it is not made."""
    async with desk(refunding(request_tool("refund", amount=10)), 'approve = ["refund"]') as opened:
        session = await opened.chargehand.start(GOAL)
        (call,) = await pending(session, 1)
        child = opened.chargehand.client.get_workflow_handle(call.workflow_id)
        await (session.finish_now() if stop == "finish_now" else child.terminate())
        await pending(session, 0)
        result = await session.result()

    assert stop in {result.stop_reason, *(record.reason for record in result.subtasks)}
    assert opened.tools["refund"].calls == []


@pytest.mark.real_server
async def test_a_policy_holds_across_parallel_subtasks_and_nested_sessions(desk: Desk) -> None:
    """Eight clerks in two sessions make no more calls in total than the policy allows."""
    policy = '[[agents.policy]]\ntool = "refund"\nat_most_calls = 5\nat_most_sum = { argument = "amount", total = 340 }'
    clerks = [subtask(f"T{number}", agent="clerk") for number in range(1, 5)]
    below = [subtask(f"N{number}", agent="clerk") for number in range(1, 5)]
    nested = subtask("S1", agent="supervisor", instruction="Settle the others of these.")
    script = Script().plan(*clerks, nested).plan(*below, goal="Settle the others")
    script = script.work("", request_tools(*(("refund", {"amount": each}) for each in (70, 80))), answer("Settled."))
    async with desk(script, policy) as opened:
        session = await opened.chargehand.start(GOAL)
        await session.result()
        trace = await session.trace()

    amounts = [call["amount"] for call in opened.tools["refund"].calls]
    made = [name for name in decisions(trace) if name == "refund: allowed"]
    assert len(amounts) == len(made)
    assert len(decisions(trace)) == 16
    assert sum(float(str(amount)) for amount in amounts) <= 340
    assert len(amounts) == 4  # a fifth of either amount is beyond the sum


@pytest.mark.real_server
async def test_a_call_with_a_prerequisite_is_refused_until_that_succeeds(desk: Desk) -> None:
    """The check must have succeeded for the same order; the call made again is then not a repetition."""
    policy = '[[agents.policy]]\ntool = "fraud_check"\n[[agents.policy]]\ntool = "refund"\n'
    calls = [("refund", 7), ("fraud_check", 8), ("refund", 7), ("fraud_check", 7), ("refund", 7)]
    script = refunding(*(request_tool(tool, order=order) for tool, order in calls))
    async with desk(script, f'{policy}after = "fraud_check"\nsame = "order"') as opened:
        session = await opened.chargehand.start(GOAL)
        await session.result()
        trace = await session.trace()

    early = "refund: too early: refund is allowed only after fraud_check has succeeded with the same order"
    assert opened.tools["refund"].calls == [{"order": 7}]
    assert decisions(trace) == [early, "fraud_check: allowed", early, "fraud_check: allowed", "refund: allowed"]


@pytest.mark.real_server
async def test_a_report_only_policy_allows_calls_and_traces_its_objections(desk: Desk) -> None:
    """In a dry run of deny-by-default, the trace names what would have been denied."""
    policy = '[[agents.policy]]\ntool = "fraud_check"'
    for mode, expected in (("enforce", 0), ("report", 1)):
        async with desk(refunding(request_tool("refund", amount=1)), policy, f'policy_mode = "{mode}"') as opened:
            session = await opened.chargehand.start(GOAL)
            await session.result()
            [decision] = decisions(await session.trace())

        assert len(opened.tools["refund"].calls) == expected
        assert "the policy has no rule that allows refund" in decision
        assert ("only reports" in decision) == (mode == "report")


async def test_a_replacement_agent_cannot_act_more_than_the_original(desk: Desk) -> None:
    """This covers fallback agents and nested sessions: neither has acting tools that the agent lacked."""
    failing = answer("", status="no_answer")
    too_big = answer("", status="too_big")
    script = Script().plan(subtask("T1", agent="helper"), subtask("T2", agent="helper"))
    script = script.plan(subtask("X1", agent="clerk"), goal="Find out everything about topic T2")
    script = script.work("T1", failing, agent="helper").work("T2", too_big, agent="helper")
    script = script.work("", request_tool("refund", amount=1), answer("Settled."), agent="clerk")
    async with desk(script, "") as opened:
        await opened.run(GOAL)

    clerks = [call.agent for call in opened.model.of_kind("work")]
    assert clerks.count("clerk") >= 3
    assert opened.tools["refund"].calls == []


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_person_decides_about_a_call_of_unknown_outcome(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    """It is made again only if the person says so; either way its outcome is no longer unknown."""
    script = refunding(request_tools(("refund", {"amount": 10})))
    calls: list[str] = []

    async def use(_: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        calls.append(context.idempotency_key)
        if len(calls) == 1:
            raise ConnectionError("The connection was lost.")
        return ToolAnswer(output={"refunded": 10})

    async with desk(script, "") as opened:
        monkeypatch.setattr(opened.tools["refund"], "use", use)
        session = await opened.chargehand.start(GOAL)
        (doubtful,) = await pending(session, 1)
        is_made = decision == "approve"
        await (session.approve_call(doubtful) if is_made else session.reject_call(doubtful, "It was booked."))
        result = await session.result()

    assert doubtful.is_doubtful
    assert len(calls) == (2 if decision == "approve" else 1)
    assert len(set(calls)) == 1
    booked = {"error": "A person has looked into whether this call was applied. It was booked."}
    assert told(opened) == [{"refunded": 10} if decision == "approve" else booked]
    assert result.gaps == ()


@pytest.mark.real_server
async def test_a_reset_subtask_does_not_act_again(desk: Desk) -> None:
    """Its model asks for the call again after the reset, and is told that it was applied."""
    held = Held(answer("Settled."))
    script = Script().plan(subtask("T1", agent="clerk")).work("", request_tool("refund", amount=10), held)

    async with desk(script, "") as opened:
        session = await opened.start(GOAL, until=held)
        [child] = (await describe(opened.chargehand.client, session.id)).pending_children
        first_turn = 5
        await reset(
            opened.chargehand.client,
            opened.chargehand.session(child.workflow_id),
            lambda event: event.event_id > first_turn and event.HasField("activity_task_completed_event_attributes"),
        )
        await until(lambda: "applied before" in str(opened.model.tasks(WorkTask)[-1].rounds))
        held.released.set()
        result = await session.result()

    assert len(opened.tools["refund"].calls) == 1
    assert result.answer == "Settled."


_REQUEST = GOAL.model_copy(update={"approval": "plan", "questions": "allowed", "limits": Limits(max_turns=30)})
_WORDS = "Refund the customer, please."


@contextmanager
def _without(record: Path) -> Generator[None]:
    """Keep workers from writing to the record."""
    aside = record.rename(record.with_name("aside"))
    record.touch()
    yield
    record.unlink()
    aside.rename(record)


async def test_a_call_that_cannot_be_recorded_is_reported_as_not_made(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No person is asked about it, the agent may make it again, and the report names calls that are missing."""
    monkeypatch.setattr(options, "_TOOL_RETRIES", RetryPolicy(maximum_attempts=1))
    first = Held(request_tools(("refund", {"amount": 10}), ("refund", {"amount": 20})))
    second = Held(request_tool("refund", amount=10))
    async with desk(refunding(first, second), "") as opened:
        session = await opened.start(GOAL, until=first)
        with _without(tmp_path / FOLDER):
            first.released.set()
            await second.reached.wait()
        second.released.set()
        result = await session.result()

    [(failed, _), (made,)] = [past.results for past in opened.model.tasks(WorkTask)[-1].rounds]
    assert "the call was not made, since the worker could not prepare or record it" in str(failed.output["error"])
    assert (made.ok, opened.tools["refund"].calls) == (True, [{"amount": 10}])
    assert result.gaps == ('Not made because of a fault of the worker: refund {"amount": 20}.',)


async def test_a_decision_that_cannot_be_recorded_has_no_effect(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind is refused and stays open; once recorded, the record shows who decided what."""
    monkeypatch.setitem(options.CHECK, "schedule_to_close_timeout", timedelta(seconds=0.5))
    question = answer("", status="ambiguous_input").model_copy(update={"message": "Refund whom?"})
    work = (request_tools(("refund", {"amount": 20})), answer("Settled."))
    script = Script().plan(subtask("T1", agent="clerk")).work("", question).work(_WORDS, *work)
    async with desk(script, 'approve = ["refund"]', cached_workflows=0) as opened:
        session = await opened.chargehand.start(_REQUEST)

        async def decide(decision: Callable[[], Awaitable[object]]) -> None:
            before = await session.status()
            with _without(tmp_path / FOLDER), pytest.raises(UpdateRefused, match="could not be recorded"):
                await decision()
            after = await session.status()
            assert (after.state, after.decisions, after.max_turns) == (before.state, before.decisions, before.max_turns)
            assert (opened.tools["refund"].calls, after.edits) == ([], before.edits)
            await decision()

        await until_state(session, "awaiting_approval")
        edit = RewordSubtask(subtask="T1", instruction="Refund the fee for the late delivery.")
        await decide(partial(session.edit_plan, edits=(edit,)))
        await decide(partial(session.raise_limits, max_turns=40, by="Ann"))
        await decide(partial(session.decide_plan, decision="approve", by="Ann"))
        await until_state(session, "awaiting_answer")
        await decide(partial(session.answer, subtask="T1", text=_WORDS, by="Bea"))
        [call] = await pending(session, 1)
        edited: Any = {"call": call.id, "hash": call.hash, "decision": "edit", "arguments": {"amount": 19}, "by": "Bea"}
        await decide(lambda: session.decide_call(**edited))
        await session.result()

    record = Record(tmp_path)
    assert [(each.name, each.content) for each in record.decisions(session.id)] == [
        ("edit_plan", {"edits": [edit.model_dump(mode="json")]}),
        ("raise_limits", {"max_turns": 40, "by": "Ann"}),
        ("decide_plan", {"decision": "approve", "by": "Ann"}),
        ("answer", {"subtask": "T1", "text": _WORDS, "by": "Bea"}),
        ("decide_call", edited),
    ]
    [made] = record.calls(session.id)
    assert (made.begun.arguments, made.begun.decision) == ({"amount": 19}, "edited by Bea")
