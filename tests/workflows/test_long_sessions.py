"""Long work continues as new: a session between subtasks, a subtask between rounds; only histories show it."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowFailureError

from activities.turn_kinds.work import WorkAnswer, WorkTask
from chargehand.contracts import Limits, Report, SessionRequest
from chargehand.history.tree import read_trace
from chargehand.session import Session
from chargehand.wire import WorkflowType
from tests.scripted_model import COST, Held, Script, answer, disagreement, plan, refined, report, reviewed, subtask, use
from tests.waiting import runs_of, until, until_state
from tests.workflows.conftest import OpenEnvironment, RunSession, server_of
from tests.workflows.test_callers import open_strangers
from tests.workflows.test_recalling import QUOTED, READ, note
from tests.workflows.test_starting_again import is_awaiting_a_duplicate, reset
from workflows import run_end

NESTED = "Look into the second topic as a whole."
GOAL = SessionRequest(goal="What do the documents say?", review="always", limits=Limits(max_turns=60))
TWIN = subtask("T1").instruction


def _one_after_another(count: int) -> Script:
    return Script().plan(*(subtask(f"T{n}", after=[f"T{n - 1}"] if n > 1 else []) for n in range(1, count + 1)))


def _eventful() -> Script:
    """Have a plan corrected, a nested session, a refusal, a duplicate, and a review that adds what is missing."""
    nested = subtask("N1", agent="supervisor", after=["T1"], instruction=NESTED)
    chain = (subtask("T1"), nested, subtask("T2", agent="analyst", after=["N1"]), subtask("T3", after=["T2"]))
    script = Script().plans(plan(subtask("T1", agent="nobody")), plan(*chain))
    script = script.plan(subtask("X1"), subtask("X2", after=["X1"]), goal=NESTED)
    script = script.work("T3", answer("", status="no_answer"), agent="reader").refine(refined(TWIN))
    year = disagreement("the year", "T1 says 1987", "T2 says 1990")
    missing = reviewed(subtask("T4", after=["N1"]), missing=["a fourth"], contradictions=[year])
    script = script.on("review", missing).on("review", reviewed(), when=lambda call: "T4" in call.messages[0].text)
    return script.synthesis(report("What is known."))


def _lasting(result: Report) -> Mapping[str, object]:
    """Return what does not depend on times and ids."""
    shown = result.model_dump(exclude={"session", "timing", "limits", "subtasks"})
    used = {use.limit: (use.used, use.allowed) for use in result.limits if "deadline" not in use.limit}
    own = {"workflow_id", "started_at", "ended_at"}
    return shown | {"limits": used, "subtasks": [record.model_dump(exclude=own) for record in result.subtasks]}


@pytest.mark.slow
@pytest.mark.real_server
async def test_continue_as_new_does_not_change_the_report(
    environment: OpenEnvironment, run: RunSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All state is carried over, a nested session's too, and lists and traces show one session."""
    usual, _ = await run(_eventful(), GOAL)
    monkeypatch.setattr(run_end, "MOST_EVENTS", 20)
    async with environment(_eventful()) as opened:
        client = opened.chargehand.client
        session = await opened.chargehand.start(GOAL)
        result = await session.result()
        await runs_of(client, session.id, 4)
        nested = next(record.workflow_id or "" for record in result.subtasks if record.id == "N1")
        nested_runs = await runs_of(client, nested)
        listed = [each.id async for each in opened.chargehand.list(1_000)]
        asked, trace = await session.request(), await session.trace()

    assert _lasting(result) == _lasting(usual)
    assert [record.reason for record in result.subtasks if record.id == "T3"] == ["duplicate"]
    assert len(nested_runs) > 1
    assert {run.parent_id for run in nested_runs} == {session.id}
    assert listed.count(session.id) == 1
    assert asked == GOAL
    turns = [step for step in trace.steps if step.kind == "turn"]
    assert len({step.id for step in turns}) == len(turns) == result.usage.turns == len(opened.model.calls)
    assert [step.state for step in trace.steps if step.id == session.id] == ["completed"]


@pytest.mark.usefixtures("short_histories")
async def test_messages_reach_a_session_in_whichever_run_it_is(environment: OpenEnvironment) -> None:
    """Each update is applied and answered once, queries are answered, and the first run's deadline stays."""
    held = Held(answer("Late."))
    async with environment(_one_after_another(4).work("T4", held)) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"approval": "plan", "review": "never"}))
        await until_state(session, "awaiting_approval")
        await session.approve()
        first = await session.status()
        turns: list[int] = []
        while not held.reached.is_set():
            wanted = (turns[-1] if turns else GOAL.limits.max_turns) + 1
            turns.append((await session.raise_limits(max_turns=wanted)).max_turns)
        last = await session.status()
        await session.finish_now()
        result = await session.result()

    assert server_of(opened).runs(session.id) > 2
    assert turns == [*range(GOAL.limits.max_turns + 1, GOAL.limits.max_turns + len(turns) + 1)]
    assert (last.started_at, last.deadline_at, last.max_turns) == (first.started_at, first.deadline_at, turns[-1])
    assert result.stop_reason == "finish_now"
    assert result.timing.started_at == first.started_at


@pytest.mark.slow
@pytest.mark.real_server
@pytest.mark.usefixtures("short_histories")
async def test_resetting_a_later_run_pays_nothing_twice(environment: OpenEnvironment) -> None:
    """The running child is awaited, and tasks of earlier runs are refused as duplicates."""
    held = Held(answer("", status="no_answer"))
    script = _one_after_another(4).work("T3", held, agent="reader").refine(refined(TWIN))
    async with environment(script) as opened:
        client = opened.chargehand.client
        session = await opened.start(GOAL.model_copy(update={"review": "never"}), until=held)
        await runs_of(client, session.id, 2)
        await reset(client, session, lambda event: event.event_id > 3)
        await until(lambda: is_awaiting_a_duplicate(client, session))
        held.released.set()
        result = await opened.chargehand.session(session.id).result()

    assert [record.reason for record in result.subtasks] == ["", "", "duplicate", ""]
    assert len(opened.model.of_kind("work")) == 4
    assert result.usage.turns == len(opened.model.calls)


@pytest.mark.slow
@pytest.mark.real_server
@pytest.mark.usefixtures("short_histories")
async def test_forged_carried_state_is_refused_or_pays_for_nothing(environment: OpenEnvironment) -> None:
    """A client's state is refused, and a foreign workflow that continues as new with one pays for nothing."""
    async with environment(_one_after_another(2)) as opened:
        client, queue = opened.chargehand.client, opened.chargehand.task_queue
        session = await opened.chargehand.start(GOAL.model_copy(update={"review": "never"}))
        await session.result()
        forged = await _handed_on(client, session)
        state = json.loads(forged["state"])
        state |= {"run": "another", "progress": state["progress"] | {"outcomes": {}}}  # so that its children are new
        forged["state"] = json.dumps(state)
        paid = len(opened.model.calls)
        with pytest.raises(WorkflowFailureError) as sent:
            await client.execute_workflow(WorkflowType.SUPERVISOR, forged, id=f"{queue}-sent", task_queue=queue)
        async with open_strangers(client) as strangers:
            onward = {"next": WorkflowType.SUPERVISOR, "input": forged, "queue": queue}
            report = await client.execute_workflow("Other", onward, id=f"{queue}-other", task_queue=strangers)

    assert "state: is set by a session that continues as new" in str(sent.value.cause)
    assert [record["state"] for record in report["subtasks"]] == ["failure"] * 2
    assert len(opened.model.calls) == paid


async def _handed_on(client: Client, session: Session) -> dict[str, Any]:
    """Read the input of a session's newest run."""
    started = await anext(client.get_workflow_handle(session.id).fetch_history_events(page_size=1))
    payloads = started.workflow_execution_started_event_attributes.input.payloads
    [given] = await client.data_converter.decode(list(payloads), [dict[str, Any]])
    return cast("dict[str, Any]", given)


ROUNDS = 12
ROUNDS_GOAL = GOAL.model_copy(update={"review": "never", "limits": Limits(max_turns=30, max_rounds=20)})


@pytest.fixture
def runs_of_four_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run end after some four rounds."""
    monkeypatch.setattr(run_end, "MOST_EVENTS", 50)


def many_rounds(last: Held | WorkAnswer) -> Script:
    """Note something first, then read something new in each round."""
    first = [use("search_documents", about="first"), note("It says so.")]
    reading = [use("search_documents", about=number) for number in range(ROUNDS - len(first))]
    return Script().plan(subtask("T1")).work("", *first, *reading, last)


@pytest.mark.real_server
@pytest.mark.usefixtures("runs_of_four_rounds")
async def test_a_subtask_keeps_its_state_across_continue_as_new(environment: OpenEnvironment) -> None:
    """Knowledge, spend and grants carry over, and turns, dollars and sources add up at the end."""
    done = answer("It says so.", ref=READ.ref, quote=QUOTED.quote)
    async with environment(many_rounds(done)) as opened:
        client = opened.chargehand.client
        result = await opened.run(ROUNDS_GOAL)
        child = result.subtasks[0].workflow_id or ""
        runs = await runs_of(client, child, 3)
        trace = await read_trace(client, result.session)

    tasks = opened.model.tasks(WorkTask)
    assert [len(task.rounds) for task in tasks] == list(range(ROUNDS + 1))
    assert {run.parent_id for run in runs} == {result.session}
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)]
    assert result.sources == (QUOTED,)
    assert result.usage.turns == len(opened.model.calls) == ROUNDS + 2
    assert result.usage.cost_usd == COST * len(opened.model.calls)
    assert result.usage.tool_calls == ROUNDS - 1
    assert next(use.used for use in result.limits if use.limit == "max_rounds") == ROUNDS + 1
    [whole] = [step for step in trace.steps if step.id == child]
    assert (whole.state, whole.kind, whole.name) == ("completed", "subtask", f"T1 reader: {tasks[0].instruction}")
    turns = [step for step in trace.steps if step.kind == "turn" and step.parent == child]
    assert len({step.id for step in turns}) == len(turns) == ROUNDS + 1


@pytest.mark.usefixtures("runs_of_four_rounds")
async def test_finishing_a_session_stops_a_subtask_in_a_later_run(environment: OpenEnvironment) -> None:
    """The notes of its first run are handed back."""
    held = Held(answer("Never."))
    async with environment(many_rounds(held)) as opened:
        session = await opened.start(ROUNDS_GOAL, until=held)
        await session.finish_now()
        result = await session.result()

    assert [(record.state, record.reason) for record in result.subtasks] == [("partial", "cancelled")]
    assert result.sources == (QUOTED,)
