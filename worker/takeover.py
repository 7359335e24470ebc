"""Takeover: the next worker of this host resumes the work of a killed one as soon as it starts.

Each worker lists its running activities in a file that it keeps locked. The kernel releases the lock when the
process ends for any reason, so a file that can be locked belongs to a dead worker. The next worker fails its attempts
by task token, which the server accepts only while an attempt runs, so that it starts the next attempt at once instead
of after a heartbeat timeout. The next attempt behaves as after any other lost worker.
"""

import asyncio
import errno
import fcntl
import json
import logging
import os
import socket
import stat
import tempfile
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import ExecuteActivityInput

from activities.around import AroundActivities
from chargehand.visibility import describe, gather_few
from chargehand.wire import ErrorType

_FOLDER: Final = "running"
_SENT_SECONDS: Final = 1.0
"""By then the server has an activity's result; failing a finished attempt has no effect."""
_OTHERS_KEPT_SECONDS: Final = 86_400
"""How long files of other hosts or earlier boots are kept; the server repeats their activities."""
_LONGEST_FILE: Final = 1 << 20
"""Bytes after which the file is rewritten with only the running activities."""
_RPC_TIMEOUT: Final = timedelta(seconds=3)
_AT_ONCE: Final = 16
_AT_ONCE_AGAIN: Final = timedelta(milliseconds=1)
_Run = tuple[str, str]
"""Workflow id and run id."""
_logger: Final = logging.getLogger("chargehand.takeover")


@dataclass(frozen=True)
class Attempt:
    token: bytes
    run: _Run
    is_over: bool = False
    """Whether it has ended; the server may not know this yet."""

    def line(self, number: int) -> bytes:
        """Serialise it as a line for `_open_attempts`."""
        return _line([number, *self.run, b64encode(self.token).decode(), *([True] if self.is_over else [])])


class RunningActivities(AroundActivities):
    """This process's running activities, in a file that the next worker of this host can read."""

    def __init__(self, state_dir: Path) -> None:
        """Create this process's file.

        Raises:
            OSError: it cannot be written or locked here.
        """
        folder = state_dir / _FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It gets its final name, by which other workers find it, only after it is locked.
        descriptor, name = tempfile.mkstemp(prefix=".", dir=folder)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._path = Path(name).rename(folder / f"{_host()}{Path(name).name}")
        self._number = 0
        self._running: dict[int, Attempt] = {}
        self._lock = threading.Lock()

    async def attempt(self, _: ExecuteActivityInput, run: Callable[[], Awaitable[Any]]) -> Any:
        info = activity.info()
        if info.is_local:  # a local activity is repeated with its workflow task
            return await run()
        number = self.begin(Attempt(info.task_token, (info.workflow_id or "", info.workflow_run_id or "")))
        try:
            return await run()
        finally:
            self.note_end(number)
            asyncio.get_running_loop().call_later(_SENT_SECONDS, self.end, number)

    def begin(self, attempt: Attempt) -> int:
        """List an attempt, and return its number."""
        with self._lock:
            self._number += 1
            self._running[self._number] = attempt
            self._write(attempt.line(self._number))
            return self._number

    def note_end(self, number: int) -> None:
        """Record that an attempt has ended; it stays listed while its result is sent."""
        with self._lock:
            self._running[number] = replace(self._running[number], is_over=True)
            self._write(self._running[number].line(number))

    def end(self, number: int) -> None:
        with self._lock:
            self._running.pop(number, None)
            self._write(_line([number]))

    def _write(self, line: bytes) -> None:
        if self._file.closed:
            return
        try:
            if not self._running or self._file.tell() > _LONGEST_FILE:
                self._file.seek(0)
                self._file.truncate()
                line = b"".join(attempt.line(number) for number, attempt in self._running.items())
            self._file.write(line)
        except OSError as error:
            _logger.warning("a running activity could not be listed", extra={"problem": error.strerror})

    def close(self) -> None:
        """Remove the file, since nothing is running any more."""
        with self._lock:
            self._path.unlink(missing_ok=True)
            self._file.close()


async def take_over(client: Client, state_dir: Path) -> None:
    """Make the server immediately repeat the activities of killed workers of this host."""
    with _take_files(state_dir / _FOLDER) as attempts:
        if not attempts:
            return
        ended = 0
        # The server forgets the reset of a sticky queue when it refuses to fail an attempt of the same workflow, as it
        # does for most finished ones. The others follow once all resets are final: their next attempts may end at once.
        for is_over in (True, False):
            await _leave_sticky_queues(client, {attempt.run for attempt in attempts})
            chosen = [attempt for attempt in attempts if attempt.is_over == is_over]
            ended += sum(await gather_few(_AT_ONCE, partial(_end, client), chosen))
        if ended:
            _logger.info("a killed worker's activities are repeated", extra={"activities": ended})


@contextmanager
def _take_files(folder: Path) -> Generator[Sequence[Attempt]]:
    """Read the files of dead workers, then remove them."""
    host, attempts = _host(), list[Attempt]()
    with ExitStack() as files:
        for path in folder.glob("*"):
            with suppress(OSError):  # another worker was faster
                file = files.enter_context(_open_plain(path))
                if path.name.startswith(host):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    attempts += _open_attempts(file.read(2 * _LONGEST_FILE).splitlines())
                elif time.time() - path.stat().st_mtime < _OTHERS_KEPT_SECONDS:
                    continue
                files.callback(path.unlink, missing_ok=True)
        yield attempts


def _open_plain(path: Path) -> BinaryIO:
    """Open a regular file; other kinds could block or redirect elsewhere."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file")
    return os.fdopen(descriptor, "rb")


def _open_attempts(lines: Iterable[bytes]) -> Iterable[Attempt]:
    running: dict[int, Attempt] = {}
    for line in lines:
        with suppress(ValueError, RecursionError):  # an incomplete last line of a killed worker
            match json.loads(line):
                case [int(number)]:
                    running.pop(number, None)
                case [int(number), str(workflow_id), str(run_id), str(token), *over]:
                    f"{workflow_id}{run_id}".encode()  # a lone surrogate is never part of an id
                    running[number] = Attempt(b64decode(token), (workflow_id, run_id), bool(over))
                case _:
                    pass
    return running.values()


async def _leave_sticky_queues(client: Client, runs: set[_Run]) -> None:
    """Reset the sticky queues of workflows and their parents, so that any worker gets their next tasks."""

    async def leave(run: _Run) -> _Run | None:
        execution = WorkflowExecution(workflow_id=run[0], run_id=run[1])
        request = ResetStickyTaskQueueRequest(namespace=client.namespace, execution=execution)
        try:
            await client.workflow_service.reset_sticky_task_queue(request, timeout=_RPC_TIMEOUT)
            info = (await describe(client, *run, _RPC_TIMEOUT)).workflow_execution_info
        except RPCError:
            return None  # it has ended, or its tasks move after the sticky timeout
        above = info.parent_execution
        return (above.workflow_id, above.run_id) if info.HasField("parent_execution") else None

    seen: set[_Run] = set()
    while runs:
        seen |= runs
        above = await gather_few(_AT_ONCE, leave, runs)
        runs = {run for run in above if run} - seen


async def _end(client: Client, attempt: Attempt) -> bool:
    """Fail an attempt if it is still running, so that the server starts the next one."""
    lost = ApplicationError(
        "The worker was lost in the middle of this.", type=ErrorType.WORKER_LOST, next_retry_delay=_AT_ONCE_AGAIN
    )
    try:
        handle = client.get_async_activity_handle(task_token=attempt.token)
        await handle.fail(lost, rpc_timeout=_RPC_TIMEOUT)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            _logger.warning("a killed worker's activity is repeated after its heartbeat timeout only")
        return False
    return True


def _line(values: Sequence[object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _host() -> str:
    """Identify this boot of this host, also within containers; locks of other hosts may be invisible here."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return socket.gethostname().replace("/", "-")
