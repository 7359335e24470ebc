"""Run a desk's tasks as conversations on a real server, with the released worker process and optional faults."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Final, TypeVar
from uuid import uuid4

from temporalio.client import Client
from temporalio.service import RPCError

from activities.models.failures import ProviderError
from benchmarks.evaluation.dataset import Backend
from benchmarks.evaluation.desks import plugin
from benchmarks.evaluation.desks.desk import Desk, Task
from benchmarks.evaluation.desks.oracle import ScriptedUser, goal_of
from benchmarks.evaluation.desks.service import Service, problems_of, serve, untold
from benchmarks.evaluation.desks.user import ModelUser
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.scores import Scores
from benchmarks.evaluation.spending import Spending
from chaos.harness import Worker, until
from chargehand.client import Chargehand
from chargehand.contracts import ConversationEnd, ConversationLimits, ConversationMessage
from chargehand.converter import data_converter
from chargehand.errors import AlreadyEnded, ChargehandError, NotReachable, NoWorker
from chargehand.messages import ConversationMessages
from chargehand_cli.embedded.program import find_temporal
from chargehand_cli.embedded.server import ServerProcess, end_process, start_server

LIMITS: Final = ConversationLimits(max_rounds=20, subtask_deadline=timedelta(minutes=30))
_MOST_MESSAGES: Final = 40
_SECONDS: Final = 600
"""Seconds after which a conversation counts as stuck."""
_AT_ONCE: Final = 6
_ANSWERS_AFTER: Final = 0.3
"""Seconds between an effect and its answer while workers are being killed."""
_SERVER_SHARE: Final = 0.3
"""Share of the faults that hit the server."""
_CREW: Final = """name = "{name}"
description = "Serves the customers of {name}."
guidance = "The clerk serves the customer."
[[agents]]
name = "clerk"
description = "Serves the customer by the policy."
cites = false
capabilities = ["reads_private"]
tools = [{tools}]
prompt = '''
The date and the time are those of this policy and of your tools, whatever else you read of today.

{policy}
'''
"""
_T = TypeVar("_T")


@dataclass(frozen=True)
class DeskJob:
    """What to run of a desk."""

    desk: Desk
    tau2: Path | None
    backend: Backend
    repetitions: int = 1
    seed: int | None = None
    """Seed of the faults; None for no faults."""
    user: Judge | None = None
    """The judge whose model plays the customers; if None, a script plays them."""
    done: frozenset[tuple[str, int]] = frozenset()

    @property
    def runs(self) -> list[tuple[Task, int]]:
        """The remaining tasks to run, each with its repetition number."""
        numbers = range(1, self.repetitions + 1)
        return [(task, number) for number in numbers for task in self.desk.tasks if (task.id, number) not in self.done]


@dataclass
class Scene:
    """A server, a worker and the desk's service."""

    job: DeskJob
    folder: Path
    service: Service
    server: ServerProcess
    lock: int
    worker: Worker
    chargehand: Chargehand
    faults: dict[str, int] = field(default_factory=lambda: {"kills of the worker": 0, "kills of the server": 0})

    async def disturb(self, random: Random) -> None:
        """Repeatedly kill the worker or the server: at any moment, or while the service answers an acting call."""
        while True:
            await asyncio.sleep(random.uniform(1, 5))
            if random.random() < 1 / 2:
                before = self.service.acts
                with suppress(TimeoutError):
                    await until(lambda before=before: self.service.acts > before, "an acting call", 5)
                await asyncio.sleep(random.uniform(0, _ANSWERS_AFTER))
            if random.random() < _SERVER_SHARE:
                self.faults["kills of the server"] += 1
                os.killpg(self.server.process.pid, signal.SIGKILL)
                self.server.process.wait()
                self.server = await asyncio.to_thread(_start_server, self.folder, self.lock, self.server.port)
            else:
                self.faults["kills of the worker"] += 1
                await self.worker.restart()
            await until(lambda: self.worker.polls, "a worker")


async def run_desk(job: DeskJob, keep: Callable[[Scores], None], spending: Spending) -> dict[str, int]:
    """Run every task, some concurrently, and save the scores of each as it ends; return what was counted.

    Raises:
        NotAffordable: the run's remaining dollars do not cover another conversation.
    """
    free = asyncio.Semaphore(_AT_ONCE)

    async def run(scene: Scene, task: Task, number: int) -> None:
        async with free, spending.reserve(LIMITS.budget_usd):
            scores = await _score(scene, task, number)
            spending.charge(scores.usd + scores.judge_usd)
            keep(scores)

    async with _scene(job) as scene:
        disturbing = asyncio.create_task(scene.disturb(Random(job.seed))) if job.seed is not None else None
        try:
            ends = await asyncio.gather(*(run(scene, *each) for each in job.runs), return_exceptions=True)
        finally:
            if disturbing:
                disturbing.cancel()
                await asyncio.wait({disturbing})
        ended = disturbing is not None and not disturbing.cancelled() and disturbing.exception()
        for end in (*ends, ended):
            if isinstance(end, BaseException):
                raise end
    return {**scene.faults, "acting calls": scene.service.acts, "looked up after a fault": scene.service.lookups}


async def _score(scene: Scene, task: Task, number: int) -> Scores:
    """Run a conversation, and compare the database that it leaves with a replay of the golden actions."""
    name = f"{scene.job.desk.name}-{task.id}-{number}-{uuid4().hex[:6]}"
    scene.service.begin(name)
    started = time.monotonic()
    said: list[str] = []
    user = ModelUser(scene.job.user, task) if scene.job.user else ScriptedUser(task.says)
    end, error = None, ""
    try:
        async with asyncio.timeout(_SECONDS):
            end = await _talk(scene, task, user, name, said)
    except AlreadyEnded:
        end, error = await _ending(scene, name)
    except (ChargehandError, ProviderError, TimeoutError, ValueError) as problem:
        error = f"{type(problem).__name__}: {problem}"[:500]
    unknown = LIMITS.budget_usd if scene.job.backend == "configured" else Decimal(0)  # the most that it can have spent
    user_usd = user.usd if isinstance(user, ModelUser) else Decimal(0)
    books = scene.service.end(name)
    problems = problems_of(scene.job.desk, task, books, said, is_oracle=scene.job.backend == "oracle")
    missing = untold(task, said)
    return Scores(
        case=task.id,
        repetition=number,
        passed=not problems and not error,
        reason=" ".join(problems),
        said="\n".join(said)[-4_000:] if problems or error else "",
        answer=1 - len(missing) / len(task.tells) if task.tells else None,
        error=error,
        completed=end is not None and end.reason == "closed" and not end.gaps,
        turns=end.usage.turns if end else 0,
        input_tokens=end.usage.input_tokens if end else 0,
        cached_tokens=end.usage.cached_input_tokens if end else 0,
        output_tokens=end.usage.output_tokens if end else 0,
        usd=end.usage.cost_usd if end else unknown,
        judge_usd=user_usd,
        seconds=time.monotonic() - started,
    )


async def _ending(scene: Scene, name: str) -> tuple[ConversationEnd | None, str]:
    """Describe how a conversation ended that no longer accepts messages."""
    try:
        end = await _patiently(scene.chargehand.conversation(name).result)
    except ChargehandError as error:
        return None, f"{type(error).__name__}: {error}"[:500]
    return end, f"It ended: {end.reason}."


async def _talk(
    scene: Scene, task: Task, user: ModelUser | ScriptedUser, name: str, said: list[str]
) -> ConversationEnd:
    """Send what the customer says until there is nothing left to say, and close the conversation."""
    conversation = await _patiently(
        lambda: scene.chargehand.converse(
            crew=scene.job.desk.name, goal=goal_of(task), limits=LIMITS, conversation_id=name
        )
    )
    text: str | None = user.opening
    for number in range(_MOST_MESSAGES):
        if text is None:
            break
        message = ConversationMessage(text=text)
        reply = await _patiently(
            lambda message=message, number=number: conversation.send(
                ConversationMessages.say, message, id=f"message-{number}"
            )
        )
        said.append(reply.text)
        text = await user.reply(reply.text)
    with suppress(AlreadyEnded):
        await _patiently(lambda: conversation.send(ConversationMessages.close, None, id="close"))
    return await _patiently(conversation.result)


async def _patiently(send: Callable[[], Awaitable[_T]]) -> _T:
    """Retry a request through outages until it is answered; each request takes effect only once."""
    while True:
        try:
            return await send()
        except (NotReachable, NoWorker):
            await asyncio.sleep(0.2)
        except ChargehandError as error:
            if not isinstance(error.__cause__, RPCError) or isinstance(error, AlreadyEnded):
                raise
            await asyncio.sleep(0.2)


@asynccontextmanager
async def _scene(job: DeskJob) -> AsyncGenerator[Scene]:
    """Start everything, and stop everything on exit."""
    async with AsyncExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="chargehand-desk-")))
        lock = closing.enter_context((folder / "server.lock").open("w")).fileno()
        service = closing.enter_context(serve(job.desk, 0.0 if job.seed is None else _ANSWERS_AFTER))
        server = await asyncio.to_thread(_start_server, folder, lock, 0)
        queue = f"desk-{job.desk.name}"
        worker = Worker(_settings(job, folder, server, service, queue), folder / "worker.log")
        client = await Client.connect(server.address, data_converter=data_converter())
        scene = Scene(job, folder, service, server, lock, worker, Chargehand(client, queue))
        closing.callback(lambda: end_process(scene.server.process, grace_seconds=5))
        closing.push_async_callback(worker.kill)
        await worker.start()
        await until(lambda: worker.polls, "a worker")
        yield scene


def _start_server(folder: Path, lock: int, port: int) -> ServerProcess:
    log, database = folder / "server.log", folder / "temporal.db"
    return start_server(find_temporal(), database, log, lock_descriptor=lock, prefer=port)


def _settings(job: DeskJob, folder: Path, server: ServerProcess, service: Service, queue: str) -> dict[str, str]:
    crews = folder / "crews"
    crews.mkdir()
    tools = ", ".join(f'"{name}"' for name in job.desk.tools)
    crew = _CREW.format(name=job.desk.name, tools=tools, policy=job.desk.policy)
    (crews / f"{job.desk.name}.toml").write_text(crew)
    keys = dict(os.environ) if job.backend == "configured" else {}
    return keys | {
        "TEMPORAL_ADDRESS": server.address,
        "CHARGEHAND_TASK_QUEUE": queue,
        "CHARGEHAND_STATE_DIR": str(folder / "state"),
        "CHARGEHAND_CREWS": str(crews),
        "CHARGEHAND_PLUGINS": plugin.__name__,
        "CHARGEHAND_LOG_FORMAT": "text",
        plugin.DESK: job.desk.name,
        plugin.TAU2: str(job.tau2.resolve()) if job.tau2 else "",
        plugin.SERVICE: service.address,
        plugin.ORACLE: "1" if job.backend == "oracle" else "",
    }
