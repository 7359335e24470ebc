"""The processes that a test has started."""

import os
from contextlib import suppress
from pathlib import Path


def children(mark: str) -> set[int]:
    """Find the running children of this process that have the mark in their name or command line."""
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, _, rest = (process / "stat").read_text().rpartition(")")
            state, parent = rest.split()[:2]
            is_child = parent == str(os.getpid()) and state != "Z"
            if is_child and mark in f"{name} {(process / 'cmdline').read_text()}":
                found.add(int(process.name))
    return found
