"""The pages that state figures: a text around the table and the notes of a benchmark that was kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.tables import Row, written

_DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
_SPEED: Final = """\
# Speed, measured

Written by `make bench ARGS="speed --save"`; edit `benchmarks/speed.py`, not this page. The job: a plan, five subtasks
of turn, tool and turn, a report, and a turn that checks it; 200 ms a turn, 100 ms a tool, so 1.1 s at best. The model
is scripted, and reached by OpenAI's SDK over loopback. Beside Chargehand stands the same job in workflows written by
hand, by turns on the same embedded server, with a worker process each. On a machine that others use as well (`load`),
compare columns, not runs. What one more subtask takes, step by step, is [a page of its own](steps.md).
"""
_STEPS: Final = """\
# What one more subtask takes

Written by `make bench ARGS="steps --save"`; edit `benchmarks/steps.py`, not this page. A subtask of the job of
[speed](speed.md), beside the same in workflows written by hand, on the same server in the same run: what stands in all
histories, the processor time of worker and server, and how often the server asks its database, by its own metrics.
"""
_CAPACITY: Final = """\
# Capacity: what to set for so many sessions a day

Written by `make bench ARGS="capacity --save"`, which measures what one session costs on this machine and computes the
rest; edit `benchmarks/capacity/`, not this page. A session is the job of [speed](speed.md): a plan, five subtasks of
turn, tool and turn, a report.
"""
_CAPACITY_TAIL: Final = """
## What the table assumes

The busiest second has four times the sessions of the average one. A turn takes 8 s and a tool 2 s. One session in
twenty waits four hours for a person. Ended sessions are kept for 7 days. A write of the server's database takes 5 ms.
Cores are planned to be 60 % busy at the peak, and one worker process may be gone. `Demand` in
`benchmarks/capacity/model.py` has these numbers; compute your own with

```python
from dataclasses import replace

from benchmarks.capacity.measured import kept_cost
from benchmarks.capacity.model import Demand, setup

cost = kept_cost()  # of the last run with --save
print(setup(cost, Demand(sessions_a_day=50_000, turn_seconds=20, retention_days=30)))
print(setup(replace(cost, turns=40, tools=60), Demand(sessions_a_day=50_000)))
```

Server cores are those of the embedded server, which does all in one process on SQLite; a cluster on Postgres takes
more for each write, and its services scale apart. Take the column as a lower bound, and measure yours.

## What to set

- **Worker processes.** A worker uses little more than one core. Start as many processes as the table says, on as many
  hosts as you like; each needs the memory of an idle one (see [speed](speed.md)) and *MB more each*. Scale by
  `temporal_workflow_task_schedule_to_start_latency`, and by the backlog of the task queue.
- **Slots.** `CHARGEHAND_MAX_ACTIVITIES` bounds the turns and tools under way in one process. They wait for others, so
  slots cost memory and little else. Sessions themselves need none while they wait.
- **Pollers.** A worker has 20 activity pollers, each of which fetches a task in a few milliseconds: far more than a
  core's worth of turns.
- **Waiting sessions** stay in memory, up to 1,000 a process; those beyond are replayed when something happens.
- **History shards** (`numHistoryShards`) can never be changed. 512 carry a million sessions a day; take more only if
  the table says so.
- **Task queue partitions** (`matching.numTaskqueueReadPartitions`, `matching.numTaskqueueWritePartitions`): 4 is the
  default, and enough below some 800 tasks a second.
- **`frontend.namespaceRPS`** (2,400 for each frontend by default): twice *requests/s*, divided by the frontends.
  Waiting for results and following sessions comes on top.
- **Temporal Cloud** [bounds](how-to/temporal-cloud.md#limits-that-matter) the actions, requests and pollers of a
  namespace, and follows its use of the last seven days; ask for more before a launch, or buy provisioned capacity.
  Heartbeats are actions too, one a second of each call: most of *actions/s*, where turns are long.
- **Postgres.** *writes/s* are state transitions, each a transaction of several statements. Above some 2,000 a second
  give it a host of its own with fast disks, and visibility a database of its own. Its size is *database, GB*: lower
  the retention before you buy disks, since reports can be kept elsewhere (`chargehand run` does,
  [webhooks](how-to/slack-and-webhooks.md) can).

[Load](load.md) shows what happens beyond the capacity: sessions queue, none is lost.
"""
_PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "speed": (_SPEED, ""),
    "steps": (_STEPS, ""),
    "capacity": (_CAPACITY, _CAPACITY_TAIL),
}


def write(name: str, kept: Mapping[str, Any]) -> Path | None:
    """Write the page of a benchmark from what was kept of it; None if it has no page."""
    if name not in _PAGES:
        return None
    head, tail = _PAGES[name]
    on = ", ".join(f"{what} {value}" for what, value in kept["machine"].items())
    notes = [f"- {note[0].upper()}{note[1:]}." for note in kept["notes"]]
    lines = [head, f"{kept['measured_at']}: {on}.\n", *_table(kept["rows"]), "", *notes]
    page = _DOCS / f"{name}.md"
    page.write_text("\n".join(lines) + "\n" + tail, encoding="utf-8")
    return page


def _table(rows: Sequence[Row]) -> list[str]:
    columns = list(rows[0])
    return [
        f"| {' | '.join(columns)} |",
        f"|---|{'--:|' * (len(columns) - 1)}",
        *(f"| {' | '.join(written(row[name]) for name in columns)} |" for row in rows),
    ]
