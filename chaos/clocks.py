"""Hosts whose clocks are wrong or jump: `wrong_clock.c` changes the time of day for one worker."""

import asyncio
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

from activities.heartbeat import HEARTBEAT_TIMEOUT
from chaos import books
from chaos.harness import Harness, Outcome, Worker, open_harness, script
from chaos.kills import Holding
from chaos.result import Demand, Result, Scale
from chargehand.contracts import Report

_SOURCE: Final = Path(__file__).with_name("wrong_clock.c")
_HOUR: Final = timedelta(hours=1)
_DEADLINE: Final = 6.0
_REPORT_WITHIN: Final = 11.0
"""Seconds until a session with that deadline must have its report; running work gets five to stop."""


class _Clock:
    """A worker's clock, wrong by the number of seconds in a file."""

    def __init__(self, library: Path, file: Path, wrong_by: timedelta) -> None:
        self._file = file
        self._file.write_bytes(_written(wrong_by))
        self.settings = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(file), "TZ": "UTC"}

    def set(self, wrong_by: timedelta) -> None:
        """Make the clock jump; the worker has the file mapped into memory."""
        with self._file.open("r+b") as file:
            file.write(_written(wrong_by))


def _written(wrong_by: timedelta) -> bytes:
    return int(wrong_by.total_seconds()).to_bytes(8, sys.byteorder, signed=True)


def _compiled(folder: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    library = folder / "wrong_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl"], check=True)
    return library


async def wrong_clocks(scale: Scale, random: Random, folder: Path) -> Result:
    """Run workers whose clocks are an hour ahead and behind and jump midway; stop one; let a deadline pass."""
    library = await asyncio.to_thread(_compiled, folder)
    if library is None:
        return Result("Wrong clocks", "", skipped="it takes Linux and a C compiler to give a process another clock")
    jumps, count = {"short": (2, 4), "full": (8, 24), "nightly": (40, 200)}[scale]
    began = time.monotonic()
    async with open_harness(folder, script(0.2)) as harness:
        ahead, behind = (_Clock(library, folder / name, by) for name, by in (("ahead", _HOUR), ("behind", -_HOUR)))
        for clock in (ahead, behind):
            await harness.worker(**clock.settings)
        running = asyncio.create_task(harness.sessions(count, at_once=4))
        for _ in range(jumps):
            await asyncio.sleep(random.uniform(0.5, 1.5))
            harness.fault()
            random.choice([ahead, behind]).set(random.choice([-_HOUR, -timedelta(seconds=30), timedelta(), _HOUR]))
        outcomes = await running
        wrong = [_most_wrong(worker) for worker in harness.workers]
        await harness.workers[1].kill()
        stopped = await _stopped(harness, ahead)
        in_time = await _past_its_deadline(harness)
        result = harness.judge(
            "Wrong clocks",
            f"two workers with clocks an hour ahead and behind, jumping {jumps} times; one stopped for three "
            "heartbeat timeouts while its clock goes back an hour",
            [*outcomes, stopped],
            began,
            Demand(faults=jumps + 1, successes=count + 1),
        )
        most = max(books.charges(harness.provider.exchanges)["stopped"].values())
    result.require(min(wrong) > _HOUR / 2, f"the workers' clocks were right: wrong by {wrong}")
    result.require(most <= 2, f"a step was charged {most} times")
    result.require(
        in_time.report and in_time.report.stop_reason == "deadline" and in_time.seconds <= _REPORT_WITHIN,
        f"a session with {_DEADLINE:.0f} s took {in_time.seconds:.0f} s and ended by "
        f"{in_time.report.stop_reason if in_time.report else in_time.ended}",
    )
    backwards = [each.session for each in outcomes if each.report and _has_negative_times(each.report)]
    result.require(not backwards, f"times run backwards in {backwards[:3]}")
    harness.require_no_other_calls(result)
    result.figures = {
        "logged times wrong by up to, min": ", ".join(f"{each.total_seconds() / 60:.0f}" for each in wrong),
        "most charges for one step": str(most),
        f"report with a deadline of {_DEADLINE:.0f} s, s": f"{in_time.seconds:.1f}",
    }
    return result


async def _stopped(harness: Harness, clock: _Clock) -> Outcome:
    """Stop the worker during a call; when it continues, its clock shows an earlier time than before."""
    holding = Holding("part 1 of", script(0.02))
    harness.provider.respond = holding
    running = asyncio.create_task(harness.session("stopped"))
    await asyncio.wait_for(holding.held.wait(), 60)
    harness.fault()
    harness.workers[0].send(signal.SIGSTOP)
    clock.set(-2 * _HOUR)
    await asyncio.sleep(3 * HEARTBEAT_TIMEOUT.total_seconds())
    harness.workers[0].send(signal.SIGCONT)
    return await running


async def _past_its_deadline(harness: Harness) -> Outcome:
    """Run a session whose agents take longer than its deadline."""
    harness.provider.respond = Holding("part 1 of", script(0.02))
    return await harness.session("in-time", limits={"deadline": _DEADLINE})


def _most_wrong(worker: Worker) -> timedelta:
    """Return the largest error in a worker's log, from the timestamps of its own lines."""
    times = re.findall(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ ", worker.log, flags=re.MULTILINE)
    now = datetime.now(UTC)
    return max((abs(now - datetime.fromisoformat(f"{each}+00:00")) for each in times), default=timedelta())


def _has_negative_times(report: Report) -> bool:
    spans: Sequence[timedelta] = [
        report.timing.wall,
        report.timing.subtasks_one_after_another,
        report.timing.critical_path,
        *(each.ended_at - each.started_at for each in report.subtasks if each.ended_at and each.started_at),
    ]
    return min(spans) < timedelta()
