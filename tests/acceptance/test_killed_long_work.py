"""Hour-long work on workers that are killed."""

import asyncio
import signal
from pathlib import Path

from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import Limits, SessionRequest
from chargehand.visibility import describe
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

ROUNDS = 9
GOAL = SessionRequest(
    goal="Look into all parts of the matter, please.", limits=Limits(max_turns=30, max_rounds=20), review="never"
)
_SHORT_HISTORIES = """
import sys, worker_main
from workflows import history
history.MOST_EVENTS = int(sys.argv[1])
sys.exit(worker_main.main([]))
"""


def respond(request: ScriptedRequest) -> ScriptedReply:
    """Search for something new in each round, then answer."""
    if request.answer == "PlanAnswer":
        return plan(subtask("T1", "researcher", "Look into it: give the facts, the figures and where they stand."))
    if request.tools and request.rounds < ROUNDS:
        return calling(ToolUse("search", {"query": f"fact {request.rounds}"})).after(0.05)
    return answer("It was looked into.")


async def test_a_worker_killed_when_a_subtask_continues_as_new_loses_nothing(client: Client, tmp_path: Path) -> None:
    """Killed when a subtask has begun another run, the work goes on in the run that is there: every round is
    taken once, and only a call that was running can be charged again."""
    async with ScriptedProvider(respond) as server:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        session = await Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"]).start(GOAL)

        async def continues_as_new() -> bool:
            children = (await describe(client, session.id)).pending_children
            found = [(await describe(client, child.workflow_id)).workflow_execution_info for child in children]
            return any(about.execution.run_id != about.first_run_id for about in found)

        async with worker_process(chosen, "40", program=_SHORT_HISTORIES) as worker:
            await until(continues_as_new)
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
        async with worker_process(chosen, "40", program=_SHORT_HISTORIES):
            result = await asyncio.wait_for(session.result(), 60)

    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)]
    assert result.usage.turns == ROUNDS + 2
    assert next(use.used for use in result.limits if use.limit == "max_rounds") == ROUNDS + 1
    assert ROUNDS + 2 <= server.charges <= ROUNDS + 3
    assert server.charges == ROUNDS + 2 or result.usage.possibly_billed_twice_usd > 0
