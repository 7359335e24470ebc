"""The parent's side of a limited child process, in which untrusted content is parsed and computed.

`limits` is the child's side. A child is a module that calls `limits.confine` and `limits.serve`.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

from activities.processes.stall_timeout import note_progress

_APPLICATION_ROOT: Final = Path(__file__).parents[__name__.count(".")]
_BOOTSTRAP: Final = (
    "import sys, runpy; sys.path.append(sys.argv[1]); runpy.run_module(sys.argv[2], run_name='__main__')"
)
_LONGEST_ANSWER_BYTES: Final = 64 << 20


class ChildError(Exception):
    """A limited process did not answer."""


class ChildTimeoutError(ChildError):
    """A limited process exceeded its time and was killed."""


class ChildDiedError(ChildError):
    """A limited process ended without an answer, usually at its memory or CPU limit."""


class ChildProcess:
    """A Python module that answers JSON lines in a child process with an empty environment.

    It starts on entry or at the first question, and again after a failure; leaving or closing it kills it. Use it only
    in the event loop's thread: on Linux, a child dies with the thread that started it.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def ask(self, question: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """Send one question and return its answer. Raises `ChildTimeoutError` or `ChildDiedError`."""
        if self._process is None:
            self._process = await self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(timeout_seconds):
                process.stdin.write(json.dumps(question).encode() + b"\n")
                await process.stdin.drain()
                answer = await process.stdout.readline()
            note_progress()
        except TimeoutError as error:
            await self.close()
            raise ChildTimeoutError(f"took longer than {timeout_seconds:g} seconds") from error
        except (ConnectionError, ValueError) as error:
            await self.close()
            raise ChildDiedError("ended without an answer") from error
        if not answer.endswith(b"\n"):
            await self.close()
            raise ChildDiedError("ended without an answer")
        return cast("dict[str, Any]", json.loads(answer))

    async def close(self) -> None:
        """Kill the process and everything it started, and wait for its end."""
        process = self._process
        if process is None:
            return
        self._process = None
        if process.returncode is None:
            # `wait` also waits for the pipes to close, which a forked process may hold open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.shield(process.wait())

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-X",
            "utf8",
            "-c",
            _BOOTSTRAP,
            str(_APPLICATION_ROOT),
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            cwd="/",
            limit=_LONGEST_ANSWER_BYTES,
            start_new_session=True,
        )
