"""The page of results: figures are kept in a JSON file, an entry an experiment, and the page is written from it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from chaos.result import Result, Scale

FIGURES: Final = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "durability.json"
Entry = dict[str, Any]

_HEAD: Final = """\
# Durability, measured

What a crash, an outage or a mistake in operation costs: which sessions are lost, what is paid twice, how long it takes
until work goes on. `make chaos` (`python -m chaos --write docs/durability.md`) writes this page from the experiments
in `chaos/`.
"""

_TAIL: Final = """\
## What had to hold

- **None lost**: every session ended, in the report that it has without faults. **None stuck**: none still ran when the
  experiment's time was over.
- **Books to the cent**: what a session knows to have spent is what the provider charged for its steps; a call of
  unknown fate is charged like its repetition, and named in `possibly_billed_twice_usd`.
- **The faults happened, and enough sessions succeeded**, so that no experiment can hold by doing nothing.

*Under way*: model calls that were open at the moment of the faults. *Paid again*: charges for a step that had been
charged before. A call that is lost with its worker is paid again, which no client can avoid unless its provider keeps
replies; a reply that was recorded never is.

## How

Workers as they ship (`worker_main.py`, processes of their own), the embedded server on its database, and a scripted
provider behind the vendor's own SDK, whose log of requests says what was charged. A session is a plan, two subtasks
with a web search each, and a report: six model calls; in hundreds, a plan and one answer. Experiments whose figures are
times run alone, the others three at a time; *load* is that of their last minute. A worker's clock is made wrong by a
library that is loaded before it.

## Shown elsewhere, or not at all

- A bug in an adapter: `tests/workflows/test_wasted_calls.py`. Keys of encrypted payloads, missing and replaced:
  `tests/workflows/test_protected_sessions.py`. A provider that fails in every way: `tests/workflows/test_recovering.py`
  and `tests/activities/`. Crashes at every step, on a simulated server: `tests/simulation/`. The buttons of the Web UI:
  `tests/browser`.
- `--scale nightly` takes hours: 1,000 sessions under random kills, 10,000 queued at once, the server killed 50 times.
- What is killed is always a process. A whole host with its disk, a second server, and the clock of the server's host
  are not tried.
"""


def enter(name: str, result: Result, *, scale: Scale, seed: int) -> None:
    """Keep the result of an experiment, in the place of its last one."""
    entries = _entries()
    about = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "scale": scale,
        "seed": seed,
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }
    entries[name] = about | asdict(result)
    FIGURES.write_text(json.dumps(entries, indent=2, sort_keys=True, default=str) + "\n", encoding="utf-8")


def page() -> str:
    """Write the page from all results that are kept."""
    entries = _entries()
    shown = {name: entry for name, entry in entries.items() if not entry["skipped"]}
    counts = {what: sum(entry[what] for entry in shown.values()) for what in ("sessions", "faults", "lost", "stuck")}
    broken = sum(bool(entry["problems"]) for entry in shown.values())
    equal = "all" if not (differ := sum(bool(entry["books"]) for entry in shown.values())) else len(shown) - differ
    summary = (
        f"**{len(shown)} experiments, {counts['sessions']:,} sessions, {counts['faults']:,} faults: "
        f"{counts['lost']} lost, {counts['stuck']} stuck, books equal in {equal}, "
        f"{broken or 'none'} broken.**\n"
    )
    skipped = [f"`{name}` did not run: {entry['skipped']}.\n" for name, entry in entries.items() if entry["skipped"]]
    return "\n".join([_HEAD, summary, _table(shown), *skipped, _TAIL])


def _entries() -> dict[str, Entry]:
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}


def _table(entries: Mapping[str, Entry]) -> str:
    lines = [
        "| experiment (`make chaos ARGS=NAME`) | sessions | faults | under way | paid again | measured | run |",
        "|---|--:|--:|--:|--:|---|---|",
        *(_line(name, entry) for name, entry in entries.items()),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, entry: Entry) -> str:
    measured = [f"{what}: {figure}" for what, figure in entry["figures"].items()]
    measured += [f"**broken**: {' '.join(problem.split())}" for problem in entry["problems"]]
    run = f"{entry['date'].split()[0]}, {entry['scale']}, seed {entry['seed']}, {entry['cores']} cores"
    cells = [f"`{name}`: {entry['did'] or entry['name']}"]
    cells += [f"{entry[what]:,}" for what in ("sessions", "faults", "in_flight", "extra_calls")]
    cells += ["; ".join(measured), f"{run}, load {entry['load']}, {entry['seconds']:.0f} s"]
    return f"| {' | '.join(cells)} |"
