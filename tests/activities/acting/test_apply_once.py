"""Calls that act, on a real server, whose workers are killed at every moment of a call."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.contracts.calls import ToolRequest
from activities.contracts.rounds import ToolCall, ToolResult
from activities.turn.tool_use import ToolActivities
from chargehand.contracts import Contract
from chargehand.wire import WorkflowType
from tests.activities.acting.acting_worker import ACTING, acting_worker, effects

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
_ALL = {each.name for each in ACTING}
KNOWN = {
    "before the intent is recorded": _ALL,
    "after the intent is recorded": {"pay"},
    "before the answer is recorded": _ALL - {"book"},
    "after the answer is recorded": _ALL,
}
"""At each moment of the heartbeats, the tools whose outcome is known by them after all."""


class Asked(Contract):
    task_queue: str
    calls: list[tuple[str, dict[str, JsonValue]]]
    """Tools and their arguments."""


@workflow.defn(name=WorkflowType.SUBTASK)
class OneRound:
    """Makes calls that act, side by side, as subtasks do."""

    @workflow.run
    async def run(self, asked: Asked) -> list[ToolResult]:
        return await asyncio.gather(*(self._use(number, asked) for number in range(len(asked.calls))))

    async def _use(self, number: int, asked: Asked) -> ToolResult:
        tool, arguments = asked.calls[number]
        call = ToolCall(id=tool, tool=tool, arguments=arguments)
        return await workflow.execute_activity_method(
            ToolActivities.use_tool,
            ToolRequest(session="s", step=f"turn-1.{number}.{tool}", crew="shop", agent="clerk", call=call),
            activity_id=f"{number}.{tool}",
            task_queue=asked.task_queue,
            start_to_close_timeout=timedelta(seconds=150),
            heartbeat_timeout=timedelta(seconds=2),
        )


async def test_no_kill_makes_a_tool_act_twice(client: Client, tmp_path: Path) -> None:
    """Whenever its worker is killed, a call acts once at most; where nobody can say whether it did, the model is told,
    and otherwise it did exactly once. Workers that do not share a folder have the heartbeats."""
    name = f"acting-{uuid4().hex[:8]}"
    cases = {f"{name}-{number}": case for number, case in enumerate(product(KNOWN, ("record", "another-record")))}
    async with Worker(
        client, task_queue=name, workflows=[OneRound], workflow_runner=UnsandboxedWorkflowRunner(), build_id="front"
    ):
        running = [
            await client.start_workflow(
                OneRound.run,
                Asked(task_queue=queue, calls=[(each.name, {"ledger": str(tmp_path / queue)}) for each in ACTING]),
                id=f"{queue}/run/clerk/subtask",
                task_queue=name,
            )
            for queue in cases
        ]
        await _kill_workers(client, {queue: moment for queue, (moment, _) in cases.items()}, tmp_path / "record")
        async with AsyncExitStack() as others:
            for queue, (_, record) in cases.items():
                await others.enter_async_context(acting_worker(client, queue, str(tmp_path / record)))
            ended = [await asyncio.wait_for(each.result(), 60) for each in running]

    for (queue, (moment, record)), results in zip(cases.items(), ended, strict=True):
        applied = Counter(tool for tool, _ in effects(tmp_path / queue))
        known = {result.tool for result in results if not result.is_unknown}
        is_in_record = (moment, record) == ("before the answer is recorded", "record")
        assert known == (_ALL if is_in_record else KNOWN[moment])
        assert max(applied.values()) == 1
        assert applied.keys() >= known
        assert all(result.ok is not result.is_unknown for result in results)


async def _kill_workers(client: Client, moments: Mapping[str, str], folder: Path) -> None:
    """Have a worker act on each task queue, which is killed at its moment."""
    address = client.service_client.config.target_host
    words = [word for queue_and_moment in moments.items() for word in queue_and_moment]
    program = "tests.activities.acting.acting_worker"
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-m", program, address, str(folder), *words, cwd=ROOT, start_new_session=True
    )
    try:
        await asyncio.wait_for(killed.wait(), 60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(killed.pid, signal.SIGKILL)
