"""The cost of one more subtask: steps, bytes, processor time, and the server's database requests by operation."""

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from temporalio.client import Client

from benchmarks import processes
from benchmarks.jobs import STEPS, Run, measure
from benchmarks.scripted import Shape
from benchmarks.speed import Side, workers_of
from benchmarks.tables import Row

_FEW, _MANY = Shape(subtasks=6), Shape(subtasks=36)
"""The jobs that are compared."""
_PAIRS: Final = 3
_SETTLING_SECONDS: Final = 11
"""By then, all heartbeat timeouts and those of tasks for a worker with a cached workflow have passed."""
_CPU, _REQUESTS = "processor, ms", "requests to the database"
_LEAST: Final = 0.5
"""Less frequent operations are not listed."""
_OWN, _CHILDREN, _PLAIN = "Chargehand", "by hand with children", "by hand"


async def subtask_steps() -> tuple[Sequence[Row], Sequence[str]]:
    """Compare jobs with few and with many subtasks, alternating on one server."""
    sides = [Side(_OWN, "own"), Side(_CHILDREN, "hand-written"), Side(_PLAIN, "hand-written", children=False)]
    seen: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        with processes.server(folder) as server, processes.provider(folder) as provider:
            client, wide = await Client.connect(server.address), processes.wide(folder)
            async with workers_of(sides, server.address, folder, provider, **wide) as workers:
                for _ in range(_PAIRS):
                    for side in sides:
                        pids = {"worker": workers[side.kind].process.pid, "server": server.process.pid}
                        run = await side.run(server.address, side.kind)
                        few, many = [await _taken(client, run, shape, pids) for shape in (_FEW, _MANY)]
                        for what in {**STEPS, **few, **many}:
                            more = many.get(what, 0) - few.get(what, 0)
                            seen[what][side.name].append(more / (_MANY.subtasks - _FEW.subtasks))
    rows = [_row(what, figures) for what, figures in seen.items()]
    own, children, plain = (median(seen[_CPU][side.name]) for side in sides)
    more = f"{_MANY.subtasks} and {_FEW.subtasks} subtasks, of turn, tool and turn; medians of {_PAIRS} pairs"
    alone = f"{children - plain:.0f} ms of processor, as much as {children / plain - 1:.1f} subtasks without one"
    times = f"{own / children:.2f} times that of by hand with children, {own / plain:.2f} times that without"
    return [row for row in rows if not _is_rare(row)], [
        f"the difference of jobs of {more}",
        f"a child alone, by hand: {alone}",
        f"Chargehand's processor time: {times}",
        f"each job includes the {_SETTLING_SECONDS} s after it, when the server's timers fire",
        "a tool call by hand is an activity; in Chargehand that of each third subtask, a web search, is one too",
    ]


async def _taken(client: Client, run: Run, shape: Shape, pids: Mapping[str, int]) -> Mapping[str, float]:
    """Run a job; return what it took by row name."""
    before = processes.persistence_requests(pids["server"])
    job = await measure(client, run, shape, pids, settling_seconds=_SETTLING_SECONDS)
    asked = processes.persistence_requests(pids["server"]) - before
    return {
        **job.steps,
        "history, kB": job.whole.bytes / 1_000,
        _CPU: sum(job.cpu.values()) * 1_000,
        **{f"of it the {name}'s": seconds * 1_000 for name, seconds in job.cpu.items()},
        _REQUESTS: asked.total(),
        **{f"of them {operation}": count for operation, count in asked.items()},
    }


def _row(what: str, figures: Mapping[str, Sequence[float]]) -> Row:
    return {"": what} | {side: median(figures[side] or [0.0]) for side in (_OWN, _CHILDREN, _PLAIN)}


def _is_rare(row: Row) -> bool:
    return str(row[""]).startswith("of them") and max(abs(float(row[each] or 0)) for each in row if each) < _LEAST
