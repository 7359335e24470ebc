"""L1 and L6: sessions a second compared with hand-written workflows, and the rate at which sessions queue."""

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from temporalio.client import Client

from benchmarks import processes
from benchmarks.jobs import Run, hand_written_runs, own_runs, until_polled
from benchmarks.load.arrivals import arrive
from benchmarks.scripted import Shape
from chaos.harness import Outcome, open_harness, script
from chaos.result import Demand, Result
from chargehand.client import Chargehand

_LEAST_SHARE: Final = 0.7
_LEAST_RATE: Final = 2.5
_MOST_ADDED_MS: Final = 30.0
_IN_FLIGHT: Final = 10
_CRITICAL_TURNS: Final = 4
"""Sequential turns of the main job: a plan, two of an agent, a report."""
_STEP_SECONDS: Final = 10.0
_MOST_RATE: Final = 30
_WORSE: Final = 2.0


async def throughput(size: int, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Run the main job in bursts, then ten at a time, alternating with hand-written workflows of the same shape."""
    began = time.monotonic()
    with (
        processes.server(folder) as server,
        processes.provider(folder) as provider,
        processes.worker("own", server.address, "own", folder, provider) as own_worker,
        processes.worker("hand-written", server.address, "hand-written", folder, provider) as other_worker,
    ):
        for worker in (own_worker, other_worker):
            await until_polled(worker)
        own = own_runs(await Chargehand.connect(server.address, task_queue="own"))
        other = hand_written_runs(await Client.connect(server.address), "hand-written", children=True)
        rates: dict[str, list[float]] = {"own": [], "other": []}
        cpu_ms: dict[str, list[float]] = {"own": [], "other": []}
        for name, run, worker in (("own", own, own_worker), ("other", other, other_worker)) * 2:
            pids = (worker.process.pid, server.process.pid)
            await run(Shape())
            burst_began, cpu_before = time.monotonic(), sum(map(processes.cpu_seconds, pids))
            await asyncio.gather(*(run(Shape()) for _ in range(size)))
            rates[name].append(size / (time.monotonic() - burst_began))
            cpu_ms[name].append((sum(map(processes.cpu_seconds, pids)) - cpu_before) * 1_000 / size)
        walls = {"own": await _walls(own, 3 * _IN_FLIGHT), "other": await _walls(other, 3 * _IN_FLIGHT)}
    result = Result(
        "Throughput",
        f"twice {size} [speed](speed.md) jobs at once, alternating with hand-written workflows with a child "
        "for each subtask",
        sessions=2 * size,
    )
    result.seconds = time.monotonic() - began
    rate, bare = statistics.median(rates["own"]), statistics.median(rates["other"])
    added = (walls["own"] - walls["other"]) * 1_000 / _CRITICAL_TURNS
    result.figures = {
        "sessions a second; by hand; share": f"{rate:.2f}; {bare:.2f}; {rate / bare:.0%}",
        "processor ms a session; by hand": (
            f"{statistics.median(cpu_ms['own']):.0f}; {statistics.median(cpu_ms['other']):.0f}"
        ),
        "model calls a second": f"{rate * Shape().turns:.0f}",
        "sessions a second per core": f"{rate / len(os.sched_getaffinity(0)):.2f}",
        f"median wall with {_IN_FLIGHT} in flight; by hand, s": f"{walls['own']:.2f}; {walls['other']:.2f}",
        "added to each turn, ms": f"{added:.1f}",
    }
    result.require(rate >= _LEAST_SHARE * bare, f"{rate / bare:.0%} of the hand-written workflows' sessions a second")
    result.require(rate >= _LEAST_RATE, f"{rate:.2f} sessions a second instead of {_LEAST_RATE}")
    result.require(added <= _MOST_ADDED_MS, f"{added:.1f} ms are added to each turn")
    return result


async def _walls(run: Run, count: int) -> float:
    """Run jobs with the given concurrency; return the median of their seconds."""
    free = asyncio.Semaphore(_IN_FLIGHT)

    async def one() -> float:
        async with free:
            began = time.monotonic()
            await run(Shape())
            return time.monotonic() - began

    return statistics.median(await asyncio.gather(*(one() for _ in range(count))))


async def ramp(size: int, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start one session a second, then two, and so on, until the p99 of a step is twice that of the first."""
    began = time.monotonic()
    steps: list[list[Outcome]] = []
    running: list[asyncio.Task[list[Outcome]]] = []
    async with open_harness(folder, script(0.2)) as harness:
        await harness.worker()
        await harness.sessions(4, at_once=4, prefix="warm")
        while len(steps) < min(size, _MOST_RATE) and not _is_beyond(steps):
            rate = len(steps) + 1
            steps.append([])
            started = arrive(harness, rate, _STEP_SECONDS, steps[-1].append, prefix=f"step-{rate:02}")
            running.append(asyncio.create_task(started))
            await asyncio.sleep(_STEP_SECONDS)
        outcomes = [outcome for step in running for outcome in await step]
        result = harness.judge(
            "Ramp", "one session a second more every 10 s", outcomes, began, Demand(faults=0, successes=len(outcomes))
        )
    p99 = [_p99(step) for step in steps]
    knee = max((rate for rate, seconds in enumerate(p99, start=1) if seconds <= _WORSE * p99[0]), default=0)
    result.figures = {
        "knee, sessions a second": str(knee),
        "p99 of each step, s": ", ".join(f"{seconds:.2f}" for seconds in p99),
    }
    return result


def _is_beyond(steps: Sequence[Sequence[Outcome]]) -> bool:
    """Return whether the last step but one, whose sessions had a step's time to end, is too slow or incomplete."""
    if len(steps) < 3:
        return False
    *_, last, _ = steps
    expected = (len(steps) - 1) * _STEP_SECONDS
    return len(last) < expected * 0.9 or _p99(last) > _WORSE * _p99(steps[0])


def _p99(outcomes: Sequence[Outcome]) -> float:
    ascending = sorted(outcome.seconds for outcome in outcomes)
    return ascending[-(-len(ascending) * 99 // 100) - 1]
