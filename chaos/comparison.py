"""Recovery beside the same job written by hand on the bare SDK (`benchmarks/bare.py`), in one run on one server."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from random import Random
from uuid import uuid4

from temporalio.client import Client

from benchmarks.bare import BareJob, Job
from chaos.harness import Harness, Outcome, Worker, open_harness, script, until
from chaos.kills import Holding
from chaos.result import Demand, Result, Scale
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, saying
from workflows.options import HEARTBEAT_TIMEOUT

_BARE_STEPS = 6
"""Model calls of the bare job without faults, as many as a session's."""


async def beside_bare(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Kill and stop the worker of a session, and that of a bare job, in a call; time both and count what they pay."""
    if scale == "short":
        return Result("Recovery beside the bare SDK", "", skipped="the bare job waits for its two-minute timeout")
    began = time.monotonic()
    outcomes: list[Outcome] = []
    async with open_harness(folder) as harness, asyncio.TaskGroup() as beside:
        # It waits for its two-minute timeout meanwhile.
        bare_killed = beside.create_task(_bare(harness, "killed"))
        worker = await harness.worker()
        own: dict[str, tuple[float, int]] = {}
        for way in ("killed", "stopped"):
            holding = Holding("part 1 of", script(0.05))
            harness.provider.respond = holding
            running = asyncio.create_task(harness.session(f"own-{way}"))
            await asyncio.wait_for(holding.held.wait(), 60)
            before = harness.provider.charges
            harness.fault()
            since = await _disturb(worker, way)
            await harness.provider.until(lambda before=before: harness.provider.charges > before, 60)
            own[way] = (time.monotonic() - since, 0)
            outcomes.append(await running)
        result = harness.judge(
            "Recovery beside the bare SDK",
            "the only worker killed, and stopped for three heartbeats, in a model call; the same for a bare job",
            outcomes,
            began,
            Demand(faults=2, successes=2),
        )
        bare = {"stopped": await _bare(harness, "stopped"), "killed": await bare_killed}
    result.seconds = time.monotonic() - began
    result.figures = {
        f"{way}: goes on after, s; calls paid twice": f"Chargehand {own[way][0]:.1f} s, "
        f"bare {bare[way][0]:.1f} s and {bare[way][1]}"
        for way in own
    } | {"calls that Chargehand paid twice, all together": str(result.extra_calls)}
    return result


async def _bare(harness: Harness, way: str) -> tuple[float, int]:
    """Do the same to a bare job; gives the seconds until it went on and how many calls it paid twice."""
    hold = asyncio.Event()

    def respond(request: ScriptedRequest) -> ScriptedReply:
        if request.sequence == 2:
            hold.set()
            return saying("So it is.").after(3_600 if way == "killed" else 20)
        return saying("So it is.").after(0.05)

    async with ScriptedProvider(respond) as provider:
        queue = f"bare-{way}"
        command = [sys.executable, "-m", "benchmarks.worker", "bare", "--address", harness.server.address]
        command += ["--task-queue", queue, "--folder", str(harness.folder), "--provider", provider.base_url]
        worker = Worker({}, harness.folder / f"{queue}.log", command)
        await worker.start()
        try:
            client = await Client.connect(harness.server.address)
            # Of one part with several rounds, so that one call is under way at a time, as in what it stands beside.
            job = Job(goal="Look into it.", subtasks=1, rounds=3)
            handle = await client.start_workflow(BareJob.run, job, id=f"bare-{uuid4().hex[:8]}", task_queue=queue)
            await asyncio.wait_for(hold.wait(), 60)
            since = await _disturb(worker, way)
            await until(lambda: len(provider.requests) > 2, "the bare job's next call", 200)
            took = time.monotonic() - since
            await asyncio.wait_for(handle.result(), 300)
        finally:
            await worker.kill()
        return took, provider.charges - _BARE_STEPS


async def _disturb(worker: Worker, way: str) -> float:
    """Kill and start anew, or stop for three heartbeat timeouts; gives the time from which recovery counts."""
    if way == "killed":
        await worker.kill()
        since = time.monotonic()
        await worker.start()
        return since
    since = time.monotonic()
    worker.send(signal.SIGSTOP)
    await asyncio.sleep(3 * HEARTBEAT_TIMEOUT.total_seconds())
    worker.send(signal.SIGCONT)
    return since
