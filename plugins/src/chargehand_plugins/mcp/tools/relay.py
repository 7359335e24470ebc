"""A program that runs an MCP server and ends it with the worker, regardless of how the worker ends.

It copies data between the two. When its standard input ends, which happens even if the worker is killed, it ends the
server and every process below it. An overlong line also ends the server, since the SDK would hold it in memory. Uses
only the standard library.

Arguments: the maximum bytes of a line, then the server's command.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

_GRACE_SECONDS: Final = 1.0
"""Time for a server to exit after its input has ended; the SDK waits two seconds."""
_PIPE_BYTES: Final = 1 << 16
MESSAGE_SECONDS: Final = 0.002
"""Pause after each message: the worker spends up to a quarter of a millisecond on one, however short."""
BYTES_A_VALUE: Final = 160
"""Minimum average bytes per value, since messages with many values take long to validate."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
"""A JSON string, or the rest of the text if unterminated. Possessive, so that each byte is read once."""
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


class ValueCounter:
    """Counts the strings, lists, objects and commas of JSON text that arrives in parts."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.count = 0
        self._open = b""
        """The beginning of an equivalent string, if a part has ended within one."""

    def add(self, *parts: bytes) -> int:
        """Count the next part of a text, and further texts; return the highest count."""
        most = 0
        for number, part in enumerate(parts):
            if number:
                self._begin()
            text = self._open + part
            strings = [*_STRING.finditer(text)]
            values = sum(map(_STRING.sub(b"", text).count, (b"[", b"{", b",")))
            self.count += len(strings) - bool(self._open) + values
            is_open = bool(strings) and not strings[-1][1]
            self._open = b"" if not is_open else b'"' if strings[-1].end() == len(text) else b'"\\'
            most = max(most, self.count)
        return most


def _copy(source: int, target: int, most_bytes: int) -> None:
    """Copy until the end, or until a line that is too long or has too many values."""
    length, values = 0, ValueCounter()
    while chunk := os.read(source, _PIPE_BYTES):
        first, *others = chunk.split(b"\n")
        if max([length + len(first), *map(len, others)]) > most_bytes:
            return
        if values.add(first, *others) > most_bytes / BYTES_A_VALUE:
            return
        length = len(others[-1]) if others else length + len(first)
        for line in chunk.splitlines(keepends=True):
            rest = line
            while rest:
                rest = rest[os.write(target, rest) :]
            time.sleep(MESSAGE_SECONDS * line.endswith(b"\n"))


def _kill_below() -> None:
    """End the server's orphans, and the processes that they start in the meantime."""
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
