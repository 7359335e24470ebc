"""Code execution in Monty: a memory-safe interpreter of a Python subset, in a child process that can be killed."""

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from temporalio.exceptions import ApplicationError

from activities.tools.code.protocol import ROWS, CodeResult, GivenFile, Language, Rows
from chargehand.contracts import Contract
from chargehand.wire import ErrorType

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyError, MontySession

MODULES: Final = (
    "asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal",
    "functools", "hashlib", "itertools", "json", "math", "random", "re", "time", "typing", "unicodedata",
)  # fmt: skip
_SUBSET: Final = (
    f"It can import {', '.join(MODULES)} and nothing else (no numpy, pandas or statistics); it has no inheritance, "
    "`yield`, `del`, `@property`, files, network or environment."
)


class MontyLimits(Contract):
    """How much time, memory and output one piece of code may use."""

    seconds: float = 5.0
    memory_bytes: int = 64 * 1024 * 1024
    recursion_depth: int = 200
    suspensions: int = 100
    """Calls that leave the interpreter, including refused file accesses."""
    output_bytes: int = 64 * 1024
    parallel: int = 4
    """Pieces of code that run at the same time; others wait."""


_DEFAULT_LIMITS: Final = MontyLimits()
_GRACE_SECONDS: Final = 0.5
"""Time for the interpreter to stop by itself before its process is killed."""
_VALUE_CHARACTERS: Final = 8_000
_TRACEBACK_CHARACTERS: Final = 2_000


class MontyRunner:
    """Runs each piece of code in a fresh child process. Needs no key and no network."""

    name = "monty"
    languages: tuple[Language, ...] = ("python",)
    language = (
        "A part of Python 3 with math, datetime, decimal, json, re and the like; no numpy, pandas, statistics, "
        "inheritance, `yield`, `del`, files, network."
    )
    handles_files = False
    reaches_out = False

    def __init__(self, limits: MontyLimits = _DEFAULT_LIMITS) -> None:
        self._limits = limits
        # Separate threads, so that a slow sandbox does not block other users of the default executor.
        self._threads = ThreadPoolExecutor(limits.parallel, thread_name_prefix="monty")

    async def run(
        self,
        code: str,
        name: str,  # noqa: ARG002  # the child process leaves nothing behind
        files: Sequence[GivenFile] = (),  # noqa: ARG002  # see `handles_files`
        rows: Rows | None = None,
        language: Language = "python",  # noqa: ARG002  # the only one
    ) -> CodeResult:
        work = _Work(code, rows, self._limits)
        # Not Monty's asynchronous interface, which occasionally aborts the whole process at exit
        # (https://github.com/PyO3/pyo3-async-runtimes/issues/40).
        running = asyncio.get_running_loop().run_in_executor(self._threads, work.run)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.cancel()
            work.stop()
            raise

    async def close(self) -> None:
        """Release the threads; code that still runs ends within its limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Work:
    """One piece of code in its child process; `run` in a thread, `stop` from anywhere."""

    def __init__(self, code: str, rows: Rows | None, limits: MontyLimits) -> None:
        self._code = code
        self._inputs = None if rows is None else {ROWS: [dict(row) for row in rows]}
        self._limits = limits
        self._child: int | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self._printed: dict[Literal["stdout", "stderr"], list[str]] = {"stdout": [], "stderr": []}
        self._room = limits.output_bytes

    def stop(self) -> None:
        """Kill the child process, or prevent it from starting."""
        self._stopped = True
        with self._lock, suppress(ProcessLookupError):
            if self._child is not None:
                os.kill(self._child, signal.SIGKILL)

    def run(self) -> CodeResult:
        from pydantic_monty import MontyError  # 40 ms, needed only by an agent that computes

        value, error = "", ""
        try:
            with _pool(self._limits) as pool, _checkout(pool, self._limits) as session:
                value = self._feed(session)
        except MontyError as fault:
            error = self._explain(fault)
        except (RuntimeError, OSError) as fault:
            message = "the interpreter for code could not be started; reinstall pydantic-monty"
            raise ApplicationError(message, type=ErrorType.TOOL_UNAVAILABLE) from fault
        stdout, stderr = ("".join(self._printed[stream]) for stream in ("stdout", "stderr"))
        return CodeResult(stdout=stdout, stderr=stderr, value=value, error=error)

    def _feed(self, session: "MontySession") -> str:
        try:
            self._child = session.worker_pid
            if self._stopped:
                return ""
            value: object = session.feed_run(self._code, inputs=self._inputs, print_callback=self._keep)
            return "" if value is None else _representation(session, value)
        finally:
            with self._lock:
                # The process id may soon be reused.
                self._child = None

    def _keep(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        part = text.encode()[: self._room].decode("utf-8", "ignore")
        self._printed[stream].append(part)
        self._room -= len(part.encode())
        if len(part) < len(text):
            self.stop()

    def _explain(self, fault: "MontyError") -> str:
        from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

        seconds = f"{self._limits.seconds:g} seconds"
        if self._stopped:
            return f"The code printed more than {self._limits.output_bytes} bytes and was stopped. Print less."
        if isinstance(fault, MontyCrashedError):
            return (
                f"The code was stopped: it ran longer than {seconds} or brought the interpreter down. Do less at once."
            )
        cause = fault.exception()
        if isinstance(cause, TimeoutError):
            return f"The code ran longer than {seconds} and was stopped. Do less at once."
        if isinstance(cause, MemoryError):
            megabytes = self._limits.memory_bytes // (1024 * 1024)
            return f"The code needed more than {megabytes} MB of memory and was stopped. Keep less at once."
        text = fault.display() if isinstance(fault, MontyRuntimeError | MontySyntaxError) else str(fault)
        text = text[-_TRACEBACK_CHARACTERS:]
        outside = isinstance(cause, ImportError | NotImplementedError | PermissionError | NameError)
        return f"{text}\n{_SUBSET}" if outside or "not supported" in text else text


def _pool(limits: MontyLimits) -> "Monty":
    from pydantic_monty import Monty

    return Monty(
        min_processes=1,
        max_processes=1,
        request_timeout=limits.seconds + 2 * _GRACE_SECONDS,
        feed_duration_limit_grace=_GRACE_SECONDS,
        turn_duration_limit_grace=_GRACE_SECONDS,
    )


def _checkout(pool: "Monty", limits: MontyLimits) -> "MontySession":
    return pool.checkout(
        script_name="code.py",
        limits={
            "max_feed_duration_secs": limits.seconds,
            "max_turn_duration_secs": limits.seconds,
            "max_memory": limits.memory_bytes,
            "max_recursion_depth": limits.recursion_depth,
            "max_suspensions": limits.suspensions,
            "max_total_sleep_secs": 0.0,
        },
        # A sleep is not execution time, so it would bypass the limits.
        os_policy={"sleep": "zero"},
    )


def _representation(session: "MontySession", value: object) -> str:
    """Convert a value to text inside the sandbox: its size and its `repr` are untrusted."""
    from pydantic_monty import MontyError

    try:
        text: object = session.feed_run(f"f'{{value!r}}'[:{_VALUE_CHARACTERS}]", inputs={"value": value})
    except MontyError:
        return "(a value that cannot be shown; print what you need of it)"
    return str(text)
