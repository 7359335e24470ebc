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
from collections.abc import Callable
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


def confine(memory_bytes: int, file_bytes: int) -> None:
    """Limit this process for the rest of its life, and let it die with its parent."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, file_bytes)
    _limit(resource.RLIMIT_AS, memory_bytes)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def allow_processor_seconds(seconds: int) -> None:
    """Limit processor time from here on; the process is killed when it is used up."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, hard))


def serve(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer one JSON line for each JSON line, until the parent closes the pipe.

    Whatever a library prints goes nowhere, since it would break the protocol.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(handle(json.loads(line))) + "\n")
        answers.flush()


def _limit(which: int, value: int) -> None:
    # A system that does not know a limit (RLIMIT_AS on macOS) still has the parent's clock.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (value, value))
