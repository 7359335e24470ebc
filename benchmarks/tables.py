"""How results are shown and saved: small tables, and one JSON file per benchmark."""

import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

Cell = str | float | int | None
Row = Mapping[str, Cell]

_RESULTS: Final = Path(__file__).resolve().parent / "results"


def machine() -> dict[str, Cell]:
    """Describe the machine that was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "load": round(os.getloadavg()[0], 1),
        "loop_ms": round(min(_loop_ms() for _ in range(5)), 1),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _loop_ms() -> float:
    """Time a fixed piece of work, to make processor times of different or busy machines comparable."""
    before = time.process_time()
    sum(number * number for number in range(1_000_000))
    return (time.process_time() - before) * 1_000


def show(title: str, command: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
    """Print a table under its date, machine and command."""
    told = machine()
    print(f"\n{title}")
    print(f"  {datetime.now(UTC):%Y-%m-%d %H:%M} UTC · {command}")
    print(
        f"  {told['cores']} cores (load {told['load']}, a million squares in {told['loop_ms']} ms) · "
        f"{told['memory_gb']} GB · Python {told['python']} · {told['system']}"
    )
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, *([written(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[position]) for line in lines) for position in range(len(columns))]
    for line in lines:
        cells = [
            cell.ljust(width) if position == 0 else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print(f"  {'  '.join(cells)}".rstrip())
    for note in notes:
        print(f"  {note}")
    sys.stdout.flush()


def save(name: str, command: str, rows: Sequence[Row], notes: Sequence[str] = (), figures: Row | None = None) -> Path:
    """Write a table to benchmarks/results/NAME.json, with the figures that other programs read from it."""
    _RESULTS.mkdir(exist_ok=True)
    file = _RESULTS / f"{name}.json"
    kept = {
        "benchmark": name,
        "measured_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "machine": machine(),
        "command": command,
        "rows": [dict(row) for row in rows],
        "notes": list(notes),
        **({"figures": dict(figures)} if figures else {}),
    }
    file.write_text(json.dumps(kept, indent=2) + "\n")
    return file


def written(value: Cell) -> str:
    """Format a value with a sensible number of digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value
