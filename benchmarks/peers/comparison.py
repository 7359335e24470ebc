"""The main job in Chargehand and other frameworks, alternating: time, cost, a crash in the middle, a cap."""

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.jobs import until_polled
from benchmarks.peers.frameworks import CHARGEHAND, FRAMEWORKS, Program, install
from benchmarks.peers.script import respond
from benchmarks.scripted import CONTENT, TURN, Shape, input_bytes
from benchmarks.tables import Row
from tests.scripted_provider import ScriptedProvider

_WARM_UP: Final = 2
_JOBS: Final = 6
_CRASHES: Final = 2
_CAP: Final = 8
"""Maximum model calls: a plan, three agents and a report."""
_QUEUE: Final = "peers"
_SETTLING_SECONDS: Final = 0.05


Moment = Callable[[ScriptedProvider], bool]
"""Returns whether a job has reached a certain point."""


@dataclass(frozen=True)
class Job:
    """What one job took."""

    wall: float
    cpu: Mapping[str, float]
    requests: int
    input_bytes: int


@dataclass(frozen=True)
class Crash:
    """What a job took whose process was killed and restarted at once."""

    seconds: float
    paid_twice: float


class Contender:
    """A framework's program, which runs jobs, is killed, and restarts."""

    def __init__(self, program: Program, provider: ScriptedProvider, server_pid: int) -> None:
        self.name = program.framework.name
        self.program = program
        self.provider = provider
        self._server = {"server": server_pid} if program.framework.uses_server else {}
        self.start_seconds = 0.0
        self.jobs: list[Job] = []
        self._number = 0

    @property
    def pids(self) -> Mapping[str, int]:
        return {"program": self.program.pid, **self._server}

    async def start(self) -> None:
        self.start_seconds = await self.program.start()

    def peak_rss_bytes(self) -> int:
        """Return the peak resident memory of all processes together."""
        return sum(processes.peak_rss_bytes(pid) for pid in self.pids.values())

    async def measure(self) -> Job:
        """Do one job."""
        self.provider.exchanges.clear()
        before = {name: processes.cpu_seconds(pid) for name, pid in self.pids.items()}
        started_at = time.perf_counter()
        ended = await self.program.run(self.next_id())
        wall = time.perf_counter() - started_at
        await asyncio.sleep(_SETTLING_SECONDS)
        cpu = {name: processes.cpu_seconds(pid) - before[name] for name, pid in self.pids.items()}
        self.require_whole(ended)
        requests = self.provider.requests
        return Job(wall, cpu, len(requests), sum(input_bytes(request) for request in requests))

    async def crash(self, moment: Moment, pause: float) -> Crash:
        """Kill the process a little after a moment, and restart it."""
        self.provider.exchanges.clear()
        job = self.next_id()
        running = asyncio.create_task(self.program.run(job))
        await self.provider.until(lambda: moment(self.provider))
        await asyncio.sleep(pause)
        killed_at = time.perf_counter()
        self.require_whole(await self.resume(job, running))
        return Crash(time.perf_counter() - killed_at, len(self.provider.requests) - self.jobs[-1].requests)

    async def resume(self, job: str, running: asyncio.Task[dict[str, str]]) -> dict[str, str]:
        await self.program.kill()
        await asyncio.gather(running, return_exceptions=True)
        await self.program.start()
        return await self.program.run(job)

    async def limited(self) -> Row:
        """Run the job under a cap on model calls."""
        self.provider.exchanges.clear()
        ended = await self.program.run(self.next_id(), _CAP)
        await asyncio.sleep(1)  # calls that continue after the end
        return {
            "": self.name,
            "model calls": len(self.provider.requests),
            "end": ended.get("error", "an answer").partition(":")[0],
        }

    def next_id(self) -> str:
        self._number += 1
        return f"{self.program.framework.program}-{self._number}"

    def require_whole(self, ended: Mapping[str, str]) -> None:
        """Raise unless the answer was written from what all five agents found."""
        read = max(request.text.count(CONTENT.strip()) for request in self.provider.requests)
        if ended["state"] != "answered" or len(ended["answer"]) < len(CONTENT) or read < Shape().subtasks:
            raise RuntimeError(f"{self.name} did not do the job: {ended}, {read} findings in one prompt at most")


class Own(Contender):
    """Chargehand: the program is a client; of the server and the worker, the worker is killed."""

    def __init__(
        self, program: Program, provider: ScriptedProvider, address: str, server_pid: int, folder: Path
    ) -> None:
        super().__init__(program, provider, server_pid)
        self._address = address
        self._folder = folder
        self._worker: processes.Worker | None = None
        self._workers = ExitStack()

    @property
    def pids(self) -> Mapping[str, int]:
        assert self._worker
        return {**super().pids, "worker": self._worker.process.pid}

    async def start(self) -> None:
        started_at = time.perf_counter()
        await self._start_worker()
        await super().start()
        self.start_seconds = time.perf_counter() - started_at

    async def _start_worker(self) -> None:
        provider = self.provider.base_url
        self._worker = self._workers.enter_context(
            processes.worker("own", self._address, _QUEUE, self._folder, provider)
        )
        await until_polled(self._worker)

    async def stop(self) -> None:
        self._workers.close()

    async def resume(self, job: str, running: asyncio.Task[dict[str, str]]) -> dict[str, str]:  # noqa: ARG002
        assert self._worker
        os.kill(self._worker.process.pid, signal.SIGKILL)
        self._worker.process.wait()
        await self._start_worker()
        return await running


async def peers() -> tuple[Sequence[Row], Sequence[str]]:
    """Install every framework, run them alternately, crash them, and limit them."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        async with _contenders(Path(name)) as contenders:
            for number in range(_WARM_UP + _JOBS):
                for contender in contenders:
                    job = await contender.measure()
                    if number >= _WARM_UP:
                        contender.jobs.append(job)
            caps = [await contender.limited() for contender in contenders]
            memory = {contender.name: contender.peak_rss_bytes() for contender in contenders}
            in_tools = await _crashes(contenders, _agents_search, 0.06)
            in_turns = await _crashes(contenders, _agents_answer, 0.1)
    rows = [
        _row(contender, memory[contender.name], in_tools[contender.name], in_turns[contender.name], cap)
        for contender, cap in zip(contenders, caps, strict=True)
    ]
    return rows, _notes()


@asynccontextmanager
async def _contenders(folder: Path) -> AsyncGenerator[Sequence[Contender]]:
    async with ScriptedProvider(respond) as provider, AsyncExitStack() as closing:
        server = closing.enter_context(processes.server(folder))
        contenders: list[Contender] = []
        for framework in FRAMEWORKS:
            python = await asyncio.to_thread(install, framework, folder)
            program = Program(
                framework, python, folder, OPENAI_BASE_URL=provider.openai_url, TEMPORAL_ADDRESS=server.address
            )
            closing.push_async_callback(program.kill)
            if framework is CHARGEHAND:
                own = Own(program, provider, server.address, server.process.pid, folder)
                closing.push_async_callback(own.stop)
                contenders.append(own)
            else:
                contenders.append(Contender(program, provider, server.process.pid))
            await contenders[-1].start()
        yield contenders


async def _crashes(contenders: Sequence[Contender], moment: Moment, pause: float) -> Mapping[str, Crash]:
    """Crash each one several times, alternating."""
    seen: dict[str, list[Crash]] = {contender.name: [] for contender in contenders}
    for _ in range(_CRASHES):
        for contender in contenders:
            seen[contender.name].append(await contender.crash(moment, pause))
    return {
        name: Crash(
            statistics.median(crash.seconds for crash in crashes),
            statistics.median(crash.paid_twice for crash in crashes),
        )
        for name, crashes in seen.items()
    }


def _agents_search(provider: ScriptedProvider) -> bool:
    """Return whether the plan and the first turn of each agent are answered."""
    return sum(exchange.answered_at is not None for exchange in provider.exchanges) > Shape().subtasks


def _agents_answer(provider: ScriptedProvider) -> bool:
    """Return whether each agent waits for its second turn."""
    return len(provider.exchanges) > 2 * Shape().subtasks


def _row(contender: Contender, memory: int, in_tools: Crash, in_turns: Crash, cap: Row) -> Row:
    jobs = contender.jobs
    own = {name for name in jobs[0].cpu if name != "server"}
    cpu = statistics.median(sum(job.cpu[name] for name in own) for job in jobs)
    return {
        "": contender.name,
        "lines": contender.program.framework.lines,
        "start, s": contender.start_seconds,
        "wall/ideal": statistics.median(job.wall for job in jobs) / (Shape().ideal - TURN).total_seconds(),
        "CPU, ms": cpu * 1_000,
        "and server": statistics.median(sum(job.cpu.values()) for job in jobs) * 1_000,
        "RSS, MB": memory / 1e6,
        "calls": jobs[-1].requests,
        "input, kB": jobs[-1].input_bytes / 1e3,
        "killed in tools: s": in_tools.seconds,
        "paid twice": in_tools.paid_twice,
        "killed in turns: s": in_turns.seconds,
        "paid  twice": in_turns.paid_twice,
        f"calls, cap {_CAP}": cap["model calls"],
        "ended with": cap["end"],
    }


def _notes() -> Sequence[str]:
    versions = [" ".join(framework.packages) for framework in FRAMEWORKS if framework.packages]
    return [
        "Chargehand alone takes a turn more, which judges the report's claims; the ideal has none",
        f"{_JOBS} jobs each by turns after {_WARM_UP} to warm up; medians",
        f"{_CRASHES} crashes each at two moments, by turns; medians",
        f"Python {sys.version.split()[0]}, {', '.join(versions)}",
    ]
