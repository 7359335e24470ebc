"""The child's side of a limited process: what it may use, and how it answers.

Runs in the child only. Imports nothing beyond the standard library, so that a child starts at once.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

_Item = TypeVar("_Item")

_PR_SET_PDEATHSIG: Final = 1
_SECONDS_A_PIECE: Final = 0.05
"""Of a processor's time; pieces are measured so that five to ten of an honest document's take as long."""


def confine(memory_bytes: int, file_bytes: int) -> None:
    """Limit this process for the rest of its life, and let it die with its parent."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, file_bytes)
    _limit(resource.RLIMIT_AS, memory_bytes)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def allow_processor_seconds(seconds: float) -> None:
    """Limit processor time from here on; the process is killed when it is used up."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (int(_used_seconds() + seconds) + 1, hard))


class Allowance:
    """Processor time that grows with what it brings: little for work that brings nothing, more for work that is large.

    The process is killed when it is used up.
    """

    def __init__(self, first_seconds: float, most_seconds: float) -> None:
        """Begin: `first_seconds` is the longest until the first piece and between two, `most_seconds` for all."""
        self._began = _used_seconds()
        self._first = first_seconds
        self._most = most_seconds
        self._pieces = 0
        self.note(0)

    def note(self, pieces: int = 1) -> None:
        """Say that pieces of the work are done: a page, a thousand lines."""
        self._pieces += pieces
        used = _used_seconds() - self._began
        earned = self._first + self._pieces * _SECONDS_A_PIECE
        allow_processor_seconds(min(earned, self._most, used + self._first) - used)

    def over(self, items: Iterable[_Item], piece: int = 1) -> Iterator[_Item]:
        """Hand out items, and note a piece after each so many of them."""
        for number, item in enumerate(items, 1):
            yield item
            if not number % piece:
                self.note()


def serve(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer one JSON line for each JSON line, until the parent closes the pipe.

    Whatever a library prints goes nowhere, since it would break the protocol.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(handle(json.loads(line))) + "\n")
        answers.flush()


def _used_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _limit(which: int, value: int) -> None:
    # A system that does not know a limit (RLIMIT_AS on macOS) still has the parent's clock.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (value, value))
