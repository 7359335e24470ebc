"""The processes of a benchmark: server, workers and provider on loopback, and the resources that they use."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import httpx2

from benchmarks.scripted import MODEL_NAME, WIDEST
from chargehand_cli.embedded.program import find_temporal
from chargehand_cli.embedded.server import ServerProcess, end_process, spawn, start_server

Kind = Literal["own", "own-step", "hand-written"]
"""The released worker, the same with one activity per tool call, and the worker of hand-written workflows."""
ROOT: Final = Path(__file__).resolve().parent.parent
_CPUCLOCK_SCHED: Final = 2
_LISTENS: Final = "0A"
"""State of a listening socket in /proc/PID/net/tcp."""
_READY: Final = b"worker polls"
"""Log text of a worker that has started polling."""
_LEFT_OUT: Final = (
    *("TEMPORAL_", "CHARGEHAND_", "ANTHROPIC_", "OPENAI_", "TAVILY_", "E2B_", "OTEL_"),
    "PYTHONDONTWRITEBYTECODE",
)
"""User settings that would change the measurements; without bytecode, every start compiles again."""


@dataclass(frozen=True)
class Worker:
    """A worker process and the queue that it polls."""

    process: subprocess.Popen[bytes]
    log: Path
    task_queue: str

    @property
    def polls(self) -> bool:
        """Whether it reports that it is ready.

        Raises:
            RuntimeError: it has ended.
        """
        require_alive(self.process, self.log)
        return _READY in self.log.read_bytes()


def environment(**more: str) -> dict[str, str]:
    """Build the environment of a measured process."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)} | more


@contextmanager
def server(folder: Path) -> Generator[ServerProcess]:
    """Run the embedded server with its production settings and a database in this folder."""
    with (folder / "server.lock").open("w") as lock:
        running = start_server(
            find_temporal(),
            folder / "temporal.db",
            folder / "server.log",
            lock_descriptor=lock.fileno(),
            prefer=0,  # any free port: 7233 is left to its users
        )
        try:
            yield running
        finally:
            end_process(running.process, grace_seconds=5)


@contextmanager
def worker(kind: Kind, address: str, task_queue: str, folder: Path, provider: str, **more: str) -> Generator["Worker"]:
    """Run a worker that uses the scripted provider; it may not poll yet when this returns."""
    settings = {
        "TEMPORAL_ADDRESS": address,
        "CHARGEHAND_TASK_QUEUE": task_queue,
        "CHARGEHAND_STATE_DIR": str(folder / "state"),
        "CHARGEHAND_PROVIDER": "openai",
        "OPENAI_API_KEY": "scripted",
        "OPENAI_BASE_URL": f"{provider}/v1",
        "CHARGEHAND_MODELS": json.dumps(dict.fromkeys(("small", "medium", "large"), MODEL_NAME)),
        "CHARGEHAND_PRICES": json.dumps({MODEL_NAME: [1, 5]}),
        "TAVILY_API_KEY": "scripted",  # never called: the tools are scripted
    }
    log = folder / f"{task_queue}.log"
    log.unlink(missing_ok=True)
    with process([sys.executable, "-m", "benchmarks.worker", kind], log, **settings | more) as started:
        yield Worker(started, log, task_queue)


def wide(folder: Path) -> dict[str, str]:
    """Configure a worker for the widest and longest job: large-payload storage keeps histories small."""
    return {"CHARGEHAND_CEILINGS": WIDEST.model_dump_json(), "CHARGEHAND_STORAGE": str(folder / "payloads")}


@contextmanager
def process(command: list[str], log: Path, **more: str) -> Generator[subprocess.Popen[bytes]]:
    """Run one of our programs; it ends with the block, and with this process."""
    started = spawn(command, log, environment=environment(**more), death_signal=signal.SIGKILL, directory=ROOT)
    try:
        yield started
    finally:
        end_process(started, grace_seconds=5)


@contextmanager
def provider(folder: Path) -> Generator[str]:
    """Run the scripted provider; yield its address."""
    log = folder / "provider.log"
    command = [sys.executable, "-m", "benchmarks.scripted"]
    with process(command, log) as started:
        while not log.read_bytes().endswith(b"\n"):
            require_alive(started, log)
            time.sleep(0.01)
        yield log.read_text().split()[0]


def require_alive(started: subprocess.Popen[bytes], log: Path) -> None:
    """Raise an error with the last output of a process if it has ended."""
    if started.poll() is not None:
        raise RuntimeError(f"A process of the benchmark ended: {log.read_text()[-2_000:]}")


def persistence_requests(pid: int) -> Counter[str]:
    """Read the number of a server's database requests, by operation, from its metrics."""
    for port in _listening(pid):
        with suppress(httpx2.HTTPError):
            text = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
            if found := re.findall(r'^persistence_requests\{.*operation="(\w+)".*\} (\d+)$', text, re.MULTILINE):
                counted: Counter[str] = Counter()
                for operation, count in found:
                    counted[operation] += int(count)
                return counted
    raise RuntimeError("the server shows no metrics")


def _listening(pid: int) -> Iterator[int]:
    """Find the ports that a process listens on; the server chooses its metrics port itself."""
    own = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, address, _, state, *others = line.split()
        if state == _LISTENS and f"socket:[{others[5]}]" in own:
            yield int(address.rpartition(":")[2], 16)


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process, in ns steps unlike /proc/PID/stat."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def machine_cpu_seconds() -> float:
    """Return how long the cores available to this process were busy, with any work, or taken away."""
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for name, *states in map(str.split, Path("/proc/stat").read_text().splitlines()):
        if name in cores:
            user, nice, system, _idle, _waits, *interrupts_and_stolen = map(int, states[:8])
            ticks += user + nice + system + sum(interrupts_and_stolen)
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_bytes(pid: int) -> int:
    """Return the peak resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]
    return int(kilobytes) * 1024
