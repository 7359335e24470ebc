"""`python -m benchmarks`: those that need no network, or the ones that are named."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from benchmarks import tables
from benchmarks.actions import actions
from benchmarks.documents import documents
from benchmarks.extractive import extractive
from benchmarks.growth import growth
from benchmarks.limits import limits
from benchmarks.main_job import main_job
from benchmarks.overhead import overhead
from benchmarks.peers.comparison import peers
from benchmarks.prompts import prompts
from benchmarks.tables import Row
from benchmarks.tokens import tokens
from benchmarks.tools import tools
from benchmarks.watchers import watchers

_OTHERS: Final[Mapping[str, tuple[str, Callable[[], Awaitable[tuple[Sequence[Row], Sequence[str]]]]]]] = {
    "growth": ("Growth with the number of subtasks and of turns", growth),
    "limits": ("Limits: larger grants, limits that bind, and the books themselves", limits),
    "extractive": ("Answers without a model: labelled questions over documents of this repository", extractive),
    "documents": ("Documents: an index beside bare SQLite, and hostile files", documents),
    "prompts": ("What the main job sends, in tokens by part", prompts),
    "tokens": ("Tokens by purpose: ten tasks of a competent model, written by hand, on a loopback web", tokens),
    "watchers": ("Followers of one session: what they cost the server, and its history", watchers),
    "peers": ("The main job in other frameworks, each in an environment of its own", peers),
    "actions": ("Actions of the main job, the unit that Temporal Cloud bills", actions),
    "tools": ("Tools that compute, in a child process each, beside the bare library", tools),
}
NAMES: Final = ("main_job", "overhead", *_OTHERS)
_NEEDS_THE_NETWORK: Final = "peers"


async def _measure(name: str, *, wire: bool, jobs: int) -> tuple[str, Sequence[Row], Sequence[str]]:
    if name == "main_job":
        reached = "over the wire, OpenAI's SDK" if wire else "in the worker's process"
        rows, notes = await main_job(wire=wire, jobs=jobs)
        return f"The main job: plan, 5 subtasks (turn, tool, turn), report; scripted model {reached}", rows, notes
    if name == "overhead":
        return "Around the work, in seconds", await overhead(), ()
    title, measured = _OTHERS[name]
    rows, notes = await measured()
    return title, rows, notes


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; by default all but {_NEEDS_THE_NETWORK}"
    )
    parser.add_argument(
        "--wire", action="store_true", help="main_job: reach the model through OpenAI's SDK on loopback"
    )
    parser.add_argument("--jobs", type=int, default=20, help="main_job: how many sessions are measured")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/NAME.json")
    chosen = parser.parse_args()
    if sys.platform != "linux":
        parser.error("processor time and memory of other processes are read as Linux shows them")
    unknown = set(chosen.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    for name in chosen.names or [name for name in NAMES if name != _NEEDS_THE_NETWORK]:
        wire = chosen.wire and name == "main_job"
        title, rows, notes = asyncio.run(_measure(name, wire=wire, jobs=chosen.jobs))
        command = f"python -m benchmarks {name}{' --wire' if wire else ''}"
        tables.show(title, command, rows, notes)
        if chosen.save:
            print(f"  kept in {tables.save(f'{name}_wire' if wire else name, command, rows, notes)}")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the SDK's own threads can abort a process that ends the ordinary way
