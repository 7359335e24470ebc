"""Work of unknown types, queues without workers, and what `chargehand doctor` reports about them."""

import asyncio
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from chaos.harness import ROOT, Harness, Outcome, open_harness
from chaos.operators import temporal
from chaos.result import Demand, Result, Scale

_NAMED_WITHIN: Final = 30.0
_APART: Final = "apart"
"""A task queue without poison and with a separate worker, on the same machine and server."""
_MOST_SLOWER: Final = 1.2
_ROUNDS: Final = 3


async def unknown_types(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start workflows of a type that no worker knows among ordinary sessions, and ask `doctor` about them.

    Each session beside them has a twin at the same time on a separate queue, so that any other load on the machine
    slows both. If the slowest of them still differ, more pairs are run: a hundredth of a hundred is one.
    """
    poison, pairs = {"short": (1, 10), "full": (3, 100), "nightly": (10, 300)}[scale]
    began = time.monotonic()
    async with open_harness(folder) as harness:
        await harness.worker()
        await harness.worker(CHARGEHAND_TASK_QUEUE=_APART)
        outcomes = await _pair(harness, "first")
        poisoned_at = time.monotonic()
        for number in range(poison):
            started = ["workflow", "start", "--type", "Supervisr", "--task-queue", "chaos", "--input", "{}"]
            await temporal(harness, *started, "--workflow-id", f"poison-{number}")
            harness.fault()
        named, said = await _until_named(harness, "poison-0", poisoned_at)
        beside: list[float] = []
        apart: list[float] = []
        for round_ in range(_ROUNDS):
            for pair in await _pairs(harness, pairs, round_):
                outcomes += pair
                beside.append(pair[0].seconds)
                apart.append(pair[1].seconds)
            if slowest(beside) <= _MOST_SLOWER * slowest(apart):
                break
        result = harness.judge(
            "Unknown types among ordinary sessions",
            f"{poison} workflows of an unregistered type on the queue of {len(beside)} sessions; "
            "as many on another queue",
            outcomes,
            began,
            Demand(faults=poison, successes=2 * pairs),
        )
        (folder / "doctor.txt").write_text(said)
    result.figures = {
        "median beside and apart, s": f"{statistics.median(beside):.2f}, {statistics.median(apart):.2f}",
        "p99 beside and apart, s": f"{slowest(beside):.2f}, {slowest(apart):.2f}",
        "named by `doctor`, s": "not" if named is None else f"{named:.1f}",
    }
    result.require(named is not None and named <= _NAMED_WITHIN, "doctor did not name them in time")
    result.require(
        slowest(beside) <= _MOST_SLOWER * slowest(apart),
        f"99 of 100 sessions beside them took {slowest(beside):.2f} s, apart {slowest(apart):.2f} s",
    )
    return result


def slowest(seconds: Sequence[float]) -> float:
    """Return the time within which 99 of 100 were done."""
    return sorted(seconds)[math.ceil(0.99 * len(seconds)) - 1]


async def _pairs(harness: Harness, count: int, round_: int) -> list[list[Outcome]]:
    free = asyncio.Semaphore(2)

    async def one(number: int) -> list[Outcome]:
        async with free:
            return await _pair(harness, f"{round_}-{number:03}")

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def _pair(harness: Harness, name: str) -> list[Outcome]:
    """Run one session on the poisoned queue and, at the same time, one on the clean queue."""
    return list(await asyncio.gather(harness.session(f"beside-{name}"), harness.session(f"apart-{name}", queue=_APART)))


async def no_worker_at_all(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start a session on a queue without a worker; `doctor` reports it, and it continues when one arrives."""
    count = {"short": 1, "full": 5, "nightly": 20}[scale]
    began = time.monotonic()
    async with open_harness(folder) as harness:
        running = asyncio.create_task(harness.sessions(count, at_once=count))
        harness.fault()
        missed = await until_missed(harness)
        await harness.worker()
        outcomes = await running
        result = harness.judge(
            "No worker at all",
            "sessions started before any worker",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
    require_missed(result, missed, within=_NAMED_WITHIN)
    return result


async def until_missed(harness: Harness) -> float | None:
    """Ask `doctor` until it reports the missing worker; return the seconds, or None if it never does."""
    began = time.monotonic()
    while time.monotonic() - began < 2 * _NAMED_WITHIN:
        code, said = await doctor(harness)
        if code and ("No worker polls" in said or "No worker answers" in said):
            return time.monotonic() - began
        await asyncio.sleep(1)
    return None


def require_missed(result: Result, missed: float | None, *, within: float) -> None:
    """Record how soon `doctor` missed the worker, and a problem if that is too late."""
    result.figures = {
        **result.figures,
        "noticed by `doctor`, s": "not" if missed is None else f"{missed:.1f}",
    }
    result.require(missed is not None and missed <= within, "doctor did not miss the worker in time")


async def _until_named(harness: Harness, workflow: str, since: float) -> tuple[float | None, str]:
    said = ""
    while time.monotonic() - since < 2 * _NAMED_WITHIN:
        _, said = await doctor(harness)
        if any(workflow in line and line.startswith("✘") for line in said.splitlines()):
            return time.monotonic() - since, said
        await asyncio.sleep(1)
    return None, said


async def doctor(harness: Harness) -> tuple[int, str]:
    """Run `chargehand doctor` as a user would, against the harness's server."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "chargehand"),
        "doctor",
        "--address",
        harness.server.address,
        "--task-queue",
        harness.chargehand.task_queue,
        cwd=ROOT,
        env={name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")
