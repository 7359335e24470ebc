"""Counts by name, for texts. Pure."""

from collections import Counter
from typing import Final

_MOST_NAMES: Final = 8


def by_name(counts: Counter[str]) -> str:
    """List counts, the largest first: `logic 5, style 2`; the smallest of many are one count."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    listed = [f"{name or 'no file'} {count}" for name, count in ordered[:_MOST_NAMES]]
    others = sum(count for _, count in ordered[_MOST_NAMES:])
    return ", ".join([*listed, *([f"others {others}"] if others else [])])
