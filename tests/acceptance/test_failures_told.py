"""A failure is clear from outside: what the log records, which alert fires, and which remedy is named."""

import asyncio
import json
import os
import shlex
import shutil
import sys
import urllib.request
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.exceptions import TemporalError

from chaos.harness import Worker
from chaos.proxy import open_proxy
from chargehand import Session
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.errors import SessionEnded
from chargehand.state_words import STOP_REMEDIES
from tests.acceptance.alert_rules import fires
from tests.acceptance.commands import Commands
from tests.acceptance.workers import answered
from tests.conftest import local_server
from tests.crew_files import crew_folder
from tests.loopback_http import free_port
from tests.scripted_provider import (
    Respond,
    ScriptedProvider,
    ScriptedReply,
    ScriptedRequest,
    Tokens,
    ToolUse,
    answer,
    calling,
    canned_session,
    error,
    plan,
    subtask,
)
from tests.waiting import until, until_state

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_SHIPPED = (sys.executable, str(_ROOT / "worker_main.py"))
_OLDER = (
    "import worker.workers as w; w.own_build = lambda: 'older'; from worker.program import run_program; run_program()"
)
_CANARY = "canary-471199"
_SERIOUS = (
    *("AllSessionsFail", "AttemptsFail", "MixedBuilds", "ProviderRefuses"),
    *("QueueUnserved", "Stuck", "WorkersLost"),
)


@dataclass
class Scene:
    """One task queue, the workers on it, and a provider that answers as a test says."""

    client: Client
    folder: Path
    provider: ScriptedProvider
    closing: AsyncExitStack
    queue: str = field(default_factory=lambda: f"told-{uuid4().hex[:8]}")
    workers: list[Worker] = field(default_factory=list[Worker])
    metrics: str = ""

    @property
    def chargehand(self) -> Chargehand:
        return Chargehand(self.client, self.queue)

    async def worker(self, *command: str, polls: bool = True, **settings: str) -> Worker:
        """Start a worker whose metrics can be read."""
        self.metrics = f"127.0.0.1:{free_port()}"
        usual = {
            "TEMPORAL_ADDRESS": self.client.service_client.config.target_host,
            "CHARGEHAND_TASK_QUEUE": self.queue,
            "CHARGEHAND_LOG_FORMAT": "json",
            "CHARGEHAND_METRICS_ADDRESS": self.metrics,
            "CHARGEHAND_STATE_DIR": str(self.folder / "state"),
            "CHARGEHAND_DOCUMENT_ROOTS": json.dumps([str(self.folder)]),
            "OPENAI_BASE_URL": self.provider.openai_url,
            "CHARGEHAND_PROVIDER": "openai_compatible",
            "CHARGEHAND_MODELS": json.dumps(dict.fromkeys(("small", "medium", "large"), "model-1")),
            "CHARGEHAND_PRICES": json.dumps({"model-1": [1, 1]}),
        }
        worker = Worker(usual | settings, self.folder / f"worker-{len(self.workers)}.log", command or _SHIPPED)
        self.workers.append(worker)
        await worker.start()
        self.closing.push_async_callback(worker.kill)
        if polls:
            await until(lambda: worker.polls)
        return worker

    async def start(self, **request: Any) -> Session:
        asked: Mapping[str, Any] = {"goal": f"What is there to know about {_CANARY}?"} | request
        return await self.chargehand.start(SessionRequest.model_validate(asked))

    async def run(self, **request: Any) -> str:
        """Run a session to its end; returns its id."""
        session = await self.start(**request)
        with suppress(SessionEnded):
            await session.result()
        return session.id

    async def alerts(self, name: str) -> bool:
        """Whether an alert fires for the metrics of the newest worker, once it has measured the server."""
        await until(self._has_measured)
        return await asyncio.to_thread(fires, name, await self._scrape(), self.folder)

    async def _has_measured(self) -> bool:
        return "chargehand_sessions_open" in await self._scrape()

    async def _scrape(self) -> str:
        address = f"http://{self.metrics}/metrics"
        return await asyncio.to_thread(lambda: urllib.request.urlopen(address).read().decode())

    def records(self, message: str, session: str = "") -> list[dict[str, Any]]:
        """Read all workers' log records with this message, of one session or all; check that none quotes a request.

        A workflow task that a busy machine repeats logs its records again, which differ in time only.
        """
        lines = [line for worker in self.workers for line in worker.log.splitlines()]
        assert not any(_CANARY in line for line in lines)
        records = [json.loads(line) for line in lines if line.startswith("{")]
        timeless = {json.dumps(each | {"time": ""}): each for each in records}.values()
        return [each for each in timeless if message in each["message"] and each.get("session", "").startswith(session)]

    async def told(self, command: str, *arguments: str) -> str:
        ran = await Commands(self.client, "--task-queue", self.queue)(command, *arguments)
        return ran.out + ran.said


@asynccontextmanager
async def _scene(client: Client, folder: Path, respond: Respond | None = None) -> AsyncGenerator[Scene]:
    async with AsyncExitStack() as closing:
        calm = canned_session(subtasks=1, rounds=0, agents=("researcher",))
        provider = await closing.enter_async_context(ScriptedProvider(respond or calm))
        yield Scene(client, folder, provider, closing)


@pytest.fixture(scope="module")
async def server() -> AsyncGenerator[Client]:
    """A server that marks a workflow after one failed task instead of five, which take a minute."""
    async with local_server("system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=1") as connected:
        yield connected


async def test_successful_session_fires_no_alert(server: Client, tmp_path: Path) -> None:
    """It logs one record at its start and one at its end, with its cost."""
    async with _scene(server, tmp_path) as scene:
        await scene.worker()
        session = await scene.run()

        [started], [ended] = scene.records("session started"), scene.records("session ended")
        assert started["session"] == ended["session"] == session
        assert (ended["end"], ended["dollars"] > 0) == ("completed", True)
        assert not scene.records("attempt failed")
        firing: list[str] = []

        async def is_calm() -> bool:
            firing[:] = [rule for rule in _SERIOUS if await scene.alerts(f"Chargehand{rule}")]
            return not firing

        # The first figures may be from before the worker polled each queue, which the rules forgive for minutes.
        with suppress(TimeoutError):
            await until(is_calm, 60)
        assert not firing


_FAILING = {
    401: ("ChargehandProviderRefuses", "ProviderRefused", "Check the API key."),
    404: ("ChargehandProviderRefuses", "ProviderRefused", "Check the model's name"),
    503: ("ChargehandProviderFails", "ProviderUnavailable", "CHARGEHAND_FALLBACK_MODELS names models"),
}


def _fail(status: int, _: ScriptedRequest) -> ScriptedReply:
    return error(status)


async def test_provider_failures_are_logged_and_fire_alerts(server: Client, tmp_path: Path) -> None:
    """Records name model, provider and status; `list` and `status` give the remedy; refused calls run once."""
    async with _scene(server, tmp_path) as scene:
        await scene.worker(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
        for status, (alert, kind, remedy) in _FAILING.items():
            scene.provider.respond = partial(_fail, status)
            before = len(scene.provider.requests)
            session = await scene.run(limits={"deadline": 5})

            attempt, *_ = scene.records("attempt failed", session)
            [started], [ended] = scene.records("session started", session), scene.records("session ended", session)
            expected = (kind, status, "openai-compatible", "model-1")
            assert tuple(attempt[name] for name in ("error_type", "http_status", "provider", "model")) == expected
            assert (len(scene.provider.requests) - before == 1) is (kind == "ProviderRefused")
            assert ended["end"] == "failed"
            assert attempt["trace_id"] == ended["trace_id"] == started["trace_id"]
            assert await scene.alerts(alert)
            told = (await scene.told("list"), await scene.told("status", session), attempt["remedy"], ended["remedy"])
            assert all(remedy in each for each in told)
            [listed] = [each async for each in scene.chargehand.list() if each.id == session]
            assert listed.failure is not None
            assert (listed.failure.error_type, remedy in listed.failure.remedy) == (ended["error_type"], True)
        assert await scene.alerts("ChargehandAllSessionsFail")


@pytest.mark.nightly
async def test_unserved_task_queue_is_reported(server: Client, tmp_path: Path) -> None:
    """With no worker in the models role, doctor, `status` and an alert name the task queue that is not polled."""
    async with _scene(server, tmp_path) as scene:
        assert f"No worker polls task queue '{scene.queue}'" in await scene.told("start", "How high is the tide?")
        await scene.worker(CHARGEHAND_QUEUES='{"models": 5}', CHARGEHAND_ROLES='["sessions", "tools", "sandboxes"]')
        session = await scene.start()

        async def is_told() -> bool:
            return f"No worker polls task queue '{scene.queue}-models'" in await scene.told("doctor")

        await until(is_told)
        assert session.id in [each["session"] for each in scene.records("session started")]
        assert await scene.alerts("ChargehandQueueUnserved")
        assert "CHARGEHAND_ROLES, if set, include models" in await scene.told("doctor")
        assert f"No worker polls task queue '{scene.queue}-models'" in await scene.told("status", session.id)


@pytest.mark.nightly
async def test_invalid_crew_stops_the_worker(server: Client, tmp_path: Path) -> None:
    """The worker logs the file and the field, and exits with code 2."""
    (tmp_path / "crews").mkdir()
    (tmp_path / "crews" / "mine.toml").write_text('name = "mine"\n')
    async with _scene(server, tmp_path) as scene:
        worker = await scene.worker(polls=False, CHARGEHAND_CREWS=str(tmp_path / "crews"))

        assert await worker.running.wait() == 2
        [record] = scene.records("The worker cannot start")
        assert "mine.toml" in record["message"]
        assert "description" in record["message"]
        assert fires("ChargehandNoWorker", "", tmp_path)


@pytest.mark.nightly
async def test_reached_limit_is_logged_and_listed(server: Client, tmp_path: Path) -> None:
    """The end record and `list` name the limit, and an alert fires if deadlines end most sessions."""
    limits: dict[str, tuple[dict[str, Any], float]] = {
        "deadline": ({"deadline": 4}, 30.0),
        "out_of_budget": ({"budget_usd": 0.12, "max_parallel": 1}, 0.0),
    }
    words = {"deadline": "stopped at its deadline", "out_of_budget": "stopped: out of budget"}
    async with _scene(server, tmp_path) as scene:
        await scene.worker()
        for end, (limit, delay) in limits.items():
            scene.provider.respond = _dear(delay)
            session = await scene.run(limits=limit)

            [ended] = scene.records("session ended", session)
            assert ended["end"] == end
            for told in (await scene.told("list"), await scene.told("status", session)):
                assert words[end] in told
                assert STOP_REMEDIES[end] in told
            assert end != "deadline" or await scene.alerts("ChargehandLimits")


def _dear(delay: float) -> Respond:
    """Plan at once, then work slowly and at high cost."""
    calm, slow = (canned_session(subtasks=5, rounds=2, agents=("researcher",), delay=each) for each in (0.0, delay))

    def respond(request: ScriptedRequest) -> ScriptedReply:
        return calm(request) if request.answer == "PlanAnswer" else slow(request).using(Tokens(output=10_000))

    return respond


@pytest.mark.nightly
async def test_mixed_builds_are_reported(server: Client, tmp_path: Path) -> None:
    """A worker that joins a queue with another build logs both builds, and an alert fires."""
    async with _scene(server, tmp_path) as scene:
        await scene.worker(sys.executable, "-c", _OLDER)
        await scene.worker()

        [record] = scene.records("is polled by build older too")
        assert "this worker is build" in record["message"]
        assert "end the others after an update" in record["message"]
        assert f"share task queue '{scene.queue}': stop those of the old build" in await scene.told("doctor")
        await until(lambda: scene.alerts("ChargehandMixedBuilds"))  # the server is polled every half minute


async def test_worker_without_the_queues_deployment_refuses_to_start(server: Client, tmp_path: Path) -> None:
    """On a queue with a current deployment it would receive no tasks; the error names both builds."""
    async with _scene(server, tmp_path) as scene:
        await scene.worker(CHARGEHAND_DEPLOYMENT=scene.queue)
        [polling] = scene.records("worker polls")
        current = SetWorkerDeploymentCurrentVersionRequest(
            namespace=server.namespace, deployment_name=scene.queue, build_id=polling["build"]
        )

        await answered(lambda: server.workflow_service.set_worker_deployment_current_version(current))
        session = await scene.run()
        refused = await scene.worker(polls=False)

        assert await refused.running.wait() == 2
        assert [each["session"] for each in scene.records("session ended")] == [session]
        [record] = scene.records("belongs to build")
        assert f"'{scene.queue}.{polling['build']}'" in record["message"]
        assert f"is build '{polling['build']}' of no deployment" in record["message"]
        assert f"Set CHARGEHAND_DEPLOYMENT={scene.queue}" in record["message"]


_POISON = """
import itertools, os
from chargehand.plugins import Registry
from chargehand.tools import tool

@tool(capabilities=[])
def weigh(item: str) -> str:
    'Weigh an item.'
    if item == "exit":
        os._exit(7)
    if item == "loop":
        sum(itertools.repeat(1))  # holds Python's lock
    return "3 kg"

def register(registry: Registry) -> None:
    registry.tools("poison")
"""


def _weighing(request: ScriptedRequest) -> ScriptedReply:
    """Weigh the item that the goal names, in turns that take as long as a model's."""
    if request.answer == "PlanAnswer":
        item = request.messages[-1].text.partition("weigh: ")[2].partition(".")[0]
        return plan(subtask("T1", "weigher", f"Weigh the {item}, and state its weight in kilograms."))
    if request.tools and request.rounds < 1:
        item = next(each for each in ("exit", "loop", "pear") if f"Weigh the {each}" in str(request.messages))
        return calling(ToolUse("weigh", {"item": item})).after(2 + request.sequence % 5)
    return answer("It weighs 3 kg.").after(2 + request.sequence % 5)


@pytest.mark.nightly
@pytest.mark.timeout(420)
@pytest.mark.parametrize("poison", ["exit", "loop"])
async def test_poison_task_ends_two_workers_and_no_more(server: Client, tmp_path: Path, poison: str) -> None:
    """A call that exits or freezes its workers is reported, and the other sessions succeed."""
    (tmp_path / "poison.py").write_text(_POISON)
    crews = str(crew_folder(tmp_path, "scales", weigher='tools = ["weigh"]'))
    settings = {"CHARGEHAND_PLUGINS": "poison", "PYTHONPATH": str(tmp_path), "CHARGEHAND_CREWS": crews}
    deaths: list[int | None] = []

    async def keep(worker: Worker) -> None:
        while True:
            deaths.append(await worker.running.wait())
            await worker.start()

    async with _scene(server, tmp_path, _weighing) as scene:
        keepers = [asyncio.create_task(keep(await scene.worker(polls=True, **settings))) for _ in range(2)]
        goals = [f"Please weigh: {item}." for item in (poison, *5 * ["pear"])]
        sessions = [await scene.start(goal=goal, crew="scales", review="never") for goal in goals]
        reports = await asyncio.wait_for(asyncio.gather(*(each.result() for each in sessions)), 300)
        for keeper in keepers:
            keeper.cancel()

        assert deaths == 2 * [7 if poison == "exit" else 1]
        assert [[each.state for each in report.subtasks] for report in reports[1:]] == 5 * [["success"]]
        if poison == "loop":  # its call may hit its own time limit before the second worker ends
            assert "in weigh" in "".join(worker.log for worker in scene.workers)
        else:
            record, *_ = scene.records("attempt failed", sessions[0].id)[::-1]
            assert (record["error_type"], "whether they exit" in record["remedy"]) == ("Quarantined", True)


@pytest.mark.nightly
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
async def test_full_disk_fails_the_attempt_and_is_retried(server: Client, tmp_path: Path) -> None:
    """The attempt record names OSError and CHARGEHAND_STATE_DIR, and an alert fires."""
    state = tmp_path / "state"
    state.mkdir()
    mount = f"mount -t tmpfs -o size=512k full {state} && exec {shlex.join(_SHIPPED)}"
    (tmp_path / "long.md").write_text("# Tides\n" + "The tide comes in twice a day, and goes out again. " * 40_000)
    async with _scene(server, tmp_path) as scene:
        await scene.worker("unshare", "-m", "sh", "-c", mount)
        await scene.start(documents=(f"file:{tmp_path}/long.md",))

        await until(lambda: _are_recorded(scene, 2))
        record, *_ = scene.records("attempt failed")
        assert record["error_type"] == "OSError"
        assert "CHARGEHAND_STATE_DIR" in record["remedy"]
        assert await scene.alerts("ChargehandAttemptsFail")


@pytest.mark.nightly
async def test_lost_payload_storage_marks_sessions_as_stuck(server: Client, tmp_path: Path) -> None:
    """If its payloads cannot be read, an alert fires and doctor lists the session as stuck."""
    storage = tmp_path / "payloads"
    storage.mkdir()
    stored = partial(Scene.worker, CHARGEHAND_STORAGE=str(storage), CHARGEHAND_STORAGE_THRESHOLD="100")
    async with _scene(server, tmp_path) as scene:
        await stored(scene)
        session = await scene.start(approval="plan")
        await until_state(session, "awaiting_approval")
        await scene.workers[0].kill()
        shutil.rmtree(storage)
        storage.mkdir()
        await stored(scene)
        await server.get_workflow_handle(session.id).cancel()

        await until(lambda: scene.alerts("ChargehandStuck"))
        assert scene.records("Failed")
        told = await scene.told("doctor")
        assert f"{session.id} is stuck" in told


@pytest.mark.nightly
async def test_slow_server_fires_an_alert_and_fails_no_session(server: Client, tmp_path: Path) -> None:
    """Each request to the server is delayed by 0.6 seconds in each direction."""
    async with _scene(server, tmp_path) as scene, open_proxy(server.service_client.config.target_host) as slow:
        slow.latency = 0.6  # in each direction
        await scene.worker(TEMPORAL_ADDRESS=slow.address)
        await scene.run()

        assert [each["end"] for each in scene.records("session ended")] == ["completed"]
        assert await scene.alerts("ChargehandServerSlow")


async def test_an_oversized_update_does_not_block_a_session(server: Client, tmp_path: Path) -> None:
    """A refusal repeats the whole update, and the worker can send it although it is larger than a payload may be."""
    plain = await Client.connect(server.service_client.config.target_host)
    async with _scene(server, tmp_path) as scene:
        await scene.worker()
        session = await scene.start(approval="plan")
        await until_state(session, "awaiting_approval")
        for name in ("tell", "decide_plan", "no_such"):
            with pytest.raises(TemporalError):
                async with asyncio.timeout(30):
                    await plain.get_workflow_handle(session.id).execute_update(  # pyright: ignore[reportUnknownMemberType]  # SDK
                        name, {"text": "x" * 2_500_000}
                    )

        assert (await session.status()).state == "awaiting_approval"


async def _are_recorded(scene: Scene, count: int) -> bool:
    return len(scene.records("attempt failed")) >= count
