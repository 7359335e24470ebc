"""What `doctor` reports about stuck sessions, on a real server."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import PauseActivityRequest, PauseWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest, Tier
from chargehand.environment import BAD_SETTINGS
from chargehand.visibility import OPEN, describe, list_executions
from chargehand.wire import ActivityType, ErrorType, WorkflowType
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.state import StateDirectory, WorkerCommand
from chargehand_cli.location import LocationOptions
from chargehand_cli.main import execute
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit
from chargehand_plugins.bubblewrap.runner import BubblewrapRunner, SandboxUnusableError
from chargehand_plugins.bubblewrap.self_test import require_tight
from chargehand_plugins.operations import self_checks
from chargehand_plugins.operations.doctor import Findings, check_database, check_sessions, examine
from chargehand_plugins.operations.worker_program import explain
from tests.acceptance.commands import Commands
from tests.acceptance.workers import worker_process
from tests.conftest import local_server
from tests.loopback_http import LoopbackHandler, serve_http
from tests.waiting import eventually, until
from worker.program import main
from worker.settings import Settings

_SECRET = "what the user wrote"  # must never appear in the output of `doctor`
_STEP = "T1.turn-1"
_REPORTED = f"{OPEN} AND TemporalReportedProblems IS NOT NULL"


@activity.defn(name=ActivityType.TAKE_TURN)
async def _refused() -> None:
    raise ApplicationError(_SECRET, type=ErrorType.PROVIDER_UNAVAILABLE)


async def _call(task_queue: str | None = None) -> None:
    await workflow.execute_activity(
        ActivityType.TAKE_TURN,
        activity_id=_STEP,
        task_queue=task_queue,
        start_to_close_timeout=timedelta(minutes=1),
        retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10), backoff_coefficient=1),
    )


@workflow.defn(name=WorkflowType.SUPERVISOR)
class _Scripted:
    """A session that does what its input says."""

    @workflow.run
    async def run(self, behaviour: str) -> None:
        match behaviour:
            case "break":
                raise KeyError(_SECRET)
            case "call":
                await _call()
            case "sleep":
                await workflow.sleep(3_600)
            case task_queue:
                await _call(task_queue)


@workflow.defn(name=WorkflowType.SUPERVISOR)
class _Changed:
    """The same workflow in a build that takes other decisions."""

    @workflow.run
    async def run(self, _behaviour: str) -> None:
        await _call()


@asynccontextmanager
async def _worker(client: Client, queue: str, kind: type = _Scripted) -> AsyncGenerator[None]:
    runner = UnsandboxedWorkflowRunner()
    async with Worker(
        client,
        task_queue=queue,
        workflows=[kind],
        activities=[_refused],
        workflow_runner=runner,
        max_cached_workflows=0,
    ):
        yield


@pytest.fixture(scope="module")
async def server() -> AsyncGenerator[Client]:
    """A server that reports a workflow after one failed task instead of five, which take a minute."""
    async with local_server("system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=1") as connected:
        yield connected


@pytest.fixture
async def queue(server: Client) -> AsyncGenerator[str]:
    """A separate task queue, on a server where nothing else runs before or afterwards."""
    yield f"doctor-{uuid4().hex[:8]}"
    async for each in list_executions(server, OPEN):
        await server.get_workflow_handle(each.execution.workflow_id).terminate()
    await until(lambda: _counts(server, OPEN, 0))


async def _counts(client: Client, query: str, count: int) -> bool:
    return (await client.count_workflows(query)).count == count


async def _start(client: Client, queue: str, behaviour: str) -> str:
    session = f"{behaviour}-{uuid4().hex[:8]}"
    await client.start_workflow(WorkflowType.SUPERVISOR, behaviour, id=session, task_queue=queue)
    return session


async def _found(client: Client, queue: str) -> tuple[Exit, Sequence[str]]:
    """Check the sessions as `doctor` does; return the worst exit code and the lines."""
    connection = Connection(LocationOptions(address=client.service_client.config.target_host, task_queue=queue))
    await connection.open()
    lines: list[str] = []
    findings = Findings(lines.append)
    await check_sessions(connection, findings)
    assert _SECRET not in "".join(lines)
    return findings.worst, lines


async def _attempts(client: Client, session: str, count: int) -> bool:
    pending = (await describe(client, session)).pending_activities
    return bool(pending) and pending[0].attempt >= count


@pytest.mark.slow
async def test_doctor_counts_sessions_that_are_not_stuck(server: Client, queue: str) -> None:
    """A session that waits for a timer is not stuck."""
    async with _worker(server, queue):
        await _start(server, queue, "sleep")
        await until(lambda: _counts(server, OPEN, 1))

        found = await _found(server, queue)

    assert found == (Exit.DONE, ["✔ 1 session(s) and subtask(s) running, none stuck"])


async def test_doctor_names_a_broken_session_however_many_run(
    server: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cause is named even if it is too old to be checked along with the newest sessions."""
    monkeypatch.setattr("chargehand_plugins.operations.doctor._MAX_CHECKED", 1)
    async with _worker(server, queue):
        broken = await _start(server, queue, "break")
        await until(lambda: _counts(server, _REPORTED, 1))
        await _start(server, queue, "sleep")
        await until(lambda: _counts(server, OPEN, 2))

        worst, lines = await _found(server, queue)

    assert worst is Exit.FAILED
    assert len(lines) == 2
    assert lines[0].startswith(f"✘ {broken} is stuck: its workflow task is at attempt ")
    assert "(WorkflowWorkerUnhandledFailure). See the worker's log" in lines[0]
    assert lines[1].startswith("· 2 sessions and subtasks are running; only the newest 1 were checked individually")


async def test_doctor_recognises_a_nondeterministic_build(server: Client, queue: str) -> None:
    """After such a deploy it names the way back and the command that shows the difference."""
    async with _worker(server, queue):
        session = await _start(server, queue, "sleep")
        handle = server.get_workflow_handle(session)
        await until(lambda: _has_slept(server, session))
    async with _worker(server, queue, _Changed):
        await handle.cancel()
        await until(lambda: _counts(server, _REPORTED, 1))

        worst, lines = await _found(server, queue)

    assert worst is Exit.FAILED
    assert "(NonDeterministicError). The workers' code has changed incompatibly" in lines[0]
    assert f"`chargehand replay {session}` shows where" in lines[0]


async def _has_slept(client: Client, session: str) -> bool:
    events = (await client.get_workflow_handle(session).fetch_history()).events
    return any(event.HasField("timer_started_event_attributes") for event in events)


async def test_doctor_says_how_to_resume_a_paused_session(server: Client, queue: str) -> None:
    """It names who paused it; sessions can still be listed and their steps read."""
    async with _worker(server, queue):
        session = await _start(server, queue, "sleep")
        await until(lambda: _has_slept(server, session))
        pause = PauseWorkflowExecutionRequest(
            namespace=server.namespace, workflow_id=session, identity="anna@ops", reason=_SECRET, request_id="1"
        )
        await server.workflow_service.pause_workflow_execution(pause)
        await until(lambda: _counts(server, "ExecutionStatus = 'Paused'", 1))

        worst, lines = await _found(server, queue)
        listed = [(each.id, each.state) async for each in Chargehand(server).list() if each.ended_at is None]
        trace = await Chargehand(server).session(session).trace()

    address = server.service_client.config.target_host
    unpause = f"temporal workflow unpause --workflow-id {session} --address {address}"
    line = f"✘ {session} was paused by anna@ops. Resume it: `{unpause}`"
    assert (worst, lines) == (Exit.FAILED, [line])
    assert listed == [(session, "paused")]
    assert [step.state for step in trace.steps] == ["running"]


async def test_doctor_names_the_error_type_of_a_repeatedly_failing_activity(server: Client, queue: str) -> None:
    """It does so from the third attempt, never with the message; for a paused activity it says how to resume."""
    async with _worker(server, queue):
        session = await _start(server, queue, "call")
        await until(lambda: _attempts(server, session, 3))

        failing = await _found(server, queue)
        pause = PauseActivityRequest(
            namespace=server.namespace, execution=WorkflowExecution(workflow_id=session), id=_STEP, identity="anna@ops"
        )
        await server.workflow_service.pause_activity(pause)
        paused = await _found(server, queue)

    address = server.service_client.config.target_host
    assert failing[0] is Exit.FAILED
    assert failing[1][0].startswith(f"✘ {session}: take_turn '{_STEP}' is at attempt ")
    cause = "last error: ProviderUnavailable. The model provider did not answer, or answered with an error. See"
    assert cause in failing[1][0]
    unpause = f"temporal activity unpause --workflow-id {session} --activity-id {_STEP} --address {address}"
    line = f"✘ {session}: take_turn '{_STEP}' was paused by anna@ops. Resume it: `{unpause}`"
    assert paused == (Exit.FAILED, [line])


async def test_doctor_names_task_queues_without_a_worker(server: Client, queue: str) -> None:
    """It covers workflows and each kind of activity, with the settings of a worker that would serve them."""
    kinds = {"models": " or CHARGEHAND_REQUESTS_PER_SECOND, as the others have it,", "tools": "", "sandboxes": ""}
    async with _worker(server, queue):
        elsewhere = [await _start(server, f"{queue}-other", "sleep") for _ in range(2)]
        calling = {kind: await _start(server, queue, f"{queue}-{kind}") for kind in kinds}
        for each in calling.values():
            await until(partial(_attempts, server, each, 1))
        await until(lambda: _counts(server, OPEN, 5))

        worst, lines = await _found(server, queue)

    absent = "✘ No worker polls task queue"
    of_kinds = [
        f"{absent} '{queue}-{kind}' for activities; {calling[kind]} is waiting on it. Start a worker with "
        f'CHARGEHAND_TASK_QUEUE={queue} and CHARGEHAND_QUEUES={{"{kind}": 10}}{also} whose CHARGEHAND_ROLES, if set, '
        f"include {kind}."
        for kind, also in kinds.items()
    ]
    other = f"{absent} '{queue}-other' for workflows; {elsewhere[1]} and 1 more are waiting on it. "
    other += f"Start a worker with CHARGEHAND_TASK_QUEUE={queue}-other."
    assert (worst, sorted(lines)) == (Exit.UNREACHABLE, sorted([*of_kinds, other]))


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        ("sleep 60", TimeoutError, "this machine is slow or busy"),
        ("echo CHARGEHAND_MODELS: wrong >&2; exit 2", ValueError, "CHARGEHAND_MODELS: wrong"),
        ("echo gone >&2; exit 1", BadRequest, "ended with code 1, and did not describe its settings: gone"),
    ],
    ids=["slow", "wrong", "another program"],
)
async def test_a_slow_worker_is_told_apart_from_wrong_settings(
    program: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    """Settings are wrong only if a worker program says so."""
    worker = WorkerCommand(("sh", "-c", program), tmp_path)

    with pytest.raises(error, match=re.escape(words)):
        async with asyncio.timeout(30):  # half of what the slow one would take
            await explain(worker, timeout_seconds=1 if error is TimeoutError else 30)


@pytest.mark.parametrize(
    ("verb", "variable", "value"),
    [
        *(("console", "CHARGEHAND_CONSOLE_PORT", port) for port in ("eighty", "65536", "¹")),
        ("console", "CHARGEHAND_CONSOLE_TOKEN", "short"),
        ("codec-server", "CHARGEHAND_CODEC_TOKEN", "with/slashes/in/the/token"),
        ("mcp", "CHARGEHAND_MCP_TOKEN", "short"),
    ],
)
def test_invalid_server_settings_are_reported(
    verb: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that needs them reports them before it connects, and so does doctor."""
    monkeypatch.setenv(variable, value)

    assert execute([verb]) == Exit.BAD_INPUT
    assert f"{variable} must" in capsys.readouterr().err
    assert execute(["doctor", "--address", "127.0.0.1:1"]) == Exit.UNREACHABLE
    assert f"✘ {variable} must" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ANTHROPIC_API_KEY", "CHARGEHAND_PROVIDER=anthropic"),
        ("CHARGEHAND_FALLBACK_PROVIDER", "none"),
        ("CHARGEHAND_ARTIFACTS", "ftp://host/path"),
        ("CHARGEHAND_ARTIFACTS", "s3://"),
        ("CHARGEHAND_CREDENTIAL_KEYS", "short"),
    ],
)
def test_a_setting_that_prevents_worker_start_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found before a worker is started."""
    monkeypatch.setenv(*(value.split("=") if "=" in value else (variable, value)))

    assert main(["--explain"]) == BAD_SETTINGS
    assert variable in capsys.readouterr().err


class Catalogue(LoopbackHandler):
    """Accepts one key, and knows every model without `retired` in its name."""

    def reply(self) -> None:
        named = self.path.rpartition("/models/")[2]
        key = self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
        known = "retired" not in named
        status = 401 if key != "right" else 200 if known else 404
        body = {"id": named, "object": "model", "type": "model", "created": 1, "created_at": "2026-01-01T00:00:00Z"}
        told = body if status == 200 else {"type": "error", "error": {"type": "refused", "message": f"no {named}"}}
        self.answer(status, json.dumps(told).encode(), Content_Type="application/json")


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai_compatible"])
async def test_the_provider_is_checked_by_asking_for_its_models(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This finds a wrong key, a retired model and a dead address; many compatible servers list no models."""
    name = "ANTHROPIC" if provider == "anthropic" else "OPENAI"
    retired = "" if provider == "openai_compatible" else "Check the model's name and the base URL"
    with serve_http(Catalogue) as url:
        for key, base_url, model, problem in (
            ("right", url, "m", ""),
            ("wrong", url, "m", "Check the API key."),
            ("right", url, "retired", retired),
            ("right", "http://127.0.0.1:9/v1", "m", "Check the network and the base URL"),
        ):
            monkeypatch.setenv(f"{name}_API_KEY", key)
            monkeypatch.setenv(f"{name}_BASE_URL", base_url)
            settings = Settings(provider=provider, models=dict.fromkeys(Tier, model), prices={model: (1, 2)})  # pyright: ignore[reportArgumentType]  # numbers
            await self_checks.explain(settings, tmp_path)
            told = {each["backend"]: each for each in json.loads(capsys.readouterr().out)["active"]}["model"]
            assert problem in told["problem"]
            assert bool(problem) == bool(told["problem"])


@pytest.mark.nightly
async def test_doctor_tries_the_sandbox_before_reporting_it_usable(server: Client, queue: str, tmp_path: Path) -> None:
    """With bubblewrap configured, it says what a worker would find at its start, with and without bwrap."""
    try:
        await require_tight(BubblewrapRunner())
        is_tight = True
    except SandboxUnusableError:
        is_tight = False
    where = ("--task-queue", queue)

    here = await Commands(server, *where, CHARGEHAND_CODE="bubblewrap")("doctor")
    without = await Commands(server, *where, CHARGEHAND_CODE="bubblewrap", PATH=str(tmp_path))("doctor")

    passed = "✔ code: bubblewrap (set by CHARGEHAND_CODE; its self-test passes on this host for python" in here.out
    assert passed is is_tight
    assert "✘ code: bubblewrap (set by CHARGEHAND_CODE): " in without.out
    assert "bubblewrap is not installed" in without.out
    assert f"✘ No worker polls task queue '{queue}'" in without.out
    assert without.code == Exit.UNREACHABLE


@pytest.mark.nightly
async def test_doctor_detects_a_killed_worker_that_the_server_still_lists(server: Client, tmp_path: Path) -> None:
    """The server lists it for minutes after its end, but a session no longer answers."""
    address = server.service_client.config.target_host
    connection = Connection(LocationOptions(address=address, task_queue="killed", state=tmp_path))
    await connection.open()
    lines: list[str] = []
    async with worker_process(
        {"TEMPORAL_ADDRESS": address, "CHARGEHAND_TASK_QUEUE": "killed", "CHARGEHAND_STATE_DIR": str(tmp_path)}
    ) as worker:
        session = await connection.chargehand.start(SessionRequest(goal="What is there?", approval="plan"))
        await eventually(session.status, lambda status: status.state == "awaiting_approval")
        alive = await examine(connection, Findings(lines.append))
        worker.kill()
        await worker.wait()
        dead = await examine(connection, Findings(lines.append))
    await server.get_workflow_handle(session.id).terminate()

    assert (alive, dead) == (Exit.DONE, Exit.UNREACHABLE)
    assert [line[:18] for line in lines if "worker(s)" in line] == ["✔ 1 worker(s) on t", "✘ No worker answer"]


def test_doctor_reports_a_deleted_database(tmp_path: Path) -> None:
    """The embedded server keeps using it until it stops; then its sessions are lost."""
    connection = Connection(LocationOptions(state=tmp_path))
    lines: list[str] = []
    for exists in (True, False):
        database = StateDirectory(connection.location.state).database
        database.touch() if exists else database.unlink()
        check_database(connection, Findings(lines.append))

    [line] = lines
    assert f"{tmp_path}/temporal.db was deleted" in line
