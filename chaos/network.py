"""The network between worker and server: cut, half open, slow, late, resetting connections."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from chaos.harness import open_harness, script
from chaos.proxy import Proxy, open_proxy
from chaos.result import Demand, Result, Scale


def _late(proxy: Proxy) -> None:
    proxy.latency = 0.5


def _slow(proxy: Proxy) -> None:
    proxy.bytes_per_second = 20_000


_AILMENTS: Final[tuple[tuple[str, Callable[[Proxy], None], float], ...]] = (
    ("cut for 1 s", Proxy.cut, 1),
    ("half open for 2 s", Proxy.hold, 2),
    ("reset mid-answer", Proxy.reset, 0),
    ("500 ms late for 5 s", _late, 5),
    ("20 kB/s for 5 s", _slow, 5),
    ("cut for 30 s", Proxy.cut, 30),
    ("half open for 30 s", Proxy.hold, 30),
)
_LINES: Final = 2
"""Concurrent sessions."""
_SHORT: Final = 3
"""Number of sessions at the short scale."""


async def bad_network(scale: Scale, random: Random, folder: Path) -> Result:
    """Put the worker behind a network that fails in every way, one after another, while sessions run."""
    ailments = list(_AILMENTS[:_SHORT] if scale == "short" else _AILMENTS)
    if scale == "nightly":
        ailments += [("cut for 120 s", Proxy.cut, 120.0), *_AILMENTS * 3]
    began = time.monotonic()
    done = asyncio.Event()
    async with open_harness(folder, script(0.2)) as harness, open_proxy(harness.server.address) as proxy:
        worker = await harness.worker(TEMPORAL_ADDRESS=proxy.address)

        running = asyncio.create_task(harness.sessions_until(lambda _: done.is_set(), lines=_LINES))
        for _, ail, seconds in ailments:
            await asyncio.sleep(random.uniform(1, 3))
            harness.fault()
            ail(proxy)
            await asyncio.sleep(seconds)
            proxy.heal()
        done.set()
        outcomes = await running
        result = harness.judge(
            "Bad network",
            f"connection to the server {', '.join(name for name, _, _ in _AILMENTS[: len(ailments)])}",
            outcomes,
            began,
            Demand(faults=len(ailments), successes=_LINES),
        )
        result.require(worker.running.returncode is None, "the worker ended")
    result.figures = {"connections through the proxy": str(proxy.connections)}
    harness.require_no_other_calls(result)
    return result
