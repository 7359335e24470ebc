"""What the children of this process, and the process itself, need for a document."""

import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MOST_CHILD_KB: Final = 512 << 10
MOST_GROWTH_KB: Final = 64 << 10


class Watch:
    """The most memory that a child of this process has held, and the worker's own growth."""

    def __init__(self) -> None:
        self.child_kb = 0
        self.growth_kb = 0


@contextmanager
def watched() -> Generator[Watch]:
    """Look at the children's high-water marks, where the system is Linux and keeps them."""
    watch, over = Watch(), threading.Event()
    here = Path("/proc/self")
    before = _kb(here, "VmRSS")

    def look() -> None:
        while not over.wait(0.01):
            watch.growth_kb = max(watch.growth_kb, _kb(here, "VmRSS") - before)
            for children in Path("/proc/self/task").glob("*/children"):
                for child in _read(children).split():
                    watch.child_kb = max(watch.child_kb, _high_water_kb(Path("/proc") / child))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _high_water_kb(process: Path) -> int:
    # Until its program is loaded, a child shares the memory of its parent.
    if "parser_process" not in _read(process / "cmdline"):
        return 0
    return _kb(process, "VmHWM")


def _kb(process: Path, field: str) -> int:
    lines = dict(line.split(":", 1) for line in _read(process / "status").splitlines() if ":" in line)
    return int(lines.get(field, "0 kB").split()[0])


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
