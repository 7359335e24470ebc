"""`python -m benchmarks.load`: load above and below the capacity, through faults, for long, each with its verdict."""

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Literal

from benchmarks.load.faults import faults_at_once, outage
from benchmarks.load.page import enter
from benchmarks.load.soak import soak
from benchmarks.load.throughput import ramp, throughput
from benchmarks.load.waiting import queued, waiting
from benchmarks.processes import machine_cpu_seconds
from chaos.__main__ import quiet, tell
from chaos.result import Result

Unit = Literal["sessions", "seconds", "minutes", "sessions a second"]


@dataclass(frozen=True)
class Load:
    """One experiment with its usual and its nightly size."""

    run: Callable[[int, Random, Path], Awaitable[Result]]
    asked: str
    size: int
    nightly: int
    unit: Unit


LOADS: Final[Mapping[str, Load]] = {
    "throughput": Load(
        throughput,
        "L1: ≥ 70 % of the sessions/s of hand-written workflows, ≥ 2.5 sessions/s, "
        "≤ 30 ms added to a turn at 10 in flight",
        100,
        300,
        "sessions",
    ),
    "queued": Load(queued, "L2: 0 refused, lost or done twice; worker ≤ 1 GB", 500, 10_000, "sessions"),
    "waiting": Load(waiting, "L3: worker ≤ 600 MB, event loop at most 50 ms late (p99)", 300, 500, "sessions"),
    "faults": Load(
        faults_at_once, "L4: 0 lost, 0 stuck, no extra call that a fault does not explain", 90, 3_600, "seconds"
    ),
    "soak": Load(
        soak,
        "L5: 0 lost, books equal; memory, files, threads and disk level off; p95 stable without kills",
        3,
        180,
        "minutes",
    ),
    "ramp": Load(ramp, "L6: the rate at which p99 doubles", 12, 30, "sessions a second"),
    "outage": Load(outage, "L7: normal again after at most twice the outage", 20, 60, "seconds"),
}


def main() -> int:
    """Run the requested experiments; return 1 if a verdict is bad."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"experiments; all if none: {', '.join(LOADS)}")
    parser.add_argument("--nightly", action="store_true", help="the sizes of the night, for hours")
    parser.add_argument("--size", type=int, help="another size of the only experiment that is named")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/load.json and docs/load.md")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(LOADS):
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}")
    if chosen.size is not None and len(chosen.names) != 1:
        parser.error("--size belongs to one experiment: name it")
    quiet()
    print(f"seed {chosen.seed}", flush=True)
    good = True
    for name in chosen.names or list(LOADS):
        size = chosen.size or (LOADS[name].nightly if chosen.nightly else LOADS[name].size)
        print(f"{name}, {size} {LOADS[name].unit}: {LOADS[name].asked}", flush=True)
        result = _measured(name, size, chosen.seed)
        tell(name, result)
        good &= not result.problems
        if chosen.save:
            enter(name, result, size=f"{size} {LOADS[name].unit}", asked=LOADS[name].asked, seed=chosen.seed)
    return int(not good)


def _measured(name: str, size: int, seed: int) -> Result:
    """Run an experiment; its figures include how much of the machine other programs used."""
    began, before = time.monotonic(), _cpu_seconds_of_others()
    result = asyncio.run(_run(name, size, seed))
    share = (_cpu_seconds_of_others() - before) / (time.monotonic() - began) / len(os.sched_getaffinity(0))
    result.figures = {**result.figures, "processor time of other programs": f"{share:.0%}"}
    return result


def _cpu_seconds_of_others() -> float:
    """Return the machine's CPU seconds without those of this process and of its child processes that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return machine_cpu_seconds() - time.process_time() - ended.ru_utime - ended.ru_stime


async def _run(name: str, size: int, seed: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="chargehand-load-", ignore_cleanup_errors=True) as folder:
        try:
            return await LOADS[name].run(size, Random(f"{seed}/{name}"), Path(folder))
        except Exception as broken:  # noqa: BLE001  # one broken experiment must not hide the others
            traceback.print_exc()
            return Result(name, "", problems=[f"it broke off: {type(broken).__name__}: {broken}"])


if __name__ == "__main__":
    sys.exit(main())
