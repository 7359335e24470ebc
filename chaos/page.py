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

Written by `make chaos` (`python -m chaos --write docs/durability.md`); edit the experiments in `chaos/`,
not this page. Each experiment runs workers as they ship (`worker_main.py`, processes of their own), the embedded
Temporal server on its database, and a scripted provider behind the vendor's own SDK, whose log of requests says what
was charged. A session here is a plan, two subtasks with a web search each, and a report: six model calls. Where there
are hundreds at once it is the smallest there is: a plan and one answer.

Experiments whose figures are times run alone, the others three at a time; the load that stands beside each is that of
its last minute.

In every experiment the following must hold, or it counts as broken:

- **Lost: 0.** Every session ends, and in the report that it has without faults.
- **Stuck: 0.** None still runs when the experiment's time is over.
- **Books to the cent.** What a session knows to have spent is what the provider charged for its steps; a call whose
  unknown fate is charged like its repetition and named in `possibly_billed_twice_usd`, which covers every charge
  that was made twice.
- **The faults happened, and enough sessions succeeded**, so that an experiment cannot hold by doing nothing.

*Extra calls* are charges for a step that had been charged before; *under way* counts the model calls that were open at
the moment of the faults. A call that is lost with its worker is paid again, which no client can avoid unless its
provider keeps replies; a reply that was recorded never is.
"""

_TAIL: Final = """\
## Shown elsewhere, or not at all

- A bug in an adapter: `tests/workflows/test_wasted_calls.py`. A worker without the key of encrypted payloads, and a
  key that is replaced: `tests/workflows/test_protected_sessions.py`. A provider that fails in every way:
  `tests/workflows/test_recovering.py` and `tests/activities/`. Crashes at every step, on a simulated server:
  `tests/simulation/`.
- `--scale nightly` takes hours and is larger: 1,000 sessions under random kills every 5–40 s, 10,000 sessions
  queued at once, the server killed 50 times, cuts of 120 s. The embedded server on two cores carries
  a few sessions a second, which is what bounds them.
- A worker's clock is made wrong by a library that is compiled on the spot and loaded before the worker. The clock
  of the server's host is not touched: it is the one that sessions go by.
- The buttons of the Web UI make the calls that the `temporal` program makes here; a browser presses them in
  `tests/browser`. What is
  killed is always a process: a whole host, its disk included, is not lost here, and there is no second server.
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
    broken = [name for name, entry in shown.items() if entry["problems"]]
    summary = (
        f"{len(shown)} experiments, {sum(entry['sessions'] for entry in shown.values()):,} sessions, "
        f"{sum(entry['faults'] for entry in shown.values()):,} faults: "
        f"{sum(entry['lost'] for entry in shown.values())} lost, "
        f"{sum(entry['stuck'] for entry in shown.values())} stuck, "
        f"{len(broken) or 'no'} experiment(s) broken."
    )
    parts = [_HEAD, f"**{summary}**\n", _table(shown), "## Each experiment\n"]
    parts += [_section(name, entry) for name, entry in shown.items()]
    parts += [f"`{name}` did not run: {entry['skipped']}.\n" for name, entry in entries.items() if entry["skipped"]]
    parts.append(_TAIL)
    return "\n".join(parts)


def _entries() -> dict[str, Entry]:
    return json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}


def _table(entries: Mapping[str, Entry]) -> str:
    lines = [
        "| experiment | sessions | faults | lost | stuck | under way | extra calls | books | verdict |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for name, entry in entries.items():
        books = "differ" if entry["books"] else "equal"
        verdict = "**broken**" if entry["problems"] else "held"
        lines.append(
            f"| [{entry['name']}](#{name}) | {entry['sessions']} | {entry['faults']} | {entry['lost']} | "
            f"{entry['stuck']} | {entry['in_flight']} | {entry['extra_calls']} | {books} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def _section(name: str, entry: Entry) -> str:
    measured = (
        f"- {entry['date']}, scale {entry['scale']}, seed {entry['seed']}, {entry['cores']} cores at load "
        f"{entry['load']}, {entry['seconds']:.0f} s"
    )
    did = entry["did"] or entry["name"]
    lines = [f"### {name}\n", f"{did[0].upper()}{did[1:]}.\n", measured]
    lines += [f"- {what}: {figure}" for what, figure in entry["figures"].items()]
    lines += [f"- **broken**: {' '.join(problem.split())}" for problem in entry["problems"]]
    return "\n".join(lines) + "\n"
