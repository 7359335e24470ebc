"""Hour-long work on workers that are killed."""

import asyncio
import signal
from pathlib import Path

import pytest
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

pytestmark = pytest.mark.nightly

ROUNDS = 9
SUBTASKS = 4
GOAL = SessionRequest(
    goal="Look into all parts of the matter, please.", limits=Limits(max_turns=40, max_rounds=20), review="never"
)
_SHORT_HISTORIES = """
import sys
from worker import program
from workflows import continue_as_new
continue_as_new.MOST_EVENTS = int(sys.argv[1])
sys.exit(program.main([]))
"""


def respond(request: ScriptedRequest) -> ScriptedReply:
    """Have one subtask search for something new in each round and then answer, and the others answer at once."""
    if request.answer == "PlanAnswer":
        first = subtask("T1", "researcher", "Look into it: give the facts, the figures and where they stand.")
        then = [subtask(f"T{n}", "analyst", f"Compare part {n}.") for n in range(2, SUBTASKS + 1)]
        after = [each.model_copy(update={"depends_on": [f"T{n}"]}) for n, each in enumerate(then, start=1)]
        return plan(first, *after)
    if request.tools and "Compare part" not in request.text and request.rounds < ROUNDS:
        return calling(ToolUse("search", {"query": f"fact {request.rounds}"})).after(0.05)
    return answer("It was looked into.").after(0.05)


async def _has_continued(client: Client, workflow_id: str) -> bool:
    about = (await describe(client, workflow_id)).workflow_execution_info
    return about.execution.run_id != about.first_run_id


async def test_workers_killed_when_work_continues_as_new_lose_nothing(client: Client, tmp_path: Path) -> None:
    """Killed between runs, the work goes on in the run that is there: every round is taken once."""
    async with ScriptedProvider(respond) as server:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        chosen |= {"CHARGEHAND_STORAGE": str(tmp_path / "payloads")}
        session = await Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"]).start(GOAL)

        async def subtask_continues_as_new() -> bool:
            children = (await describe(client, session.id)).pending_children
            started = [child.workflow_id for child in children if child.run_id]
            return any([await _has_continued(client, each) for each in started])

        for continues in (subtask_continues_as_new, lambda: _has_continued(client, session.id)):
            async with worker_process(chosen, "40", program=_SHORT_HISTORIES) as worker:
                await until(continues, 60)
                worker.send_signal(signal.SIGKILL)
                await worker.wait()
        async with worker_process(chosen, "40", program=_SHORT_HISTORIES):
            result = await asyncio.wait_for(session.result(), 60)

    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 1)] * SUBTASKS
    expected = 1 + ROUNDS + SUBTASKS + 1  # plan, rounds of tools, answers, report
    assert result.usage.turns == expected
    assert next(use.used for use in result.limits if use.limit == "max_rounds") == ROUNDS + 1
    assert expected <= server.charges <= expected + 2
    assert server.charges == expected or result.usage.possibly_billed_twice_usd > 0
