"""A user process's side of the embedded server: join it, wait until it is up, leave it. Standard library only.

Joining means taking locks, so a killed process has left, and nothing has to be cleaned up.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final

from chargehand.local_server import is_held
from chargehand_cli.embedded.program import EmbeddedServerFailed, check_temporal, find_temporal
from chargehand_cli.embedded.state import (
    ALREADY_KEPT,
    FileLock,
    Order,
    ServerNote,
    StateDirectory,
    WorkerCommand,
    last_lines,
    open_private,
)

_POLL_SECONDS: Final = 0.01
_STOP_SECONDS: Final = 15
_LEAST_FREE: Final = 1 << 20
"""Minimum free bytes on the disk of the state directory."""
_detached: list[subprocess.Popen[bytes]] = []


class Departure(Enum):
    """What remains after a user process has left."""

    ENDED = "ended"
    """Nothing: it was the last one, and everything has shut down."""
    OTHERS_STAY = "others stay"
    LINGERS = "lingers"
    """The server, for some minutes; the worker ends."""
    STILL_ENDING = "still ending"
    """It was the last one, and the shutdown takes longer."""


class EmbeddedServer:
    """The Temporal server and worker of one state directory, shared by every process that joins."""

    def __init__(self, state: Path, worker: WorkerCommand | None, *, temporal: Path | None = None) -> None:
        """Store what to start; nothing happens before `join`. Without a worker, sessions can only be read."""
        self.state = StateDirectory(state.absolute())
        self._worker = worker
        self._temporal = temporal
        self._in_use: FileLock | None = None
        self._work: FileLock | None = None
        self._joined = False
        self._keeper: subprocess.Popen[bytes] | None = None
        self.started_worker = False
        """Whether the worker was started for this process."""

    def join(self) -> None:
        """Become a user, and start the keeper if none is running; return immediately.

        Raises:
            EmbeddedServerFailed: the state directory or the `temporal` program cannot be used.
        """
        self._temporal = self._temporal or find_temporal()
        try:
            self.state.create()
            self._in_use = FileLock(self.state.in_use_lock)
            self._try_to_join()
        except OSError as error:
            raise EmbeddedServerFailed(
                f"The state directory {self.state.path} cannot be used: {error.strerror}. "
                "Name another one: --state-dir or CHARGEHAND_STATE_DIR."
            ) from error
        if self._joined and not is_held(self.state.keeper_lock):
            self._start_keeper()

    def wait(self, timeout_seconds: float = 60) -> ServerNote:
        """Wait until the server is up; restart it if it has ended.

        Raises:
            EmbeddedServerFailed: it could not be started, or not in time.
        """
        give_up_at = time.monotonic() + timeout_seconds
        while time.monotonic() < give_up_at:
            if self._in_use is None:
                raise EmbeddedServerFailed("The embedded Temporal server must be joined first.")
            if self._try_to_join():
                note = self.note()
                if note and (note.has_worker or not self._needs_worker):
                    return note
                if note:
                    self._stop_keeper(note)
                self._ensure_keeper()
            time.sleep(_POLL_SECONDS)
        what = "did not start" if self._joined else "of another command did not stop"
        raise EmbeddedServerFailed(
            f"The embedded Temporal server {what} within {timeout_seconds:.0f} s.{self._log_end()}"
        )

    def require_worker(self, worker: WorkerCommand) -> None:
        """Require a worker from now on; call `wait` until it is started."""
        self._worker = worker
        self._joined = False

    def note(self) -> ServerNote | None:
        """Return the server's note; None while it is down."""
        # In this order: a note read first could be stale and removed by the keeper since.
        return self.state.read_note() if is_held(self.state.note_lock) else None

    def hand_over(self, command: Sequence[str]) -> None:
        """Start a command that inherits this user's locks, so that server and worker stay until it ends."""
        assert self._in_use
        _detach(command, *filter(None, (self._in_use, self._work)))

    def leave(self, timeout_seconds: float = 45, *, linger_seconds: float = 0) -> Departure:
        """Stop being a user; the last one waits until everything has shut down, or lets the server linger."""
        if not self._in_use:
            return Departure.ENDED
        in_use, self._in_use = self._in_use, None
        if self._work:
            self._work.close()
        if linger_seconds and self._joined:
            _detach([sys.executable, "-I", "-S", "-c", f"import time; time.sleep({linger_seconds})"], in_use)
            in_use.close()
            self._detach_keeper()
            return Departure.LINGERS
        in_use.close()  # releasing it would also release it for the processes that inherited it
        probe = FileLock(self.state.in_use_lock)
        others_stay = not probe.take() and probe.take(shared=True)
        probe.close()
        if others_stay or not self._joined:
            self._detach_keeper()
            return Departure.OTHERS_STAY
        give_up_at = time.monotonic() + timeout_seconds
        while is_held(self.state.keeper_lock) or (self._keeper and self._keeper.poll() is None):
            if time.monotonic() > give_up_at:
                self._detach_keeper()
                return Departure.STILL_ENDING
            time.sleep(_POLL_SECONDS)
        return Departure.ENDED

    @property
    def _needs_worker(self) -> bool:
        return self._worker is not None and bool(self._worker.command)

    def _try_to_join(self) -> bool:
        """Take a user's locks; False while an earlier server or worker is shutting down."""
        assert self._in_use
        if not self._joined and self._in_use.take(shared=True):
            if self._needs_worker and not self._work:
                self._work = FileLock(self.state.work_lock)
            self._joined = self._work is None or self._work.take(shared=True)
        return self._joined

    def _stop_keeper(self, note: ServerNote) -> None:
        """Stop a server without a worker, whose keeper was started with the environment of a user that needed none."""
        with suppress(ProcessLookupError):
            os.kill(note.keeper_pid, signal.SIGTERM)
        give_up_at = time.monotonic() + _STOP_SECONDS
        while is_held(self.state.keeper_lock) and time.monotonic() < give_up_at:
            now = self.note()
            if now and now.keeper_pid != note.keeper_pid:
                return  # another user was faster
            time.sleep(_POLL_SECONDS)
        self._detach_keeper()

    def _ensure_keeper(self) -> None:
        if self._keeper:
            code = self._keeper.poll()
            if code is None:
                return
            self._keeper = None
            self.started_worker = False
            if code not in (0, ALREADY_KEPT) and code > 0:
                raise EmbeddedServerFailed(f"The embedded Temporal server could not be started.{self._log_end()}")
        if not is_held(self.state.keeper_lock):
            self._start_keeper()

    def _start_keeper(self) -> None:
        assert self._temporal
        check_temporal(self._temporal, self.state.path)
        self._detach_keeper()
        self.started_worker = self._needs_worker
        worker = self._worker or WorkerCommand((), self.state.path)
        worker = replace(worker, directory=worker.directory.absolute())
        order = Order(self.state.path, self._temporal, worker)
        with os.fdopen(open_private(self.state.keeper_log, os.O_WRONLY | os.O_APPEND), "ab") as log:
            self._keeper = subprocess.Popen(  # noqa: S603  # our own program, no shell
                [sys.executable, "-P", "-m", "chargehand_cli.embedded.keeper", order.to_argument()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.state.path,
                start_new_session=True,
            )

    def _detach_keeper(self) -> None:
        """Let the keeper outlive this process for its other users."""
        if self._keeper and self._keeper.poll() is None:
            _detached.append(self._keeper)
        self._keeper = None

    def _log_end(self) -> str:
        if shutil.disk_usage(self.state.path).free < _LEAST_FREE:
            return f" The disk of {self.state.path} is full: make room on it, or name another --state-dir."
        words = last_lines(self.state.keeper_log)
        return f" The end of {self.state.keeper_log}:\n{words}" if words else ""


def _detach(command: Sequence[str], *locks: FileLock) -> None:
    """Start a process that outlives this one and its terminal, and inherits its locks."""
    process = subprocess.Popen(  # noqa: S603  # our own program, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[lock.descriptor for lock in locks],
        start_new_session=True,
    )
    _detached.append(process)
