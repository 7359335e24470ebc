"""The child's side of a limited child process: resource limits and answers.

Imports nothing beyond the standard library, so that a child starts fast.
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
"""CPU time per piece; pieces are sized so that an honest document needs a fifth to a tenth of it."""


def confine(memory_bytes: int, file_bytes: int) -> None:
    """Limit this process permanently, and let it die with its parent."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, file_bytes)
    _limit(resource.RLIMIT_AS, memory_bytes)
    die_with_parent(signal.SIGKILL)


def die_with_parent(number: signal.Signals) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def allow_processor_seconds(seconds: float) -> None:
    """Limit CPU time from now on; the process is killed when it is used up."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (int(_used_seconds() + seconds) + 1, hard))


class Allowance:
    """CPU time that grows with progress: little for work without results, more for a large document.

    The process is killed when the time is used up.
    """

    def __init__(self, first_seconds: float, most_seconds: float) -> None:
        """Allow `first_seconds` until the first piece and between two pieces, and `most_seconds` for all."""
        self._began = _used_seconds()
        self._first = first_seconds
        self._most = most_seconds
        self._pieces = 0
        self.note(0)

    def note(self, pieces: int = 1) -> None:
        """Record finished pieces of work, such as a page or a thousand lines."""
        self._pieces += pieces
        used = _used_seconds() - self._began
        earned = self._first + self._pieces * _SECONDS_A_PIECE
        allow_processor_seconds(min(earned, self._most, used + self._first) - used)

    def over(self, items: Iterable[_Item], piece: int = 1) -> Iterator[_Item]:
        """Yield items, and record progress after every `piece` of them."""
        for number, item in enumerate(items, 1):
            yield item
            if not number % piece:
                self.note()


def serve(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer each JSON line with one JSON line until the parent closes the pipe.

    A question may limit its `processor_seconds`. Output of libraries is discarded, since it would break the protocol.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        if "processor_seconds" in question:
            allow_processor_seconds(question["processor_seconds"])
        answers.write(json.dumps(handle(question)) + "\n")
        answers.flush()


def _used_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _limit(which: int, value: int) -> None:
    # If a system lacks a limit (RLIMIT_AS on macOS), the parent's timeout still applies.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (value, value))
