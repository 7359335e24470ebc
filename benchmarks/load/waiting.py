"""L2 and L3: more sessions than can run at once, and sessions that all wait for slow model calls."""

import asyncio
import re
import statistics
import time
import urllib.request
from pathlib import Path
from random import Random
from typing import Final

from activities.metrics import EVENT_LOOP_LAG
from benchmarks import levels
from chaos.harness import brief, open_harness
from chaos.resources import start_at_once
from chaos.result import Demand, Result
from chargehand_cli.embedded.server import HOST, listening_socket
from tests.scripted_provider import ScriptedReply, ScriptedRequest

_MOST_MB_QUEUED: Final = 1_000
_MOST_MB_WAITING: Final = 600
_MOST_LAG_SECONDS: Final = 0.05
_WATCH_SECONDS: Final = 15.0
_BUCKET: Final = re.compile(EVENT_LOOP_LAG.name + r'\w*_bucket\{[^}]*le="([^"]+)"[^}]*\} (\d+)')


async def queued(size: int, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start all at once on one worker: none is refused, lost or run twice, and memory stays bounded."""
    result, peak_mb = await start_at_once(size, folder)
    result.require(peak_mb <= _MOST_MB_QUEUED, f"the worker held {peak_mb:.0f} MB")
    return result


async def waiting(size: int, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Make every session wait for its first model call, and watch the worker meanwhile."""
    began = time.monotonic()
    answers = asyncio.Event()
    respond = brief()

    async def slow(request: ScriptedRequest) -> ScriptedReply:
        await answers.wait()
        reply = respond(request)
        assert isinstance(reply, ScriptedReply)
        return reply

    async with open_harness(folder, slow) as harness:
        metrics = _free_address()
        worker = await harness.worker(CHARGEHAND_METRICS_ADDRESS=metrics)
        pid = worker.running.pid
        idle = levels.resident_mb(pid)
        running = asyncio.create_task(harness.sessions(size, at_once=size, seconds=1_200))
        await harness.provider.until(lambda: len(harness.provider.exchanges) >= size, 600)
        all_wait_after = time.monotonic() - began
        before = await _lags(metrics)
        memory: list[float] = []
        while time.monotonic() - began < all_wait_after + _WATCH_SECONDS:
            memory.append(levels.resident_mb(pid))
            await asyncio.sleep(0.5)
        after = await _lags(metrics)
        answers.set()
        outcomes = await running
        result = harness.judge(
            "Waiting",
            f"{size} sessions waiting for a model call on one worker",
            outcomes,
            began,
            Demand(faults=0, successes=size),
        )
    held = statistics.median(memory)
    late = 1 - _share_within(before, after, _MOST_LAG_SECONDS)
    result.figures = {
        "worker MB, idle and with all waiting": f"{idle:.0f}, {held:.0f}",
        "MB for each waiting session": f"{(held - idle) / size:.2f}",
        f"event loop more than {_MOST_LAG_SECONDS * 1_000:.0f} ms late": f"{late:.2%}",
    }
    result.require(held <= _MOST_MB_WAITING, f"the worker held {held:.0f} MB")
    result.require(late <= 0.01, f"the event loop was more than 50 ms late at {late:.1%} of all looks")
    return result


def _free_address() -> str:
    probe = listening_socket(0)
    assert probe is not None
    with probe:
        return f"{HOST}:{probe.getsockname()[1]}"


async def _lags(address: str) -> dict[float, int]:
    """Scrape the histogram of the event loop's lag: how many checks were at most so many seconds late."""

    def scrape() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            return answer.read().decode()

    return {float(limit): int(count) for limit, count in _BUCKET.findall(await asyncio.to_thread(scrape))}


def _share_within(before: dict[float, int], after: dict[float, int], seconds: float) -> float:
    grown = {limit: count - before.get(limit, 0) for limit, count in after.items()}
    within = max((limit for limit in grown if limit <= seconds), default=None)
    total = grown.get(float("inf"), 0)
    if within is None or not total:
        raise RuntimeError(f"no metric {EVENT_LOOP_LAG.name} with a bucket of at most {seconds} s")
    return grown[within] / total
