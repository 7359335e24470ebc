"""The embedded server with the real `temporal` program: who starts it, who shares it, and that nothing is left."""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.client import Client

from chargehand.local_server import is_held
from chargehand_cli.embedded.state import ServerNote, StateDirectory, WorkerCommand
from chargehand_cli.embedded.user import Departure, EmbeddedServer, EmbeddedServerFailed
from tests.child_processes import is_alive
from tests.waiting import hold_until

_WORKER = """
import os, pathlib, signal, sys, time
pathlib.Path(sys.argv[1]).open("a").write(os.environ["TEMPORAL_ADDRESS"] + "\\n")
def end(*_):
    time.sleep(float(sys.argv[2]))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
while True:
    signal.pause()
"""

_USER = """
import sys
from pathlib import Path
from chargehand_cli.embedded.user import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), None)
server.join()
print(server.wait().server_pid, flush=True)
sys.stdin.read()
"""


def processes(note: ServerNote) -> list[int]:
    return [pid for pid in (note.keeper_pid, note.server_pid, note.worker_pid) if pid]


def all_gone(note: ServerNote) -> bool:
    return not any(is_alive(pid) for pid in processes(note))


def worker_command(directory: Path, *, end_seconds: float = 0) -> WorkerCommand:
    command = (sys.executable, "-c", _WORKER, str(directory / "addresses"), str(end_seconds))
    return WorkerCommand(command, directory, grace_seconds=10)


def start(state: Path, worker: WorkerCommand | None = None) -> tuple[EmbeddedServer, ServerNote]:
    server = EmbeddedServer(state, worker)
    server.join()
    return server, server.wait()


def serves(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def test_a_single_user_starts_server_and_worker_and_leaves_nothing(state: Path, tmp_path: Path) -> None:
    """The worker receives the server's address; after the user leaves, no process and no note remains."""
    server, note = start(state, worker_command(tmp_path))
    told = tmp_path / "addresses"
    # Another address comes before it if the server found its first port taken.
    hold_until(lambda: told.exists() and told.read_text().endswith(f"{note.address}\n"), "the start of the worker")
    served = serves(note.address)
    alive = [is_alive(pid) for pid in processes(note)]

    left = server.leave()

    assert (served, alive, left) == (True, [True, True, True], Departure.ENDED)
    assert all_gone(note)
    assert not (state / "server.json").exists()


@pytest.mark.nightly
def test_worker_runs_only_while_a_user_needs_it(state: Path, tmp_path: Path) -> None:
    """Readers start no worker; a worker ends with the user that asked for it, and the readers keep the server."""
    reader, reading = start(state)
    user, working = start(state, worker_command(tmp_path))
    hold_until((tmp_path / "addresses").exists, "the start of the worker")
    worker = working.worker_pid
    user_left = user.leave()
    hold_until(lambda: (note := reader.note()) is not None and not note.has_worker, "the end of the worker")
    served = serves(working.address)
    reader_left = reader.leave()

    assert (reading.has_worker, reading.worker_pid, working.has_worker) == (False, None, True)
    assert worker
    assert not is_alive(worker)
    assert (user_left, served, reader_left) == (Departure.OTHERS_STAY, True, Departure.ENDED)
    assert all_gone(working)


@pytest.mark.nightly
def test_server_can_linger_after_its_last_user(state: Path, tmp_path: Path) -> None:
    """It lingers without a worker, a handed-over lock keeps both running, and in the end nothing is left."""
    server, note = start(state, worker_command(tmp_path))
    server.hand_over([sys.executable, "-c", "import time; time.sleep(1)"])
    left = server.leave(linger_seconds=2)
    handed_over = server.note()
    hold_until(lambda: (now := server.note()) is None or not now.has_worker, "the end of the worker")
    lingering = serves(note.address)
    hold_until(lambda: not is_held(state / "keeper.lock"), "the end of the server")

    assert left is Departure.LINGERS
    assert handed_over
    assert (handed_over.has_worker, lingering) == (True, True)
    assert all_gone(note)


@pytest.mark.slow
def test_users_that_start_at_the_same_moment_get_one_server(state: Path) -> None:
    """Four concurrent users start one keeper, and all of them receive its server."""
    servers = [EmbeddedServer(state, None) for _ in range(4)]
    notes: list[ServerNote] = []

    def use(server: EmbeddedServer) -> None:
        server.join()
        notes.append(server.wait())

    threads = [threading.Thread(target=use, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers:
        server.leave()

    assert len(notes) == 4
    assert len(set(notes)) == 1
    assert all_gone(notes[0])


@pytest.mark.nightly
def test_killing_the_only_user_ends_the_server(state: Path) -> None:
    """Users are tracked only by locks that the operating system releases with their process."""
    with subprocess.Popen(
        [sys.executable, "-c", _USER, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout
        user.stdout.readline()
        note = StateDirectory(state).read_note()
        assert note
        user.kill()

    hold_until(lambda: all_gone(note), "the end of the server")
    assert not (state / "server.json").exists()


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
async def test_killed_keeper_is_replaced_and_sessions_survive(state: Path, tmp_path: Path) -> None:
    """kill -9 of the keeper ends server and worker; the next server has the same sessions at the same address."""
    server, note = start(state, worker_command(tmp_path))
    client = await Client.connect(note.address)
    await client.start_workflow("Anything", id="unfinished", task_queue="nobody")

    os.kill(note.keeper_pid, signal.SIGKILL)
    hold_until(lambda: all_gone(note), "the end of server and worker")
    again = server.wait()

    client = await Client.connect(again.address)
    description = await client.get_workflow_handle("unfinished").describe()
    server.leave()
    assert description.status is not None
    assert description.status.name == "RUNNING"
    assert again.keeper_pid != note.keeper_pid
    assert again.address == note.address


@pytest.mark.slow
def test_keeper_restarts_killed_server_and_worker_until_sigterm(state: Path, tmp_path: Path) -> None:
    """The server restarts at the same address; SIGTERM to the keeper ends every process."""
    server, note = start(state, worker_command(tmp_path))
    told = tmp_path / "addresses"
    hold_until(told.exists, "the start of the worker")
    assert note.worker_pid

    os.kill(note.worker_pid, signal.SIGKILL)
    hold_until(lambda: told.read_text().count("\n") == 2, "the second start of the worker")
    hold_until(lambda: (now := server.note()) is not None and now.worker_pid not in (note.worker_pid, None), "its note")
    replaced = server.wait()
    os.kill(note.server_pid, signal.SIGKILL)
    hold_until(lambda: (now := server.note()) is not None and now.server_pid != note.server_pid, "the new server")
    again = server.wait()
    served = serves(again.address)
    os.kill(note.keeper_pid, signal.SIGTERM)
    hold_until(lambda: not is_held(state / "keeper.lock"), "the end of the keeper")

    assert (replaced.worker_deaths, replaced.worker_exit_code) == (1, -signal.SIGKILL)
    assert (served, again.address, again.keeper_pid) == (True, note.address, note.keeper_pid)
    assert server.note() is None
    assert all_gone(note)
    assert all_gone(again)
    server.leave()


@pytest.mark.nightly
def test_user_that_joins_during_shutdown_gets_a_new_server(state: Path, tmp_path: Path) -> None:
    """It waits until the shutdown ends, then starts a new keeper."""
    first, note = start(state, worker_command(tmp_path, end_seconds=1))
    hold_until((tmp_path / "addresses").exists, "the start of the worker")
    leaving = threading.Thread(target=first.leave)
    leaving.start()
    hold_until(lambda: not (state / "server.json").exists(), "the beginning of the shutdown")

    second, again = start(state)
    leaving.join()
    served = serves(again.address)
    second.leave()

    assert served
    assert again.keeper_pid != note.keeper_pid


@pytest.mark.nightly
def test_occupied_ports_are_avoided(state: Path) -> None:
    """With 7233 and 8233 taken, the server and its Web UI listen on other ports."""
    strangers = [socket.socket(), socket.socket()]
    for stranger, port in zip(strangers, (7233, 8233), strict=True):
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # already taken by another program, which serves the purpose too
            stranger.bind(("127.0.0.1", port))
            stranger.listen()

    server, note = start(state)
    server.leave()
    for stranger in strangers:
        stranger.close()

    assert not note.address.endswith(":7233")
    assert not note.ui_url.endswith(":8233")


def listening(pid: int) -> list[tuple[str, int]]:
    """List the addresses that a process listens on, according to the kernel."""
    sockets = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    found: list[tuple[str, int]] = []
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            host, _, port = local.partition(":")
            if state == "0A" and f"socket:[{inode}]" in sockets:
                name = socket.inet_ntoa(bytes.fromhex(host)[::-1]) if len(host) == 8 else host
                found.append((name, int(port, 16)))
    return found


def ask(port: int, host: str, request: str, origin: str = "") -> bytes:
    """Send a request to a port of 127.0.0.1 as a page of this host would."""
    head = f"{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    head += f"Origin: {origin}\r\n" if origin else ""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        return b"".join(iter(lambda: connection.recv(65_536), b""))
    return b""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only there is the Web UI's own address unknown to web pages")
def test_dns_rebinding_requests_are_rejected(state: Path) -> None:
    """No server or keeper port on 127.0.0.1 answers a request whose Host or Origin names another host."""
    server, note = start(state)
    addresses = listening(note.server_pid) + listening(note.keeper_pid)
    ports = [port for host, port in addresses if host == "127.0.0.1"]
    read, write = "GET /api/v1/namespaces", "POST /api/v1/namespaces/default/workflows/rebound"
    rebound = [
        ask(port, f"rebound.example:{port}", request, origin)
        for port in ports
        for request in (read, write)
        for origin in ("", f"http://rebound.example:{port}")
    ]
    guard = int(note.ui_url.rpartition(":")[2])
    # The Web UI takes a while to reconnect to the server.
    hold_until(lambda: b"namespaceInfo" in ask(guard, f"127.0.0.1:{guard}", read), "an answer of the Web UI")
    server.leave()

    assert {guard, int(note.address.rpartition(":")[2])} < set(ports)
    assert all(host.startswith("127.") for host, _ in addresses)
    assert [each for each in rebound if b" 200 " in each[:20] or b"namespaceInfo" in each or b"_csrf" in each] == []


@pytest.mark.nightly
def test_stale_note_without_a_keeper_is_ignored(state: Path) -> None:
    """A note left by a power cut may name a port that another program uses by now, so it is replaced."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        directory = StateDirectory(state)
        directory.create()
        directory.write_note(ServerNote(address, "http://127.0.0.1:8233", os.getpid(), os.getpid()))

        server, note = start(state)
        server.leave()

    assert note.address != address
    assert note.keeper_pid != os.getpid()


def test_server_start_failure_reports_the_cause(state: Path) -> None:
    """The error quotes the server's last output and names the log file."""
    directory = StateDirectory(state)
    directory.create()
    directory.database.write_text("this is not a database " * 100)
    server = EmbeddedServer(state, None)
    server.join()

    with pytest.raises(EmbeddedServerFailed) as failure:
        server.wait()

    server.leave()
    assert "file is not a database" in str(failure.value)
    assert str(directory.keeper_log) in str(failure.value)


def test_missing_worker_command_is_reported(state: Path, tmp_path: Path) -> None:
    """A worker command that does not exist is an error at once and is not retried forever."""
    server = EmbeddedServer(state, WorkerCommand(("/nowhere/python",), tmp_path))
    server.join()

    with pytest.raises(EmbeddedServerFailed, match="'/nowhere/python' cannot be run: No such file"):
        server.wait()

    assert server.leave() is Departure.ENDED
