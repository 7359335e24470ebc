"""Where experiments run: a server with its database, released workers, a provider that records charges."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from temporalio.service import RPCError

from chaos import books
from chaos.result import Demand, Result
from chargehand.client import Chargehand
from chargehand.contracts import Report, SessionRequest
from chargehand.errors import ChargehandError, NotReachable, SessionEnded, SessionNotFound
from chargehand_cli.embedded.program import find_temporal
from chargehand_cli.embedded.server import ServerProcess, end_process, start_server
from chargehand_plugins.search_services.tests.engine_server import EngineServer, serve_engine
from tests.scripted_provider import Respond, ScriptedProvider, canned_session

ROOT: Final = Path(__file__).resolve().parents[1]
SHIPPED: Final = (sys.executable, str(ROOT / "worker_main.py"))
QUEUE: Final = "chaos"
RECORDED_AFTER: Final = 0.5
"""Seconds until an answer is recorded, on a busy machine."""
_KEPT: Final = ("PATH", "HOME", "PYTHONPATH")
SUBTASKS: Final = 2
STEPS: Final = 2 + 2 * SUBTASKS
"""Model calls of one session without faults: a plan, two turns per subtask, a report."""
_ANSWERS: Final = {1: "This part was looked into.", SUBTASKS: f"All {SUBTASKS} parts were looked into."}
"""Answers of sessions without faults, by number of subtasks; a single subtask's answer is the report."""
PATIENT: Final = {"deadline": 6 * 3_600, "subtask_deadline": 3_600}
"""Limits that no session reaches because of a slow machine."""
_MODELS: Final = {tier: f"{tier}-1" for tier in ("small", "medium", "large")}


def script(delay: float = 0.05) -> Respond:
    """Answer a session of two subtasks, each with one search."""
    return canned_session(subtasks=SUBTASKS, rounds=1, agents=("researcher",), delay=delay)


def brief(delay: float = 0.05) -> Respond:
    """Answer the smallest session with two model calls: a plan of one subtask, whose answer is the report."""
    return canned_session(subtasks=1, rounds=0, agents=("researcher",), delay=delay)


class Worker:
    """A separate process, `worker_main.py` by default, that can be killed, stopped and restarted."""

    def __init__(self, settings: Mapping[str, str], log: Path, command: Sequence[str] = SHIPPED) -> None:
        self._settings = dict(settings)
        self._log = log
        self._command = command
        self.process: asyncio.subprocess.Process | None = None
        self._said_before = 0

    async def start(self) -> None:
        """Start a process; any earlier one must have ended."""
        environment = {name: value for name, value in os.environ.items() if name in _KEPT} | self._settings
        self._said_before = len(self.log)
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command, env=environment, cwd=ROOT, stdout=log, stderr=log
            )

    @property
    def running(self) -> asyncio.subprocess.Process:
        """The process started last."""
        assert self.process is not None
        return self.process

    @property
    def log(self) -> str:
        """Its whole output."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def polls(self) -> bool:
        """Whether the process started last has begun to poll.

        Raises:
            RuntimeError: it has ended.
        """
        if self.running.returncode is not None:
            raise RuntimeError(f"the worker ended: {self.log[-1_000:]}")
        return "worker polls" in self.log[self._said_before :]

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.running.send_signal(number)

    async def kill(self) -> None:
        """Kill it immediately."""
        if self.running.returncode is None:
            self.running.kill()
        await self.running.wait()

    async def restart(self) -> None:
        """Kill and restart it."""
        await self.kill()
        await self.start()


@dataclass(frozen=True)
class Outcome:
    """The result of a session."""

    session: str
    seconds: float
    report: Report | None = None
    ended: str = ""
    """How it ended without a report."""
    is_stuck: bool = False


@dataclass
class Harness:
    """A running scene."""

    folder: Path
    provider: ScriptedProvider
    search: EngineServer
    server: ServerProcess
    chargehand: Chargehand
    settings: dict[str, str]
    lock: int
    closing: AsyncExitStack
    workers: list[Worker] = field(default_factory=list[Worker])
    faults: int = 0
    in_flight: int = 0
    just_answered: int = 0
    """Calls answered so shortly before a fault that the answer may not have been recorded yet."""

    async def worker(self, command: Sequence[str] = SHIPPED, **more: str) -> Worker:
        """Run one more worker and wait until it polls."""
        number = len(self.workers)
        worker = Worker(self.settings | more, self.folder / f"worker-{number}.log", command)
        self.workers.append(worker)
        await worker.start()
        self.closing.push_async_callback(worker.kill)
        await self.polled(worker)
        return worker

    async def polled(self, worker: Worker, seconds: float = 60) -> None:
        """Wait until the process started last polls."""
        await until(lambda: worker.polls, "a worker", seconds)

    def fault(self, count: int = 1) -> None:
        """Record a fault, and what was in progress when it happened."""
        self.faults += count
        answers = [each.answered_at for each in self.provider.exchanges if not each.hung_up]
        self.in_flight += answers.count(None)
        self.just_answered += sum(at is not None and at > time.time() - RECORDED_AFTER for at in answers)

    def require_no_other_calls(self, result: Result) -> None:
        """Report a problem if more was paid twice than the faults can have lost."""
        result.require(
            result.extra_calls <= self.in_flight + self.just_answered,
            f"{result.extra_calls} extra calls although only {self.in_flight} were under way at the faults, and "
            f"{self.just_answered} just answered",
        )

    def kill_server(self) -> None:
        """Kill the server immediately."""
        os.killpg(self.server.process.pid, signal.SIGKILL)
        self.server.process.wait()

    def start_server(self) -> None:
        """Restart the server with its database, at its address."""
        self.server = _server(self.folder, self.lock, self.server.port)

    async def session(self, session: str, seconds: float = 120, queue: str = QUEUE, **request: object) -> Outcome:
        """Start a session and wait for its end, whatever happens to the server."""
        began = time.monotonic()
        usual = {"goal": f"Look into all parts of the matter {session}.", "limits": PATIENT}
        asked = SessionRequest.model_validate(usual | request)
        chargehand = Chargehand(self.chargehand.client, queue)
        while time.monotonic() - began < seconds:
            try:
                async with asyncio.timeout(seconds - (time.monotonic() - began)):
                    started = await chargehand.start(asked, session_id=session)
                    report = await started.result()
                return Outcome(session, time.monotonic() - began, report)
            except TimeoutError:
                break
            except NotReachable:
                await asyncio.sleep(0.2)
            except SessionNotFound:
                return Outcome(session, time.monotonic() - began, ended="nobody knows it")
            except SessionEnded as error:
                return Outcome(session, time.monotonic() - began, ended=str(error))
            except ChargehandError as error:
                if not _is_passing(error):
                    raise
                await asyncio.sleep(0.2)
        return Outcome(session, time.monotonic() - began, is_stuck=True)

    async def sessions(self, count: int, *, at_once: int, prefix: str = "s", seconds: float = 300) -> list[Outcome]:
        """Run many sessions, several at a time."""
        free = asyncio.Semaphore(at_once)

        async def one(number: int) -> Outcome:
            async with free:
                return await self.session(f"{prefix}-{number:04}", seconds)

        return list(await asyncio.gather(*(one(number) for number in range(count))))

    async def sessions_until(self, enough: Callable[[int], bool], *, lines: int, seconds: float = 300) -> list[Outcome]:
        """Run sessions on parallel lines until there are enough of them, with at least one per line."""
        outcomes: list[Outcome] = []

        async def one_after_another(line: int) -> None:
            number = 0
            while number == 0 or not enough(len(outcomes)):
                outcomes.append(await self.session(f"s-{line}-{number:04}", seconds))
                number += 1

        await asyncio.gather(*(one_after_another(line) for line in range(lines)))
        return outcomes

    def judge(
        self,
        name: str,
        did: str,
        outcomes: Sequence[Outcome],
        began: float,
        demand: Demand,
        *,
        as_due: Callable[[Report], bool] | None = None,
    ) -> Result:
        """Compare the sessions' results and accounts with the expected ones."""
        as_due = as_due or is_as_without_faults
        reports = [outcome.report for outcome in outcomes if outcome.report]
        same = [report for report in reports if as_due(report)]
        charged = books.charges(self.provider.exchanges)
        result = Result(
            name,
            did,
            sessions=len(outcomes),
            lost=sum(bool(outcome.ended) for outcome in outcomes),
            stuck=sum(outcome.is_stuck for outcome in outcomes),
            different=len(reports) - len(same),
            faults=self.faults,
            successes=len(same),
            in_flight=self.in_flight,
            extra_calls=books.extra_calls(charged),
            books=books.differences(reports, charged),
            seconds=time.monotonic() - began,
        )
        result.demand(demand)
        result.problems += [f"{each.session}: {each.ended}" for each in outcomes if each.ended][:5]
        for report in reports:
            if not as_due(report):
                (self.folder / f"different-{report.session}.json").write_text(report.model_dump_json(indent=2))
                result.problems.append(
                    f"{report.session} says otherwise: {'; '.join(report.gaps)[:300] or report.answer[:200]}"
                )
        return result


def is_as_without_faults(report: Report) -> bool:
    """Return whether a report equals that of a run without faults."""
    return report.answer == _ANSWERS.get(len(report.subtasks)) and all(
        each.state == "success" for each in report.subtasks
    )


def _is_passing(error: ChargehandError) -> bool:
    return isinstance(error.__cause__, RPCError)


async def until(holds: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait until a condition of other processes is met.

    Raises:
        TimeoutError: it was not met in time.
    """
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110  # other processes set no events
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise TimeoutError(f"{what} was not there within {seconds:.0f} s") from None


@asynccontextmanager
async def open_harness(folder: Path, respond: Respond | None = None) -> AsyncGenerator[Harness]:
    """Set up an experiment in an existing folder; all its processes are gone afterwards."""
    async with AsyncExitStack() as closing:
        lock = closing.enter_context((folder / "server.lock").open("w"))
        search = closing.enter_context(serve_engine())
        ferries = {"title": "Ferries", "url": "https://example.org/ferries", "content": "At eight.", "score": 1}
        search.results_for = lambda _: [ferries]
        provider = await closing.enter_async_context(ScriptedProvider(respond or script()))
        server = _server(folder, lock.fileno(), 0)
        settings = {
            "TEMPORAL_ADDRESS": server.address,
            "CHARGEHAND_TASK_QUEUE": QUEUE,
            "CHARGEHAND_LOG_FORMAT": "text",
            "CHARGEHAND_STATE_DIR": str(folder / "state"),
            "OPENAI_BASE_URL": provider.openai_url,
            "CHARGEHAND_MODELS": json.dumps(_MODELS),
            "CHARGEHAND_PRICES": json.dumps(
                {name: [float(price) for price in books.PRICES] for name in _MODELS.values()}
            ),
            "TAVILY_API_KEY": "scripted",
            "TAVILY_BASE_URL": search.url,
        }
        chargehand = await Chargehand.connect(server.address, task_queue=QUEUE)
        harness = Harness(folder, provider, search, server, chargehand, settings, lock.fileno(), closing)
        closing.callback(lambda: end_process(harness.server.process, grace_seconds=5))
        yield harness


def _server(folder: Path, lock: int, prefer: int) -> ServerProcess:
    return start_server(
        find_temporal(), folder / "temporal.db", folder / "server.log", lock_descriptor=lock, prefer=prefer
    )
