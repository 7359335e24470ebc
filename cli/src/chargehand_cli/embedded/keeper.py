"""The keeper: a process that owns the embedded server and its worker while any process uses them.

It starts both and then waits for the in-use lock, which it gets exactly when the last user process has left,
crashed or been killed; likewise, the worker ends with the last user that needs it. Standard library only, so that
it starts before its caller has imported anything.
"""

import importlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from chargehand.environment import BAD_SETTINGS
from chargehand.restarts import Restarts
from chargehand_cli.embedded.server import WEB_UI_PORT, ServerFailed, ServerProcess, end_process, spawn, start_server
from chargehand_cli.embedded.state import (
    ALREADY_KEPT,
    COULD_NOT_START,
    WORKER_STARTS,
    FileLock,
    Order,
    ServerNote,
    StateDirectory,
    WorkerCommand,
)

if TYPE_CHECKING:
    from chargehand_cli.embedded.web_ui_guard import WebUiGuard

_GUARD_MODULE: Final = "chargehand_cli.embedded.web_ui_guard"
"""Imports asyncio, which takes a tenth of a second while the server starts anyway."""
_SERVER_GRACE_SECONDS: Final = 10
_ORPHAN_GRACE_SECONDS: Final = 15
_SETTINGS_BACK_OFF_SECONDS: Final = 5
_LOG_LIMIT: Final = 10_000_000


class Keeper:
    """Starts, watches and stops the server and the worker.

    Processes are started from the main thread only, since on Linux they end with the thread that started them.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._grace_seconds = order.worker.grace_seconds
        self._state = StateDirectory(order.state)
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._server: ServerProcess | None = None
        self._guard: WebUiGuard | None = None
        self._note_lock = FileLock(self._state.note_lock)
        self._server_lock = FileLock(self._state.server_lock)
        self._work_lock = FileLock(self._state.work_lock)
        self._server_deaths: list[float] = []
        self._worker: subprocess.Popen[bytes] | None = None
        self._worker_started_at = 0.0
        self._worker_due_at: float | None = None
        self._worker_address = ""
        self._restarts = Restarts()
        self._worker_exit_code: int | None = None
        self._note: ServerNote | None = None

    def keep(self) -> int:
        """Run until no process uses the server."""
        for log in (self._state.server_log, self._state.worker_log, self._state.keeper_log):
            if log.exists() and log.stat().st_size > _LOG_LIMIT:
                log.replace(log.with_suffix(".log.1"))
        self._wait_for_orphan()
        try:
            self._start_server()
            in_use = FileLock(self._state.in_use_lock)
            self._put_after(lambda: in_use.take(wait=True), "unused")
            if self._order.worker.command:
                self._put_after(lambda: self._work_lock.take(wait=True), "idle")
            while (event := self._next_event()) not in ("unused", "stop"):
                if event == "idle":
                    self._dismiss_worker()
                self._mend()
        except ServerFailed as failure:
            _log(f"could not start: {failure}")
            return COULD_NOT_START
        finally:
            self._stop()
        return 0

    def request_stop(self, _signal: int, _frame: object) -> None:
        """Stop everything even if it is in use: a signal handler."""
        self._events.put("stop")

    def _start_server(self) -> None:
        before = self._note or self._state.read_note()
        self._state.remove_note()
        if not _acquire(self._note_lock):
            raise ServerFailed(f"another keeper is running in {self._state.path}")
        _in_background(lambda: importlib.import_module(_GUARD_MODULE))
        self._server = start_server(
            self._order.temporal,
            self._state.database,
            self._state.server_log,
            lock_descriptor=self._server_lock.descriptor,
            prefer=_port(before.address) if before else None,
            announce=self._start_worker_for,
        )
        self._put_after(self._server.process.wait, "server exited")
        self._guard = self._guard or _start_guard(self._server.ui, _port(before.ui_url) if before else None)
        self._guard.upstream = self._server.ui
        self._note = ServerNote(
            address=self._server.address,
            ui_url=self._guard.url,
            keeper_pid=os.getpid(),
            server_pid=self._server.process.pid,
            variant=self._order.worker.variant,
            has_worker=bool(self._order.worker.command),
        )
        self._renew_note()

    def _start_worker_for(self, address: str) -> None:
        if self._worker_address == address:
            return
        if self._worker:
            end_process(self._worker, grace_seconds=0.5)
        self._worker_address = address
        self._start_worker()

    def _start_worker(self) -> None:
        self._worker_due_at = None
        if not self._order.worker.command:
            return
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        ours = {"TEMPORAL_ADDRESS": self._worker_address, "TEMPORAL_CONFIG_FILE": os.devnull}
        # Commands show the end of its log to users.
        environment = {"CHARGEHAND_LOG_FORMAT": "text"} | inherited | self._order.worker.environment | ours
        self._worker_started_at = time.monotonic()
        with self._state.worker_log.open("a", encoding="utf-8") as log:
            log.write(f"{WORKER_STARTS}\n")
        self._worker = spawn(
            list(self._order.worker.command),
            self._state.worker_log,
            environment=environment,
            death_signal=signal.SIGKILL,
            directory=self._order.worker.directory,
        )
        self._put_after(self._worker.wait, "worker exited")

    def _dismiss_worker(self) -> None:
        """Stop the worker; the server keeps running for readers."""
        worker, self._worker, self._worker_due_at = self._worker, None, None
        self._order = replace(self._order, worker=WorkerCommand((), self._state.path))
        if worker:
            end_process(worker, grace_seconds=self._grace_seconds)
        if self._note:
            self._note = replace(self._note, variant="", has_worker=False)
        self._renew_note()
        self._work_lock.release()

    def _next_event(self) -> str:
        due_in = max(0.0, self._worker_due_at - time.monotonic()) if self._worker_due_at else None
        with suppress(queue.Empty):
            return self._events.get(timeout=due_in)
        return "worker due"

    def _mend(self) -> None:
        if self._server and self._server.process.poll() is not None:
            self._mend_server(self._server.process.returncode)
        if self._worker and self._worker.poll() is not None and self._worker_due_at is None:
            self._schedule_worker(self._worker.returncode)
        if self._worker_due_at is not None and time.monotonic() >= self._worker_due_at:
            self._start_worker()
            self._renew_note()

    def _mend_server(self, code: int) -> None:
        now = time.monotonic()
        self._server_deaths = [*(death for death in self._server_deaths if now - death < 60), now]
        _log(f"the Temporal server exited with code {code}; restarting it")
        if len(self._server_deaths) > 5:
            raise ServerFailed("it exited six times within a minute")
        self._start_server()

    def _schedule_worker(self, code: int) -> None:
        lived = time.monotonic() - self._worker_started_at
        wait = self._restarts.pause_after(lived)
        if code == BAD_SETTINGS:
            wait = max(wait, _SETTINGS_BACK_OFF_SECONDS)
        _log(f"the worker exited with code {code} after {lived:.1f} s; restarting it in {wait} s")
        self._worker_due_at = time.monotonic() + wait
        self._worker_exit_code = code
        self._renew_note()

    def _renew_note(self) -> None:
        if self._note:
            self._note = replace(
                self._note,
                worker_pid=self._worker.pid if self._worker and self._worker_due_at is None else None,
                worker_deaths=self._restarts.failures,
                worker_exit_code=self._worker_exit_code,
            )
            self._state.write_note(self._note)

    def _stop(self) -> None:
        self._state.remove_note()
        if self._worker:
            end_process(self._worker, grace_seconds=self._grace_seconds)
        if self._server:
            end_process(self._server.process, grace_seconds=_SERVER_GRACE_SECONDS)

    def _wait_for_orphan(self) -> None:
        """Wait until the server of a killed keeper has closed the database; terminate it where the kernel does not."""
        if self._server_lock.take():
            return
        note = self._state.read_note()
        if note and sys.platform != "linux":  # there, the kernel has terminated it
            with suppress(ProcessLookupError):
                os.kill(note.server_pid, signal.SIGTERM)
        if not _acquire(self._server_lock, _ORPHAN_GRACE_SECONDS):
            raise ServerFailed(f"the server of a killed keeper still uses {self._state.path}; stop it first")

    def _put_after(self, wait: Callable[[], object], event: str) -> None:
        def put() -> None:
            wait()
            self._events.put(event)

        _in_background(put)


def main() -> None:
    """Run the order given in the first argument."""
    order = Order.from_argument(sys.argv[1])
    os.umask(0o077)  # files of the keeper, the server and the worker are private to this user
    state = StateDirectory(order.state)
    lock = FileLock(state.keeper_lock)
    if not _acquire(lock):
        os._exit(ALREADY_KEPT)
    code = COULD_NOT_START
    try:
        keeper = Keeper(order)
        signal.signal(signal.SIGTERM, keeper.request_stop)
        for ignored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, lambda _number, _frame: None)  # unlike SIG_IGN, child processes do not inherit it
        code = keeper.keep()
    except ServerFailed as failure:
        _log(str(failure))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _acquire(lock: FileLock, seconds: float = 0.5) -> bool:
    """Acquire a lock in time; user processes that check for a keeper hold its locks for a moment."""
    give_up_at = time.monotonic() + seconds
    while not lock.take():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.01)
    return True


def _start_guard(ui: tuple[str, int], previous_port: int | None) -> "WebUiGuard":
    from chargehand_cli.embedded.web_ui_guard import WebUiGuard

    guard = WebUiGuard(ui, prefer=tuple(filter(None, (previous_port, WEB_UI_PORT))))
    guard.start()
    return guard


def _port(address: str) -> int | None:
    """Return the previous server's port, at which connected clients expect the next one."""
    with suppress(ValueError):
        return int(address.rpartition(":")[2])
    return None


def _in_background(work: Callable[[], object]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _log(message: str) -> None:
    # stderr is the keeper's log
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
