"""A worker suspended like a closed laptop, and one stopped for a deploy."""

import asyncio
import signal
import time
from pathlib import Path
from random import Random

from activities.heartbeat import HEARTBEAT_TIMEOUT
from chaos import books
from chaos.harness import Outcome, open_harness, script
from chaos.kills import Holding, spread
from chaos.result import Demand, Result, Scale


async def stopped(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Stop the only worker in a call for three heartbeat timeouts, then let it continue."""
    repetitions = {"short": 1, "full": 2, "nightly": 10}[scale]
    began = time.monotonic()
    outcomes: list[Outcome] = []
    async with open_harness(folder) as harness:
        worker = await harness.worker()
        for number in range(repetitions):
            holding = Holding("part 1 of", script(0.02))
            harness.provider.respond = holding
            running = asyncio.create_task(harness.session(f"stopped-{number}"))
            await asyncio.wait_for(holding.held.wait(), 60)
            harness.fault()
            worker.send(signal.SIGSTOP)
            await asyncio.sleep(3 * HEARTBEAT_TIMEOUT.total_seconds())
            worker.send(signal.SIGCONT)
            outcomes.append(await running)
        result = harness.judge(
            "Stopped",
            "SIGSTOP of the only worker during a call for three heartbeat timeouts "
            f"({HEARTBEAT_TIMEOUT.total_seconds():g} s each)",
            outcomes,
            began,
            Demand(faults=repetitions, successes=repetitions),
        )
        most = max(max(steps.values()) for steps in books.charges(harness.provider.exchanges).values())
    result.figures = {"most charges for one step": str(most)}
    result.require(most <= 2, f"a step was charged {most} times")
    return result


async def rolling_restarts(scale: Scale, random: Random, folder: Path) -> Result:
    """Replace workers one after another by SIGTERM while sessions run: a deploy without interruption."""
    restarts = {"short": 3, "full": 20, "nightly": 60}[scale]
    began = time.monotonic()
    drains: list[float] = []
    async with open_harness(folder, script(0.3)) as harness:
        await harness.worker()
        old = await harness.worker()
        done = asyncio.Event()
        running = asyncio.create_task(harness.sessions_until(lambda _: done.is_set(), lines=4))
        for _ in range(restarts):
            await asyncio.sleep(random.uniform(0.2, 1.0))
            new = await harness.worker()
            harness.fault()
            told_at = time.monotonic()
            old.send(signal.SIGTERM)
            await asyncio.wait_for(old.running.wait(), 60)
            drains.append(time.monotonic() - told_at)
            old = new
        done.set()
        outcomes = await running
        result = harness.judge(
            "Rolling restarts",
            f"{restarts} workers replaced one by one by SIGTERM under load",
            outcomes,
            began,
            Demand(faults=restarts, successes=restarts),
        )
    result.figures = {"shutdown, s": spread(drains)}
    result.require(result.extra_calls == 0, f"{result.extra_calls} extra calls in {restarts} restarts")
    result.require(max(drains) <= 35, f"a worker took {max(drains):.0f} s to stop")
    return result
