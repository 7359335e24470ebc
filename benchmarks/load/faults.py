"""L4 and L7: workers killed and stopped, the network cut and the provider overloaded together; a total outage."""

import asyncio
import math
import signal
import statistics
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from activities.heartbeat import HEARTBEAT_TIMEOUT
from benchmarks.load.arrivals import arrive, carry
from chaos.harness import Harness, Outcome, Worker, open_harness, script
from chaos.proxy import Proxy, open_proxy
from chaos.result import Demand, Result
from tests.scripted_provider import Respond, ScriptedReply, ScriptedRequest, error

_LINES: Final = 4
_PAUSE: Final = (2.0, 6.0)
"""Seconds between two faults."""
_OVERLOADED: Final = 0.1
"""Share of the model calls that are answered with 429 or 529."""
_SHARE: Final = 0.5
"""Share of the machine's capacity that is used, so that it can catch up."""
_CALM_SECONDS: Final = 20.0
_NORMAL: Final = 1.5
"""Sessions may take this many times the calm median and still count as normal."""
_IN_A_ROW: Final = 5


def _overloaded(respond: Respond, random: Random) -> Respond:
    def overloaded(request: ScriptedRequest) -> ScriptedReply:
        if random.random() < _OVERLOADED:
            return error(random.choice((429, 529)), {"retry-after": "0.2"})
        reply = respond(request)
        assert isinstance(reply, ScriptedReply)
        return reply

    return overloaded


async def faults_at_once(size: int, random: Random, folder: Path) -> Result:
    """Run sessions for the given number of seconds while everything fails at once."""
    began = time.monotonic()
    done: Counter[str] = Counter()
    async with (
        open_harness(folder, _overloaded(script(0.03), random)) as harness,
        open_proxy(harness.server.address) as proxy,
    ):
        workers = [await harness.worker(), await harness.worker(TEMPORAL_ADDRESS=proxy.address)]
        breaking = asyncio.create_task(_break_now_and_then(harness, workers, proxy, random, done))
        outcomes = await harness.sessions_until(lambda _: time.monotonic() - began >= size, lines=_LINES)
        breaking.cancel()
        await asyncio.gather(breaking, return_exceptions=True)
        result = harness.judge(
            "Faults at once",
            f"for {size} s, every {_PAUSE[0]:g}–{_PAUSE[1]:g} s a worker killed, stopped beyond its heartbeat timeout "
            f"or cut off; {_OVERLOADED:.0%} of model calls answered 429 or 529",
            outcomes,
            began,
            Demand(faults=size // 36, successes=size // 10),
        )
    harness.require_no_other_calls(result)
    result.figures = {"faults": ", ".join(f"{count} {kind}" for kind, count in sorted(done.items()))}
    return result


async def _break_now_and_then(
    harness: Harness, workers: list[Worker], proxy: Proxy, random: Random, done: Counter[str]
) -> None:
    while True:
        await asyncio.sleep(random.uniform(*_PAUSE))
        kind = random.choice(("killed", "stopped", "cut off"))
        done[kind] += 1
        victim = random.choice(workers)
        harness.fault()
        match kind:
            case "killed":
                await victim.restart()
                await harness.polled(victim)
            case "stopped":
                victim.send(signal.SIGSTOP)
                await asyncio.sleep(1.5 * HEARTBEAT_TIMEOUT.total_seconds())
                # Meanwhile, the stopped worker's calls in progress were given to the other one.
                harness.fault(0)
                victim.send(signal.SIGCONT)
            case _:
                proxy.cut()
                await asyncio.sleep(random.uniform(1, 10))
                harness.fault(0)
                proxy.heal()


async def outage(size: int, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Stop server and worker for a number of seconds while sessions arrive, and time the return to normal speed."""
    began = time.monotonic()
    total = _CALM_SECONDS + size + 3 * size
    async with open_harness(folder, script(0.1)) as harness:
        worker = await harness.worker()
        first, capacity = await carry(harness)
        arrivals_began = time.monotonic()
        seen: list[tuple[float, float]] = []

        def ended(outcome: Outcome) -> None:
            seen.append((time.monotonic() - arrivals_began - outcome.seconds, outcome.seconds))

        arriving = asyncio.create_task(arrive(harness, _SHARE * capacity, total, ended))
        await asyncio.sleep(_CALM_SECONDS)
        harness.fault()
        await worker.kill()
        harness.kill_server()
        await asyncio.sleep(size)
        harness.start_server()
        await worker.start()
        back_at = time.monotonic() - arrivals_began
        outcomes = await arriving
        result = harness.judge(
            "Total outage",
            f"server and worker killed for {size} s at half of the capacity",
            [*first, *outcomes],
            began,
            Demand(faults=1, successes=len(first) + len(outcomes)),
        )
    harness.require_no_other_calls(result)
    calm = statistics.median(seconds for started_at, seconds in seen if started_at < _CALM_SECONDS / 2)
    recovered = _recovered_at(seen, back_at, _NORMAL * calm) - back_at
    when = f"{recovered:.0f}" if math.isfinite(recovered) else f"not within {3 * size}"
    result.figures = {
        "sessions a second, carried and arriving": f"{capacity:.2f}, {_SHARE * capacity:.2f}",
        "calm median, s": f"{calm:.2f}",
        f"from the return to {_NORMAL:g} times the median, s": when,
    }
    result.require(recovered <= 2 * size, f"normal after, s: {when}; the outage took {size} s")
    return result


def _recovered_at(seen: list[tuple[float, float]], back_at: float, normal: float) -> float:
    """Return when the first consecutive sessions with a normal median started; `seen` has starts and seconds."""
    after = sorted(each for each in seen if each[0] >= back_at)
    for number in range(len(after) - _IN_A_ROW + 1):
        row = after[number : number + _IN_A_ROW]
        if statistics.median(seconds for _, seconds in row) <= normal:
            return row[0][0]
    return float("inf")
