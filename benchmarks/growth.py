"""How cost grows with the number of parallel subtasks, and with the turns of each, which read 5 kB per round."""

import os
import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.curves import describe, exponent
from benchmarks.jobs import Measured, measure, one_worker, own_runs
from benchmarks.scripted import Shape
from benchmarks.tables import Row

_WIDTHS: Final = (5, 20, 100)
_TURNS: Final = (2, 5, 10, 20)
_READ_BYTES: Final = 5_000
_REPETITIONS: Final = 3


async def growth() -> tuple[Sequence[Row], Sequence[str]]:
    """Measure jobs of increasing width, then of increasing length, and describe how each quantity grows."""
    wider = [Shape(subtasks=width) for width in _WIDTHS]
    longer = [Shape(rounds=turns - 1, read_bytes=_READ_BYTES) for turns in _TURNS]
    async with one_worker() as (chargehand, pids):
        run = own_runs(chargehand)
        pids |= {"client": os.getpid()}
        await measure(chargehand.client, run, Shape(), {})
        rows = {
            shape: _row(shape, [await measure(chargehand.client, run, shape, pids) for _ in range(_REPETITIONS)])
            for shape in [*wider, *longer]
        }
    notes = [
        *_notes("subtasks", _WIDTHS, [rows[shape] for shape in wider], ("history bytes, parent", "events, parent")),
        *_notes(
            "turns a subtask",
            _TURNS,
            [rows[shape] for shape in longer],
            ("history bytes, subtask", "events, subtask", "events, parent"),
        ),
    ]
    return list(rows.values()), notes


def _row(shape: Shape, jobs: Sequence[Measured]) -> Row:
    wall = statistics.median(job.wall.total_seconds() for job in jobs)
    return {
        "subtasks x turns": f"{shape.subtasks} x {shape.rounds + 1}",
        "read, bytes a round": shape.read_bytes,
        "wall, ms": wall * 1_000,
        "wall/ideal": wall / shape.ideal.total_seconds(),
        "CPU client+worker, ms": statistics.median(job.cpu["client"] + job.cpu["worker"] for job in jobs) * 1_000,
        "CPU server, ms": statistics.median(job.cpu["server"] for job in jobs) * 1_000,
        "events, parent": max(job.parent.events for job in jobs),
        "history bytes, parent": max(job.parent.bytes for job in jobs),
        "events, subtask": max(job.child.events for job in jobs),
        "history bytes, subtask": max(job.child.bytes for job in jobs),
    }


def _notes(cause: str, sizes: Sequence[int], rows: Sequence[Row], grows: Sequence[str]) -> list[str]:
    notes: list[str] = []
    for quantity in (*grows, "CPU client+worker, ms"):
        points = [(size, float(row[quantity] or 0)) for size, row in zip(sizes, rows, strict=True)]
        last = (points[0], points[-2], points[-1])
        notes.append(f"{quantity}, by {cause}: {describe(last)}; exponent {exponent(points[1:]):.2f}")
    return notes
