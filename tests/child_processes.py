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


def is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
