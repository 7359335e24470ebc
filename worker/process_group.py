"""A group of worker processes on one host, to use more cores than a single Python process can.

The parent only starts processes, forwards signals, and restarts processes that end. Where it is safe, it forks them,
so that they share the memory of imported modules and start within a fraction of a second.
"""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, cast

from activities.processes.limits import die_with_parent
from chargehand.environment import BAD_SETTINGS
from chargehand.restarts import Restarts

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_logger: Final = logging.getLogger("chargehand.worker")

Work = Callable[[int, Callable[[], None]], int]
"""Runs the worker of this number until stopped, reports when it polls, and returns an exit code."""


@dataclass
class _Member:
    number: int
    process: BaseProcess | None = None
    told: Connection | None = None
    polls: bool = False
    """Whether it or a predecessor has polled."""
    started_at: float = 0.0
    due_at: float | None = None
    """When to start it; None while it runs or must not."""
    restarts: Restarts = field(default_factory=Restarts)


class ProcessGroup:
    """The worker processes of one host, managed by their parent."""

    def __init__(self, count: int, work: Work, announce: Callable[[], None]) -> None:
        """Prepare `count` processes; `announce` is called once, when all of them poll."""
        self._members = [_Member(number) for number in range(count)]
        self._work = work
        self._announce = announce
        self._announced = False
        self._stopping = False
        self._code = 0
        self._context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until one process finds its settings unusable; return the exit code."""
        # The others start once the first one polls, so that unusable settings are reported once.
        self._members[0].due_at = time.monotonic()
        with self._noting_signals() as wake:
            while not self._stopping or self._running():
                for member in self._due():
                    self._start(member)
                self._wait(wake)
        return self._code

    def _running(self) -> Sequence[_Member]:
        return [member for member in self._members if member.process]

    def _due(self) -> Sequence[_Member]:
        now = time.monotonic()
        return [each for each in self._members if not self._stopping and each.due_at is not None and each.due_at <= now]

    def _start(self, member: _Member) -> None:
        receiver, tells = multiprocessing.Pipe(duplex=False)
        member.process = self._context.Process(target=_run_member, args=(self._work, member.number, tells, os.getpid()))
        assert member.process
        # Until the new process has its own handlers.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        member.process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        tells.close()
        member.told, member.due_at, member.started_at = cast("Connection", receiver), None, time.monotonic()

    def _wait(self, wake: socket.socket) -> None:
        """Wait for the first of: a signal, a process that polls or ends, or one that is due."""
        due = [each.due_at for each in self._members if each.due_at is not None and not self._stopping]
        running = self._running()
        sources: list[Any] = [wake, *(each.process.sentinel for each in running if each.process)]
        sources += [each.told for each in running if each.told]
        ready = wait(sources, max(0.0, min(due) - time.monotonic()) if due else None)
        if wake in ready:
            wake.recv(64)
        for member in running:
            if member.told in ready:
                self._note_polling(member)
            if member.process and member.process.exitcode is not None:
                self._note_end(member, member.process.exitcode)

    def _note_polling(self, member: _Member) -> None:
        assert member.told
        with suppress(EOFError):
            member.told.recv()
            member.polls = True
        member.told.close()
        member.told = None
        if not member.polls:
            return
        for other in self._members:
            if other.process is None and other.due_at is None:
                other.due_at = time.monotonic()
        if not self._announced and all(each.polls for each in self._members):
            self._announced = True
            self._announce()

    def _note_end(self, member: _Member, code: int) -> None:
        lived = time.monotonic() - member.started_at
        if member.told:
            member.told.close()
        member.process = member.told = None
        if self._stopping:
            return
        if code == BAD_SETTINGS:
            self._code = code
            self.stop()
            return
        pause = member.restarts.pause_after(lived)
        member.due_at = time.monotonic() + pause
        _logger.warning("a worker process ended, and is started again", extra={"exit_code": code, "in_seconds": pause})

    def stop(self, *_: object) -> None:
        """Stop all processes as at SIGTERM: a signal handler."""
        self._stopping = True
        for member in self._running():
            if member.process and member.process.is_alive():
                member.process.terminate()

    @contextmanager
    def _noting_signals(self) -> Generator[socket.socket]:
        wake, woken = socket.socketpair()
        woken.setblocking(False)
        before = {number: signal.signal(number, self.stop) for number in _SIGNALS}
        previous = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        try:
            yield wake
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)
            wake.close()
            woken.close()


def _run_member(work: Work, number: int, tells: Connection, parent: int) -> None:
    """Run one worker in a child process, which stops when its parent ends."""
    signal.set_wakeup_fd(-1)
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before the signal was set up
        os._exit(1)
    code = work(number, lambda: tells.send(True))  # the content does not matter
    sys.stdout.flush()
    sys.stderr.flush()
    # The SDK's threads can abort a process during an orderly shutdown.
    os._exit(code)
