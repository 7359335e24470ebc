"""The command line beside a session whose tool calls wait for a person, and a worker that is killed meanwhile."""

import asyncio
import signal
from pathlib import Path

import pytest
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import Limits, SessionRequest, Status
from chargehand.session import Session
from tests.acceptance.commands import Commands
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.scripted_provider import (
    ScriptedProvider,
    ScriptedReply,
    ScriptedRequest,
    ToolUse,
    answer,
    calling,
    plan,
    subtask,
)
from tests.waiting import until

pytestmark = pytest.mark.nightly

CALLS = 10
CREW = """
name = "clerks"
description = "Looks things up, each with a person's approval."
guidance = "Give each question to a clerk of its own."

[[agents]]
name = "clerk"
description = "Looks one thing up for the user."
prompt = "Look up what you are asked to, and say it."
tools = ["search"]
capabilities = ["reads_untrusted", "reads_private", "reaches_out"]
approve = ["search"]

[[agents]]
name = "writer"
description = "Writes from what it is given, without tools."
prompt = "Write what you are asked to, and nothing else."
"""
GOAL = SessionRequest(
    goal="Look everything up, please.", crew="clerks", limits=Limits(max_turns=40, max_parallel=10), review="never"
)


def respond(request: ScriptedRequest) -> ScriptedReply:
    """Plan five clerks and a writer; each clerk makes two calls at once."""
    if request.answer == "PlanAnswer":
        clerks = [subtask(f"T{number}", "clerk", f"Look up matter number {number}.") for number in range(CALLS // 2)]
        return plan(*clerks, subtask("W1", "writer", "Write a line about the weather."))
    if request.tools and request.rounds == 0:
        number = next(each for each in range(CALLS // 2) if f"matter number {each}." in request.text)
        return calling(*(ToolUse("search", {"query": f"fact {number} {side}"}) for side in ("left", "right")))
    return answer("It was looked into.")


async def _waiting(session: Session) -> Status | None:
    status = await session.status()
    is_written = status.subtasks and status.subtasks[-1].state == "success"
    return status if is_written and len(status.calls) == CALLS else None


async def test_ten_calls_are_decided_in_any_order_while_a_worker_is_killed(client: Client, tmp_path: Path) -> None:
    """Each is made once as it was decided, whichever worker does it; what had ended is not done again."""
    crews = tmp_path / "crews"
    crews.mkdir()
    (crews / "clerks.toml").write_text(CREW)
    edited = tmp_path / "edited.json"
    edited.write_text('{"query": "edited by hand"}')
    async with ScriptedProvider(respond) as server:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path) | {"CHARGEHAND_CREWS": str(crews)}
        queue = chosen["CHARGEHAND_TASK_QUEUE"]
        chargehand = Commands(client, "--task-queue", queue, "--state-dir", tmp_path)
        session = await Chargehand(client, queue).start(GOAL)

        async def all_wait() -> bool:
            return await _waiting(session) is not None

        async with worker_process(chosen) as worker:
            await until(all_wait, 40)
            shown = await chargehand("calls", session.id)
            waiting = (await session.status()).calls
            first, second, *others = reversed(waiting)
            edits = await chargehand("calls", session.id, first.id, "--edit", edited)
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
        async with worker_process(chosen):
            await session.reject_call(second)
            for each in others:
                await session.approve_call(each)
            result = await asyncio.wait_for(session.result(), 60)
        trace = await session.trace()

    made = [step for step in trace.steps if step.kind == "tool"]
    decided = [step.name.removeprefix("search: ") for step in trace.steps if step.kind == "decision"]
    expected = {str(call.arguments["query"]) for call in others} | {"edited by hand"}
    assert [f"{call.id} search, by clerk for {call.subtask}\n" in shown.out for call in waiting] == [True] * CALLS
    assert edits.said == f"Session {session.id}: call {first.id} of search is made with your arguments.\n"
    assert sorted(step.name for step in made) == sorted(f"search: {query}" for query in expected)
    assert sorted(decided) == sorted(["approved"] * (CALLS - 2) + ["edited", "rejected"])
    assert [record.attempts for record in result.subtasks] == [1] * (CALLS // 2 + 1)
    assert server.charges == 1 + CALLS + 1 + 1  # the plan, two turns a clerk, the writer's, and the report
