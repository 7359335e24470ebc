"""Hour-long work: a subtask continues as new between two rounds, and nobody notices but its histories."""

import asyncio

import pytest

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from chargehand.history.tree import read_trace
from tests.scripted_model import COST, Held, Script, Turn, answer, subtask, use
from tests.waiting import runs_of
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_recalling import QUOTED, READ, note
from workflows import continue_as_new

ROUNDS = 12
GOAL = SessionRequest(goal="What do the documents say?", review="never", limits=Limits(max_turns=30, max_rounds=20))


@pytest.fixture(autouse=True)
def short_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run end after some four rounds."""
    monkeypatch.setattr(continue_as_new, "MOST_EVENTS", 50)


def many_rounds(*last: Turn) -> Script:
    """Note something first, then read something new in each round."""
    first = [use("search_documents", about="first"), note("It says so.")]
    reading = [use("search_documents", about=number) for number in range(ROUNDS - len(first))]
    return Script().plan(subtask("T1")).work("", *first, *reading, *last)


@pytest.mark.real_server
async def test_a_subtask_continues_as_new_and_loses_nothing(environment: OpenEnvironment) -> None:
    """Conversation, notes, ledger, rounds and the parent's link go on in the next run; turns and dollars add up, larger
    grants are asked for and received, and what was read in the first run is still a source in the last."""
    done = answer("It says so.", ref=READ.ref, quote=QUOTED.quote)
    async with environment(many_rounds(done)) as opened:
        client = opened.chargehand.client
        result = await opened.run(GOAL)
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


async def test_a_later_run_can_be_stopped(environment: OpenEnvironment) -> None:
    """Finishing a session stops the subtask whatever run it is in; the notes of the first run are handed back."""
    held = Held(answer("Never."))
    async with environment(many_rounds(held)) as opened:
        session = await opened.chargehand.start(GOAL)
        await held.reached.wait()
        await session.finish_now()
        result = await asyncio.wait_for(session.result(), 30)

    assert [(record.state, record.reason) for record in result.subtasks] == [("partial", "cancelled")]
    assert result.sources == (QUOTED,)
