"""What processes and folders hold over time, and whether it levels off."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import linear_regression, mean

Samples = Sequence[tuple[float, float]]
"""Seconds since the beginning, and what was held then."""


def resident_mb(pid: int) -> float:
    """Read the memory that a process has resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def descriptors(pid: int) -> int:
    """Count the open files and connections of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def threads(pid: int) -> int:
    """Count the threads of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def children(pid: int) -> list[int]:
    """List the processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def stored_mb(*paths: Path) -> float:
    """Sum up the files below folders; a file that goes meanwhile counts for nothing."""
    files = (file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]))
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total / 1e6


def growth_per_hour(samples: Samples) -> float:
    """Give the growth over the second half in percent of its mean an hour, by least squares; 0 for a single sample."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return 0.0
    seconds, held = zip(*half, strict=True)
    level = mean(held)
    return linear_regression(seconds, held).slope * 3_600 / level * 100 if level else 0.0


def change(samples: Samples) -> float:
    """Give by what share of its mean the line through the second half rises from its beginning to its end."""
    half = samples[len(samples) // 2 :]
    return growth_per_hour(samples) / 100 * (half[-1][0] - half[0][0]) / 3_600
