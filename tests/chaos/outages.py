"""Nobody there: no worker, no server, or a server that comes back on its database."""

import asyncio
import sqlite3
import statistics
import time
from pathlib import Path
from random import Random

from tests.chaos.ground import open_ground, pollers, script
from tests.chaos.kills import spread
from tests.chaos.result import Demand, Result, Scale


async def no_worker(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Kill all workers while sessions queue up, and start them again after an outage."""
    count, outage = {"short": (10, 3), "full": (200, 60), "nightly": (200, 60)}[scale]
    began = time.monotonic()
    async with open_ground(folder) as ground:
        worker = await ground.worker()
        calm_began = time.monotonic()
        await ground.sessions(max(5, count // 10), at_once=count, prefix="calm")
        calm = (time.monotonic() - calm_began) / max(5, count // 10)
        running = asyncio.create_task(ground.sessions(count, at_once=count, seconds=600))
        await asyncio.sleep(1)
        ground.fault()
        await worker.kill()
        await asyncio.sleep(outage)
        left = await pollers(ground)
        await worker.start()
        back_at = time.monotonic()
        outcomes = await running
        drained = (time.monotonic() - back_at) / count
        result = ground.judge(
            "F05 no worker",
            f"the only worker killed for {outage} s with {count} sessions open",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
    result.figures = {
        "seconds a session, calm": f"{calm:.2f}",
        "seconds a session, draining": f"{drained:.2f}",
        "pollers that the server still names after the outage": str(left),
    }
    return result


async def server_killed(scale: Scale, random: Random, folder: Path) -> Result:
    """Kill the server again and again and start it anew on its database; workers stay."""
    count, kills = {"short": (6, 1), "full": (100, 8), "nightly": (200, 50)}[scale]
    began = time.monotonic()
    away: list[float] = []
    async with open_ground(folder, script(0.1)) as ground:
        workers = [await ground.worker(), await ground.worker()]
        running = asyncio.create_task(ground.sessions(count, at_once=8))
        for _ in range(kills):
            await asyncio.sleep(random.uniform(1, 4))
            if running.done():
                break
            ground.fault()
            killed_at = time.monotonic()
            ground.kill_server()
            await asyncio.sleep(random.uniform(0, 1))
            ground.start_server()
            away.append(time.monotonic() - killed_at)
        outcomes = await running
        result = ground.judge(
            "F07 server killed",
            f"SIGKILL of the server {len(away)} times under load, started anew on its database",
            outcomes,
            began,
            Demand(faults=1 if scale == "short" else 5, successes=count),
        )
        result.require(all(each.running.returncode is None for each in workers), "a worker ended with its server")
        ground.kill_server()
        result.require(is_whole(folder / "temporal.db"), "the database is damaged")
        ground.start_server()
    result.figures = {"server away, s": spread(away)}
    ground.require_no_other_calls(result)
    return result


async def server_away(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Take the server away for a minute while all sessions are open."""
    count, outage = {"short": (10, 8), "full": (200, 60), "nightly": (200, 60)}[scale]
    began = time.monotonic()
    async with open_ground(folder, script(0.1)) as ground:
        await ground.worker()
        running = asyncio.create_task(ground.sessions(count, at_once=count, seconds=900))
        await asyncio.sleep(max(2, count / 40))
        ground.fault()
        ground.kill_server()
        await asyncio.sleep(outage)
        ground.start_server()
        back_at = time.monotonic()
        outcomes = await running
        result = ground.judge(
            "F07 server away",
            f"the server killed for {outage} s with {count} sessions open",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
    result.figures = {
        "all done after its return, s": f"{time.monotonic() - back_at:.0f}",
        "median session, s": f"{statistics.median(each.seconds for each in outcomes):.0f}",
    }
    return result


def is_whole(database: Path) -> bool:
    """Whether SQLite finds nothing wrong with a database."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connected:
        (verdict,) = connected.execute("PRAGMA integrity_check").fetchone()
    connected.close()
    return verdict == "ok"
