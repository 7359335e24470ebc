"""Calls that act, on a real server, whose workers are killed at every moment of a call."""

import asyncio
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.contracts import ToolCall, ToolRequest, ToolResult
from activities.tool_use import ToolActivities
from chargehand.contracts import Contract
from chargehand.wire import WorkflowType
from tests.activities.acting.shop import ACTING, effects
from tests.activities.acting.worker import acting_worker

ROOT = Path(__file__).resolve().parents[3]
FRONT = "acting-front"
KNOWN = {
    "before the intent is recorded": {"book", "ship", "pay"},
    "after the intent is recorded": {"ship", "pay"},
    "before the answer is recorded": {"ship", "pay"},
    "after the answer is recorded": {"book", "ship", "pay"},
}
"""At each moment, the tools whose outcome is known after all."""


class Asked(Contract):
    ledger: str
    task_queue: str


@workflow.defn(name=WorkflowType.SUBTASK)
class OneRound:
    """Calls every tool that acts, side by side, as subtasks do."""

    @workflow.run
    async def run(self, asked: Asked) -> list[ToolResult]:
        return await asyncio.gather(*(self._use(each.name, asked) for each in ACTING))

    async def _use(self, tool: str, asked: Asked) -> ToolResult:
        call = ToolCall(id=tool, tool=tool, arguments={"ledger": asked.ledger})
        return await workflow.execute_activity_method(
            ToolActivities.use_tool,
            ToolRequest(session="s", step=f"turn-1.{tool}", crew="shop", agent="clerk", call=call),
            activity_id=tool,
            task_queue=asked.task_queue,
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(seconds=2),
        )


async def test_no_kill_makes_a_tool_act_twice(client: Client, tmp_path: Path) -> None:
    """Whenever its worker is killed, a call acts once at most; where nobody can say whether it did, the model is told,
    and otherwise it did exactly once."""
    async with Worker(
        client, task_queue=FRONT, workflows=[OneRound], workflow_runner=UnsandboxedWorkflowRunner(), build_id="front"
    ):
        ended = await asyncio.gather(*(_kill(client, tmp_path / moment, moment) for moment in KNOWN))

    for moment, results in zip(KNOWN, ended, strict=True):
        applied = Counter(tool for tool, _ in effects(tmp_path / moment))
        known = {result.tool for result in results if not result.is_unknown}
        assert known == KNOWN[moment]
        assert max(applied.values()) == 1
        assert applied.keys() >= known
        assert all(result.ok is not result.is_unknown for result in results)


async def _kill(client: Client, ledger: Path, moment: str) -> list[ToolResult]:
    """Have a worker act that is killed at a moment, then another one."""
    name = f"acting-{uuid4().hex[:8]}"
    killed = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.activities.acting.worker",
        client.service_client.config.target_host,
        name,
        moment,
        cwd=ROOT,
    )
    try:
        asked = Asked(ledger=str(ledger), task_queue=name)
        running = await client.start_workflow(OneRound.run, asked, id=f"{name}/run/clerk/subtask", task_queue=FRONT)
        await asyncio.wait_for(killed.wait(), 60)
        async with acting_worker(client, name):
            return await asyncio.wait_for(running.result(), 60)
    finally:
        if killed.returncode is None:
            killed.kill()
            await killed.wait()
