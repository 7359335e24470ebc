"""The pages of figures: text around the table and notes of a saved benchmark."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.tables import Row, written

_DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
_RANGE: Final = ": range"
_SPEED: Final = """\
# Speed, measured

See what Chargehand adds to a job, compared with the same job in hand-written Temporal workflows.
"""
_SPEED_TAIL: Final = """
## What keeps it from the bars

- **Jobs at once, and width**: a child workflow for each subtask, with its own history, cancel, reset and
  loop guard. It adds 0.7 times the subtask's own time (`make bench ARGS=steps`); by hand, too, jobs
  with children reach 0.4 times the rate of jobs without.
- **History**: Temporal writes 16 of the 85 kB around the payloads, and an outcome stands in its turn, in its subtask's
  result and in the session's copy, 20 kB together. Computed, not built: compressing what only workers read, from 1 KiB
  on, leaves 63 kB, and the Web UI then needs a codec server; with the report, and from 512 bytes on, 50. Outcomes by
  reference leave 79, and every report then needs a store beside Temporal.

## At a provider that throttles

| sessions at once, turns, faults | Chargehand, s | by hand, s | ratio | asked |
|---|--:|--:|--:|--:|
| 20, 0.2 s, 3 % 429 | 11 | 5.8 | 1.91 | 1.25 |
| 20, 5 s, 3 % 429 | 33 | 31 | 1.06 | 1.25 |
| 20, 20 s, 3 % 429 | 109 | 106 | 1.03 | 1.25 |
| 40, 0.2 s, 30 % 429 and 500 | 33 | 45 | 0.74 | 1.50 |
| 40, 5 s, none | 39 | 43 | 0.91 | 1.25 |
| 20, 0.2 s, the provider down for 60 s | 73 | 68 | 1.07 | 1.25 |

No reply was paid twice. While the provider was down, Chargehand sent 14 calls, by hand 300. Once each
(`make bench ARGS=throttling`), on 2026-11-28, 2 cores at load 1.9.

## Method

A job is a plan, five subtasks of turn, tool and turn, a report, and a turn that checks it: 200 ms a turn, 100 ms a
tool, 1.1 s at best. A scripted model answers OpenAI's SDK over loopback. All variants take turns on one embedded
server, each with its own worker process. `make bench ARGS="speed --save"` writes this page.
"""
_CAPACITY: Final = """\
# Capacity

Choose workers, slots and server settings for a number of sessions a day.
"""
_CAPACITY_TAIL: Final = """
## What to set

- **Worker processes**: one uses little more than a core, and needs the
  memory of an idle worker ([speed](speed.md)) and *MB more each*. Scale by
  `temporal_workflow_task_schedule_to_start_latency` and queue backlog.
- **`CHARGEHAND_MAX_ACTIVITIES`**: turns and tools under way in a process. They mostly wait; waiting sessions need none.
- **Cached sessions**: up to 1,000 waiting ones stay in a process's memory; others are replayed when something
  happens.
- **`numHistoryShards`**: cannot be changed later; 512 carry a million sessions a day.
- **`frontend.namespaceRPS`**: twice *requests/s*, divided by the frontends (default: 2,400 for each), plus result
  waits and followers.
- **Temporal Cloud**: ask for [higher limits](how-to/temporal-cloud.md#limits-that-matter) before a launch.
  Heartbeats, one a second of each call, are most of *actions/s* where turns are long.
- **Postgres**: above some 2,000 *writes/s* use a host of its own with fast disks and a separate visibility database;
  shorten the retention before you buy disks.

Beyond its capacity a worker [queues sessions and loses none](load.md).

## Method

A session is the [speed](speed.md) job. `Demand` in `benchmarks/capacity/model.py` assumes a peak of four times the
average, 8 s a turn, 2 s a tool, and one session in twenty waiting four hours for a person. Compute your own:

```python
from dataclasses import replace

from benchmarks.capacity.measured import kept_cost
from benchmarks.capacity.model import Demand, setup

cost = kept_cost()  # of the last run with --save
print(setup(cost, Demand(sessions_a_day=50_000, turn_seconds=20, retention_days=30)))
print(setup(replace(cost, turns=40, tools=60), Demand(sessions_a_day=50_000)))
```

Server cores are those of the embedded server on SQLite, a lower bound for a cluster on Postgres.
`make bench ARGS="capacity --save"` writes this page.
"""
WRITTEN: Final[Mapping[str, tuple[str, str]]] = {
    "speed": (_SPEED, _SPEED_TAIL),
    "capacity": (_CAPACITY, _CAPACITY_TAIL),
}


def write(name: str, kept: Mapping[str, Any]) -> Path | None:
    """Write the page of a benchmark from its saved results; None if it has no page."""
    if name not in WRITTEN:
        return None
    file = _DOCS / f"{name}.md"
    file.write_text(page(name, kept), encoding="utf-8")
    return file


def page(name: str, kept: Mapping[str, Any]) -> str:
    """Return the page: its table, the notes, and finally the machine and method."""
    head, tail = WRITTEN[name]
    on = ", ".join(f"{what} {value}" for what, value in kept["machine"].items())
    notes = [f"- {note[0].upper()}{note[1:]}." for note in kept["notes"]]
    return "\n".join([head, *_table(kept["rows"]), "", *notes, f"- {kept['measured_at']}: {on}."]) + "\n" + tail


def _table(rows: Sequence[Row]) -> list[str]:
    columns = [name for name in rows[0] if not name.endswith(_RANGE)]
    return [
        f"| {' | '.join(columns)} |",
        f"|---|{'--:|' * (len(columns) - 1)}",
        *(f"| {' | '.join(_cell(row, name) for name in columns)} |" for row in rows),
    ]


def _cell(row: Row, name: str) -> str:
    """Format a figure, with its range if that adds information."""
    figure, span = written(row[name]), row.get(f"{name}{_RANGE}")
    return figure if span in {None, f"{figure}–{figure}"} else f"{figure} ({span})"
