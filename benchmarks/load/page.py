"""The page about load: figures are kept in a JSON file, one entry per experiment, and the page built from it."""

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.tables import machine
from chaos.result import Result

_ROOT: Final = Path(__file__).resolve().parents[2]
_FIGURES: Final = _ROOT / "benchmarks" / "results" / "load.json"
_PAGE: Final = _ROOT / "docs" / "load.md"
_HEAD: Final = """\
# Load, measured

See what happens beyond the capacity, under faults, and for a long time.
"""
_ASIDE: Final = ("processor time of other", "server, open", "server, threads", "worker, children", "worker, open")
"""Figures omitted from the page: they are part of the verdict and in the results file."""
_TAIL: Final = """
## Method

Workers as they ship, the embedded server and a scripted provider that keeps books share one machine. Unless said
otherwise a session is a plan, two subtasks with a web search each, and a report. Every experiment demands that no
session is lost or stuck and that spend matches what the provider charged. A soak's series give the first value, the
mean of the last half and the most; then the change over the last half. `benchmarks/results/load.json` has all figures.
`make load ARGS=--save` writes this page; `--nightly` runs larger sizes.
"""


def enter(name: str, result: Result, *, size: str, asked: str, seed: int) -> None:
    """Save the result of an experiment, replacing its previous one, and write the page."""
    entries: dict[str, dict[str, Any]] = json.loads(_FIGURES.read_text(encoding="utf-8")) if _FIGURES.exists() else {}
    about = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "size": size,
        "asked": asked,
        "seed": seed,
    }
    entries[name] = about | asdict(result)
    _FIGURES.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _PAGE.write_text(page(entries), encoding="utf-8")


def page(entries: dict[str, dict[str, Any]]) -> str:
    """Return the page, with the experiments in the order in which they are requested."""
    entries = dict(sorted(entries.items(), key=lambda each: each[1]["asked"]))
    lines = [
        _HEAD,
        "| experiment | sessions | lost | stuck | asked | verdict | measured |",
        "|---|--:|--:|--:|---|---|---|",
    ]
    for name, entry in entries.items():
        verdict = f"**missed**: {' '.join(' '.join(entry['problems']).split())}" if entry["problems"] else "held"
        measured = [f"{what}: {figure}" for what, figure in entry["figures"].items() if not what.startswith(_ASIDE)]
        measured.append(f"load of the machine: {entry['load']}")
        lines.append(
            f"| `{name}`: {entry['did']} | {entry['sessions']:,} | {entry['lost']} | {entry['stuck']} | "
            f"{entry['asked']} | {verdict} | {'; '.join(measured)} |"
        )
    runs = sorted({f"{entry['date'].split()[0]} on {entry['machine']['cores']} cores" for entry in entries.values()})
    lines.append(f"\nRun on {', '.join(runs)}.")
    return "\n".join(lines) + "\n" + _TAIL
