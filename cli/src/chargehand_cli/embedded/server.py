"""The Temporal development server as a child process. Standard library only.

Its defaults suit interactive use: 50 ms between steps, timers on the second, a full disk sync per write. The settings
here remove these delays. Only servers started by this module are used.
"""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from chargehand.local_server import TEMPORAL_PORT
from chargehand.wire import SEARCH_ATTRIBUTE_TYPES

HOST: Final = "127.0.0.1"
WEB_UI_PORT: Final = 8233
_TRIES: Final = 5
_START_SECONDS: Final = 30
_PR_SET_PDEATHSIG: Final = 1
_ENVIRONMENT: Final = ("PATH", "HOME", "TMPDIR", "TZ", "LANG")
_GO: Final = {"GOGC": "400", "GOMEMLIMIT": "1GiB", "GOMAXPROCS": str(max(1, (os.cpu_count() or 1) // 2))}
"""Go runtime settings of the server: less garbage collection, half of the cores left to workers (decision 0012)."""

DYNAMIC_CONFIG: Final = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    'history.timerProcessorMaxTimeShift="10ms"',
    'history.defaultWorkflowTaskTimeout="3s"',  # workflow tasks of a killed worker are retried
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
    "matching.enableFairness=true",
    "frontend.WorkflowPauseEnabled=true",
)

SEARCH_ATTRIBUTES: Final = tuple(
    part for name, kind in SEARCH_ATTRIBUTE_TYPES.items() for part in ("--search-attribute", f"{name}={kind}")
)
"""Options that register the search attributes of sessions; existing ones are kept."""


class ServerFailed(Exception):  # noqa: N818  # reads as a statement: `except ServerFailed`
    """The server or the worker could not be started; the message is the end of its output."""


def server_command(binary: Path, *, port: int, ui: tuple[str, int], database: Path) -> list[str]:
    """Build the command line of a tuned server whose HTTP API is unreachable for web pages."""
    command = [str(binary), "server", "start-dev", "--ip", HOST, "--port", str(port), "--log-level", "warn"]
    # Otherwise every page of the Web UI contacts its vendor and identifies the server.
    command += ["--ui-ip", ui[0], "--ui-port", str(ui[1]), "--ui-disable-news-fetch"]
    command += ["--db-filename", str(database)]
    command += ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]
    # The HTTP API cannot be turned off and by default accepts any `Host`; no web page has this name.
    for setting in (*DYNAMIC_CONFIG, f'frontend.httpAllowedHosts=["{secrets.token_hex(16)}.invalid"]'):
        command += ["--dynamic-config-value", setting]
    return [*command, *SEARCH_ATTRIBUTES]


class ServerProcess(NamedTuple):
    """A running server that owns its ports."""

    process: subprocess.Popen[bytes]
    port: int
    ui: tuple[str, int]
    """Address of the Web UI, which accepts any `Host`; users get the guard's address instead."""

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


def start_server(
    binary: Path,
    database: Path,
    log: Path,
    *,
    lock_descriptor: int,
    prefer: int | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> ServerProcess:
    """Start a server and wait until it serves; retry with other ports if the chosen ones get taken.

    `announce` receives the address as soon as the process has been started, before it serves.

    Raises:
        ServerFailed: the process exited or never served.
    """
    # Without keys, and without client settings meant for other servers.
    inherited = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment = inherited | {"TEMPORAL_VERSION_CHECK_DISABLED": "1"} | _GO
    words = ""
    for attempt in range(_TRIES):
        candidates = (TEMPORAL_PORT if prefer is None else prefer, TEMPORAL_PORT) if attempt == 0 else ()
        port = _free_port(HOST, candidates)
        ui = _hidden_address()
        log_offset = log.stat().st_size if log.exists() else 0
        command = server_command(binary, port=port, ui=ui, database=database)
        process = spawn(command, log, environment=environment, death_signal=signal.SIGTERM, keep=(lock_descriptor,))
        announce(f"{HOST}:{port}")
        if _comes_up(process, log, log_offset):
            return ServerProcess(process, port, ui)
        code = process.poll()
        end_process(process, grace_seconds=5)
        silence = f"no output within {_START_SECONDS} s" if code is None else f"it exited with code {code}"
        words = _output(log, log_offset).strip() or silence
        if "address already in use" not in words:
            break
    raise ServerFailed(words)


def spawn(
    command: list[str],
    log: Path,
    *,
    environment: dict[str, str],
    death_signal: signal.Signals,
    keep: Iterable[int] = (),
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that logs to a file and, on Linux, ends with the calling thread.

    Raises:
        ServerFailed: the program does not exist.
    """
    with log.open("ab") as output:
        try:
            return subprocess.Popen(  # noqa: S603  # the caller's own command, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
                pass_fds=tuple(keep),
                process_group=0,
                preexec_fn=_die_with_parent(death_signal) if sys.platform == "linux" else None,  # noqa: PLW1509  # one system call, no lock taken
            )
        except OSError as error:
            raise ServerFailed(f"'{command[0]}' cannot be run: {error.strerror}") from error


def end_process(process: subprocess.Popen[bytes], *, grace_seconds: float) -> None:
    """Terminate a process; kill its process group after the grace period."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # the parent died before the signal was set up
            os._exit(1)

    return arrange


def _comes_up(process: subprocess.Popen[bytes], log: Path, log_offset: int) -> bool:
    """Wait for the banner that the process prints once it listens, which proves that it owns the port."""
    give_up_at = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < give_up_at:
        if "Temporal Server:" in _output(log, log_offset):
            return True
        time.sleep(0.01)
    return False


def _output(log: Path, log_offset: int) -> str:
    with log.open("rb") as text:
        text.seek(log_offset)
        return text.read(65_536).decode(errors="replace")


def _hidden_address() -> tuple[str, int]:
    """Choose a loopback address that a web page cannot guess; if only `HOST` exists, only the port is random."""
    hidden = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    with suppress(ServerFailed):
        return hidden, _free_port(hidden)
    return HOST, _free_port(HOST)


def _free_port(host: str, candidates: Iterable[int] = ()) -> int:
    for wanted in (*candidates, 0):
        if held := listening_socket(wanted, host):
            with held:
                return int(held.getsockname()[1])
    raise ServerFailed(f"no free port on {host}")


def listening_socket(port: int, host: str = HOST) -> socket.socket | None:
    """Listen on a port as the server would; None if it is taken. Port 0 chooses a free one."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError:
        listening.close()
        return None
    return listening
