"""The page of results: figures are kept in a JSON file, one entry per experiment, and the page is built from it."""

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

See which sessions a crash, an outage or an operator's mistake loses, what is paid twice, and how long recovery takes.
"""

_TAIL: Final = """\
- *Under way*: model calls open at the moment of a fault.
- *Paid again*: charges for a step that was charged before. A call lost with its worker is paid again; a recorded reply
  never is.

## Method

Every experiment demands that each session ends in time in the report it has without faults, and that its books match
the provider's to the cent (a call of unknown fate is charged like its repetition).

Workers run as they ship, on the embedded server. A scripted provider behind the vendor's SDK logs what
it charges. A session is a plan, two subtasks with a web search each, and a report; where there are hundreds, a plan and
an answer. Seeds, loads and durations are in `benchmarks/results/durability.json`.

`make chaos` writes this page; `make chaos ARGS=NAME` runs one experiment, `--scale nightly` the longest ones.

Not tried: the loss of a host with its disk, a second server, a wrong clock on the server's host.
"""


def enter(name: str, result: Result, *, scale: Scale, seed: int) -> None:
    """Save the result of an experiment, replacing its previous one."""
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
    """Write the page from all saved results."""
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
    return "\n".join([_HEAD, summary, _table(shown).rstrip("\n"), *skipped, _TAIL])


def _entries() -> dict[str, Entry]:
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}


def _table(entries: Mapping[str, Entry]) -> str:
    lines = [
        "| experiment | sessions | faults | under way | paid again | measured |",
        "|---|--:|--:|--:|--:|---|",
        *(_line(name, entry) for name, entry in entries.items()),
    ]
    runs = sorted({_run(entry) for entry in entries.values()})
    return "\n".join([*lines, "", f"- Run on {'; '.join(runs)}."]) + "\n"


def _line(name: str, entry: Entry) -> str:
    measured = [f"{what}: {figure}" for what, figure in entry["figures"].items()]
    measured += [f"**broken**: {' '.join(problem.split())}" for problem in entry["problems"]]
    cells = [f"`{name}`: {entry['did'] or entry['name']}"]
    cells += [f"{entry[what]:,}" for what in ("sessions", "faults", "in_flight", "extra_calls")]
    cells.append("; ".join(measured))
    return f"| {' | '.join(cells)} |"


def _run(entry: Entry) -> str:
    return f"{entry['date'].split()[0]} at scale {entry['scale']} on {entry['cores']} cores"
