"""Outages: no worker, no server, a server that returns with its database, or a provider that fails."""

import asyncio
import sqlite3
import statistics
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from chaos.books import CALL_USD
from chaos.harness import Outcome, brief, open_harness, script
from chaos.kills import spread
from chaos.result import Demand, Result, Scale
from chaos.unattended import require_missed, until_missed
from chargehand.contracts import Usage
from tests.scripted_provider import Faulty, step_of

_MISSED_WITHIN: Final = 10.0
_MOST_SLOWER: Final = 1.5
"""Maximum slowdown of a session while the sessions of an outage drain."""


async def no_worker(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Kill all workers while sessions queue up, and restart them after an outage; `doctor` reports it meanwhile."""
    count, outage = {"short": (10, 3), "full": (200, 60), "nightly": (1_000, 60)}[scale]
    began = time.monotonic()
    async with open_harness(folder, brief()) as harness:
        worker = await harness.worker()
        await harness.sessions(5, at_once=5, prefix="first")
        calm_began = time.monotonic()
        calm = await harness.sessions(count, at_once=count, prefix="calm")
        normal = (time.monotonic() - calm_began) / len(calm)
        running = asyncio.create_task(harness.sessions(count, at_once=count, seconds=900))
        await harness.provider.until(lambda: len(harness.provider.exchanges) > 2 * len(calm) + 10, 60)
        harness.fault()
        await worker.kill()
        away_until = time.monotonic() + outage
        missed = await until_missed(harness)
        await asyncio.sleep(max(0, away_until - time.monotonic()))
        await worker.start()
        await harness.polled(worker)
        back_at = time.monotonic()
        outcomes = await running
        draining = (time.monotonic() - back_at) / count
        result = harness.judge(
            "No worker",
            f"only worker killed for {outage} s, {count} sessions open",
            [*calm, *outcomes],
            began,
            Demand(faults=1, successes=count),
        )
    result.figures = {"s per session, calm and draining": f"{normal:.2f}, {draining:.2f}"}
    require_missed(result, missed, within=_MISSED_WITHIN)
    result.require(
        scale == "short" or draining <= _MOST_SLOWER * normal,
        f"a session took {draining:.2f} s after the outage instead of {normal:.2f} s",
    )
    return result


async def server_killed(scale: Scale, random: Random, folder: Path) -> Result:
    """Repeatedly kill the server and restart it with its database; workers keep running."""
    kills = {"short": 1, "full": 8, "nightly": 50}[scale]
    began = time.monotonic()
    away: list[float] = []
    async with open_harness(folder, script(0.1)) as harness:
        workers = [await harness.worker(), await harness.worker()]
        done = asyncio.Event()
        running = asyncio.create_task(harness.sessions_until(lambda _: done.is_set(), lines=4))
        for _ in range(kills):
            await asyncio.sleep(random.uniform(0.5, 3))
            harness.fault()
            killed_at = time.monotonic()
            harness.kill_server()
            await asyncio.sleep(random.uniform(0, 1))
            harness.start_server()
            away.append(time.monotonic() - killed_at)
        done.set()
        outcomes = await running
        result = harness.judge(
            "Server killed",
            f"SIGKILL of the server {kills} times under load",
            outcomes,
            began,
            Demand(faults=kills, successes=kills),
        )
        result.require(all(each.running.returncode is None for each in workers), "a worker ended with its server")
        harness.kill_server()
        result.require(is_whole(folder / "temporal.db"), "the database is damaged")
        harness.start_server()
    result.figures = {"server away, s": spread(away)}
    harness.require_no_other_calls(result)
    return result


async def server_away(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Stop the server for a minute while all sessions are open."""
    count, outage = {"short": (10, 8), "full": (200, 60), "nightly": (1_000, 60)}[scale]
    began = time.monotonic()
    async with open_harness(folder, brief(0.1)) as harness:
        await harness.worker()
        running = asyncio.create_task(harness.sessions(count, at_once=count, seconds=900))
        await harness.provider.until(lambda: len(harness.provider.exchanges) >= count // 4, 60)
        harness.fault()
        harness.kill_server()
        await asyncio.sleep(outage)
        harness.start_server()
        back_at = time.monotonic()
        outcomes = await running
        result = harness.judge(
            "Server away",
            f"server killed for {outage} s, {count} sessions open",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
    result.figures = {
        "all done after return, s": f"{time.monotonic() - back_at:.0f}",
        "median session, s": f"{statistics.median(each.seconds for each in outcomes):.0f}",
    }
    return result


def is_whole(database: Path) -> bool:
    """Return whether SQLite finds no errors in a database."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connected:
        (verdict,) = connected.execute("PRAGMA integrity_check").fetchone()
    connected.close()
    return verdict == "ok"


async def faulty_provider(scale: Scale, random: Random, folder: Path) -> Result:
    """Make a share of all model calls fail; no session may be incomplete, and no answered step paid again."""
    count = {"short": 4, "full": 40, "nightly": 200}[scale]
    began = time.monotonic()
    outcomes: list[Outcome] = []
    faults: list[str] = []
    async with open_harness(folder) as harness:
        await harness.worker(
            ANTHROPIC_API_KEY="scripted", ANTHROPIC_BASE_URL=harness.provider.base_url, CHARGEHAND_SILENCE_SECONDS="3"
        )
        for share in (0.1, 0.3):
            faulty = Faulty(script(0.05), share, random.randrange(1_000_000))
            harness.provider.respond = faulty
            outcomes += await harness.sessions(count, at_once=8, prefix=f"faulty-{share:.0%}")
            harness.faults += faulty.injected.total()
            faults.append(", ".join(f"{kind} {number}" for kind, number in sorted(faulty.injected.items())))
        result = harness.judge(
            "Faulty provider",
            f"10 %, then 30 % of model calls answered 429, 500 or 529, reset mid-answer (2 %) or never answered (2 %); "
            f"{count} sessions each",
            outcomes,
            began,
            Demand(faults=count // 4, successes=2 * count),
        )
        answered = Counter(
            step_of(exchange.request)
            for exchange in harness.provider.exchanges
            if exchange.reply is not None and exchange.reply.kind in {"text", "tools"}
        )
    result.require(set(answered.values()) == {1}, "a step that was answered was paid again")
    usage = sum((each.report.usage for each in outcomes if each.report is not None), Usage())
    billed, booked = harness.provider.charges * CALL_USD, usage.cost_usd
    is_equal = booked - usage.possibly_billed_twice_usd <= billed <= booked
    result.require(is_equal, f"${booked} were booked, and the provider billed ${billed}")
    result.figures = {"faults at 10 %": faults[0], "faults at 30 %": faults[1]}
    return result
