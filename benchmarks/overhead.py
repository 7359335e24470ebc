"""Time spent before and around the work: starting a worker, the command line, and a whole `chargehand run`."""

import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.jobs import until_polled
from benchmarks.tables import Row

_REPETITIONS: Final = 5
_RUNS: Final = 3
_CLI: Final = str(Path(sys.executable).parent / "chargehand")
_EXAMPLES: Final = processes.ROOT / "examples"


async def overhead() -> tuple[Sequence[Row], Sequence[str]]:
    """Start things repeatedly, after one unmeasured start: bytecode and disk caches are warm."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        with processes.server(folder) as server:
            starts = [await _worker_start(server.address, folder, number) for number in range(_REPETITIONS + 1)]
    helps = [_command([_CLI, "--help"]) for _ in range(_REPETITIONS + 1)]
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        question = (_EXAMPLES / "question.txt").read_text().strip()
        documents = str(_EXAMPLES / "harbour-ferries")
        run = [_CLI, "run", "--quiet", "--state-dir", name, "--docs", documents, "--", question]
        runs = [_command(run) for _ in range(_RUNS + 1)]
        firsts = [_first_words([each for each in run if each != "--quiet"]) for _ in range(_REPETITIONS)]
        _command([_CLI, "list", "--state-dir", name])  # waits until the server has ended
    rows = [
        _row("worker process, start to first poll", starts[1:]),
        _row("chargehand --help", helps[1:]),
        _row("chargehand run, examples, first on a new state directory", runs[:1]),
        _row("chargehand run, examples, later ones", runs[1:], 6.0),
        _row("chargehand run, on a terminal, first words on the screen", firsts, 1.5),
    ]
    return rows, ()


async def _worker_start(address: str, folder: Path, number: int) -> float:
    queue = f"start-{number}"
    log = folder / f"{queue}.log"
    settings = {
        "TEMPORAL_ADDRESS": address,
        "CHARGEHAND_TASK_QUEUE": queue,
        "CHARGEHAND_STATE_DIR": str(folder / "state"),
    }
    started_at = time.perf_counter()
    with processes.process([sys.executable, str(processes.ROOT / "worker_main.py")], log, **settings) as started:
        await until_polled(processes.Worker(started, log, queue))
        return time.perf_counter() - started_at


def _command(command: Sequence[str]) -> float:
    started_at = time.perf_counter()
    ended = subprocess.run(
        command,
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
        env=processes.environment(),
        cwd=processes.ROOT,
    )
    if ended.returncode not in (0, 3):
        raise RuntimeError(f"{command[1]} ended with {ended.returncode}: {ended.stderr[-2_000:]}")
    return time.perf_counter() - started_at


def _first_words(command: Sequence[str]) -> float:
    """Time a command at a terminal until its first output; then end it."""
    ours, theirs = pty.openpty()
    started_at = time.perf_counter()
    environment = processes.environment() | {"TERM": "xterm"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=processes.ROOT
    ) as running:
        os.close(theirs)
        os.read(ours, 4_096)
        seconds = time.perf_counter() - started_at
        running.kill()  # otherwise it would leave its server up for ten minutes
    os.close(ours)
    return seconds


def _row(what: str, seconds: Sequence[float], target: float | None = None) -> Row:
    median = statistics.median(seconds)
    return {
        "": what,
        "median, s": median,
        "min, s": min(seconds),
        "max, s": max(seconds),
        "at most": target,
        "verdict": None if target is None else "pass" if median <= target else "MISS",
    }
