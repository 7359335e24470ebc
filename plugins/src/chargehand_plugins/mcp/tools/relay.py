"""A program that runs an MCP server and ends it with the worker, however the worker ends.

It copies data between the two. When its standard input ends, which happens even if the worker
is killed, it ends the server and every process below it. An overlong line also ends the server, since the
SDK would buffer it in memory. Uses the standard library only.

Arguments: the most bytes of a line, then the server's command.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

_GRACE_SECONDS: Final = 1.0
"""Time for a server to exit after its input has ended; the SDK waits two seconds."""
_PIPE_BYTES: Final = 1 << 16
BYTES_A_MARK: Final = 160
"""A message of the most bytes may have one mark for so many: what has more takes long to validate."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def main(most_bytes: int, command: list[str]) -> int:
    """Run until either side ends; return the server's exit status."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None:
        # Orphans of the server become children of this process, which ends them.
        library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server_input, to_server = os.pipe()
    from_server, server_output = os.pipe()
    server = subprocess.Popen(  # noqa: S603  # the operator's own command
        command,
        stdin=server_input,
        stdout=server_output,
        preexec_fn=library and partial(library.prctl, _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509  # no thread yet
    )
    os.close(server_input)
    os.close(server_output)
    over = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        over.set()

    def copy(source: int, target: int, most: int) -> None:
        with suppress(OSError):
            _copy(source, target, most)
        over.set()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=copy, args=(0, to_server, sys.maxsize), daemon=True).start()
    threading.Thread(target=copy, args=(from_server, 1, most_bytes), daemon=True).start()
    over.wait()
    os.close(to_server)
    with suppress(subprocess.TimeoutExpired):
        server.wait(_GRACE_SECONDS)
    server.kill()
    server.wait()
    _kill_below()
    return abs(server.returncode)


def marks_in(text: bytes) -> int:
    """Count the quotation marks of JSON's strings, half of them at least, and every fourth comma between its values."""
    return text.count(b'"') - text.count(b'\\"') + text.count(b",") // 4


def _copy(source: int, target: int, most_bytes: int) -> None:
    """Copy until the end, or until a line that is longer than allowed, or has more values."""
    length = marks = 0
    while chunk := os.read(source, _PIPE_BYTES):
        first, *others = chunk.split(b"\n")
        if max([length + len(first), *map(len, others)]) > most_bytes:
            return
        if max([marks + marks_in(first), *map(marks_in, others)]) > most_bytes / BYTES_A_MARK:
            return
        length = len(others[-1]) if others else length + len(first)
        marks = marks_in(others[-1]) if others else marks + marks_in(first)
        while chunk:
            chunk = chunk[os.write(target, chunk) :]


def _kill_below() -> None:
    """End the server's orphans, and processes that they start meanwhile."""
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    with suppress(OSError):
        return [int(child) for child in listed.read_text().split()]
    return []


if __name__ == "__main__":
    status = main(int(sys.argv[1]), sys.argv[2:])
    sys.stdout.flush()
    # A reading thread must not block the exit.
    os._exit(status)
