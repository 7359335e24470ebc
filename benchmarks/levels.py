"""Resources that processes and folders use over time, and whether they level off."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import linear_regression, mean

Samples = Sequence[tuple[float, float]]
"""Pairs of seconds since the start and the amount in use at that time."""


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def descriptors(pid: int) -> int:
    """Count the open files and connections of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def threads(pid: int) -> int:
    """Count the threads of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def children(pid: int) -> list[int]:
    """List the child processes of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def stored_mb(*paths: Path) -> float:
    """Return the total MB of the files below folders; files deleted meanwhile count as 0."""
    files = (file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]))
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total / 1e6


def growth_per_hour(samples: Samples) -> float:
    """Return the growth over the second half, in percent of its mean per hour, by least squares; 0 for one sample."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return 0.0
    seconds, held = zip(*half, strict=True)
    level = mean(held)
    return linear_regression(seconds, held).slope * 3_600 / level * 100 if level else 0.0


def change(samples: Samples) -> float:
    """Return the rise of the line through the second half, from start to end, as a share of its mean."""
    half = samples[len(samples) // 2 :]
    return growth_per_hour(samples) / 100 * (half[-1][0] - half[0][0]) / 3_600
