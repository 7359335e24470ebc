"""Calls at a service that commits late, whose worker is killed or stopped in the middle of them."""

import asyncio
import signal
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.turn.apply_once import CallTimes
from tests.activities.acting.acting_worker import acting_worker
from tests.activities.acting.late_shop import LATE, serve_late
from tests.activities.acting.test_apply_once import ROOT, Asked, OneRound
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(240)]

LATENESS = (0, 3, 12, 60)
CALLS = [(each.name, late) for each in LATE for late in LATENESS]
UNKNOWN = {("enrol", 60), ("pledge", 3), ("pledge", 12), ("pledge", 60)}
"""A lookup that does not say when it has settled is asked for some 20 seconds; where there is none, the answer is lost
with the worker."""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_late_commit_is_neither_repeated_nor_lost(client: Client, tmp_path: Path, how: signal.Signals) -> None:
    """However late a request is committed and whatever becomes of the worker that sent it, it has one effect; and its
    outcome is known, or a person is asked about it."""
    queue = f"late-{uuid4().hex[:8]}"
    async with AsyncExitStack() as closing:
        service = closing.enter_context(serve_late())
        calls: list[tuple[str, dict[str, JsonValue]]] = [
            (tool, {"service": service.url, "late": late}) for tool, late in CALLS
        ]
        front = Worker(client, task_queue=queue, workflows=[OneRound], workflow_runner=UnsandboxedWorkflowRunner())
        await closing.enter_async_context(front)
        asked = Asked(task_queue=f"{queue}-tools", calls=calls)
        running = await client.start_workflow(OneRound.run, asked, id=f"{queue}/run/clerk/subtask", task_queue=queue)
        lost = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.activities.acting.late_shop",
            client.service_client.config.target_host,
            f"{queue}-tools",
            str(tmp_path),
            cwd=ROOT,
        )
        closing.callback(lambda: lost.returncode is None and lost.kill())
        await until(lambda: len(service.requests) == len(CALLS), 60)
        await asyncio.sleep(0.5)  # the fault: so long after the requests the worker is gone
        lost.send_signal(how)
        await closing.enter_async_context(acting_worker(client, f"{queue}-tools", str(tmp_path), LATE, CallTimes()))
        results = await asyncio.wait_for(running.result(), 150)
        if how is signal.SIGSTOP:
            lost.send_signal(signal.SIGCONT)
            lost.send_signal(signal.SIGINT)  # it ends what it has begun
            await asyncio.wait_for(lost.wait(), 60)

    assert {call for call, result in zip(CALLS, results, strict=True) if result.is_unknown} == UNKNOWN
    assert all(result.ok is not result.is_unknown for result in results)
    assert Counter(path.split("/")[1] for path in service.effects) == dict.fromkeys(
        [each.name for each in LATE], len(LATENESS)
    )
    assert set(service.effects.values()) == {1}
