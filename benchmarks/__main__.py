"""`python -m benchmarks`: compares speed with hand-written workflows, or runs the named benchmarks."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from benchmarks import pages, tables
from benchmarks.actions import actions
from benchmarks.capacity.measured import capacity
from benchmarks.console import console
from benchmarks.documents import documents
from benchmarks.extractive import extractive
from benchmarks.growth import growth
from benchmarks.history import history
from benchmarks.idle import idle
from benchmarks.limits import limits
from benchmarks.overhead import overhead
from benchmarks.peers.comparison import peers
from benchmarks.prompts import prompts
from benchmarks.record import record
from benchmarks.reserves import reserves
from benchmarks.spans import spans
from benchmarks.speed import speed
from benchmarks.steps import subtask_steps
from benchmarks.tables import Row
from benchmarks.tenants import tenants
from benchmarks.throttling import throttling
from benchmarks.tokens import tokens
from benchmarks.tools import tools
from benchmarks.watchers import watchers

Measured = tuple[Sequence[Row], Sequence[str]] | tuple[Sequence[Row], Sequence[str], Row]
"""A table, its notes and, if other programs read them, individual figures."""
Benchmark = Callable[[argparse.Namespace], Awaitable[Measured]]
_BENCHMARKS: Final[Mapping[str, tuple[str, Benchmark]]] = {
    "speed": ("The main job beside workflows written by hand", lambda chosen: speed(chosen.jobs)),
    "steps": ("What one more subtask takes, beside workflows written by hand", lambda _: subtask_steps()),
    "history": ("Where the bytes of the main job's histories are", lambda _: history()),
    "capacity": ("Capacity: what to set for so many sessions a day", lambda _: capacity()),
    "overhead": ("Around the work, in seconds", lambda _: overhead()),
    "growth": ("Growth with the number of subtasks and of turns", lambda _: growth()),
    "idle": ("Open conversations that wait for their users; 50 times `--jobs`", lambda chosen: idle(50 * chosen.jobs)),
    "limits": ("Limits: larger grants, limits that bind, and the books themselves", lambda _: limits()),
    "extractive": (
        "Answers without a model: labelled questions over documents of this repository",
        lambda _: extractive(),
    ),
    "documents": ("Documents: an index beside bare SQLite, and hostile files", lambda _: documents()),
    "prompts": ("What the main job sends, in tokens by part", lambda _: prompts()),
    "tokens": (
        "Tokens by purpose: ten tasks of a competent model, written by hand, on a loopback web",
        lambda _: tokens(),
    ),
    "reserves": ("Reserves over costs, and replies that are cut off, by ways to choose a cap", lambda _: reserves()),
    "watchers": ("Followers of one session: what they cost the server, and its history", lambda _: watchers()),
    "console": ("The console's list of 5,000 sessions", lambda _: console()),
    "throttling": ("Many at once at a provider that throttles, beside workflows by hand", lambda _: throttling()),
    "tenants": ("Tenants: the first turn of a session beside a flood of another tenant", lambda _: tenants()),
    "peers": ("The main job in other frameworks, each in an environment of its own", lambda _: peers()),
    "actions": ("Actions of the main job, the unit that Temporal Cloud bills", lambda _: actions()),
    "record": ("The record of effects and charges outside Temporal: what an entry costs", lambda _: record()),
    "spans": ("The main job with spans and without", lambda _: spans()),
    "tools": ("Tools that compute, in a child process each, beside the bare library", lambda _: tools()),
}


def main() -> None:
    """Measure, print and, on request, save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", default=["speed"], metavar="NAME", help=f"of {', '.join(_BENCHMARKS)}")
    parser.add_argument("--jobs", type=int, default=20, help="speed: how many jobs of each kind run one after another")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/NAME.json")
    chosen = parser.parse_args()
    if sys.platform != "linux":
        parser.error("processor time and memory of other processes are read as Linux shows them")
    if unknown := set(chosen.names) - set(_BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(_BENCHMARKS)}")
    for name in chosen.names:
        title, benchmark = _BENCHMARKS[name]
        rows, notes, *figures = asyncio.run(_measure(benchmark, chosen))
        command = f"python -m benchmarks {name}"
        tables.show(title, command, rows, notes)
        if chosen.save:
            file = tables.save(name, command, rows, notes, *figures)
            print(f"  kept in {file}")
            if page := pages.write(name, json.loads(file.read_text())):
                print(f"  stated in {page}")


async def _measure(benchmark: Benchmark, chosen: argparse.Namespace) -> Measured:
    return await benchmark(chosen)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the SDK's own threads can abort a process that exits normally
