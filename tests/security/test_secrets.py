"""Keys and words of users, models, documents and providers stay where they belong, whatever goes wrong."""

import asyncio
import json
import re
import resource
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from chaos.harness import Harness, Worker, open_harness
from chargehand.contracts import Report, SessionRequest
from chargehand.errors import SessionEnded
from tests.acceptance.commands import Commands
from tests.loopback_http import free_port
from tests.scripted_provider import ScriptedReply, ScriptedRequest, calling, error, raw
from tests.scripted_provider.drafts import answer, plan, report, subtask
from tests.scripted_provider.exchange import ToolUse

pytestmark = pytest.mark.nightly

CANARY: Final = "canary-7f3a"
"""The beginning of every secret: of users, models, documents, providers and operators' keys."""
_KEYS: Final = {
    name: f"{CANARY}-of-{name}"
    for name in ("OPENAI_API_KEY", "BRAVE_API_KEY", "TAVILY_API_KEY", "E2B_API_KEY", "ANTHROPIC_API_KEY")
}


def _echo(request: ScriptedRequest, status: int) -> ScriptedReply:
    """Fail as providers do: with the key and the prompt in the message."""
    told = f"Incorrect API key {request.headers['authorization']} for {request.text[-2_000:]}"
    return error(status, body={"error": {"message": told, "type": "invalid_request_error", "code": told[:80]}})


def _clumsy(request: ScriptedRequest) -> ScriptedReply:
    """Let everything go wrong once and then succeed, depending on the request."""
    if "refused session" in request.text:
        return _echo(request, 401)
    if "garbled session" in request.text:
        return raw(f"<html>{CANARY} {request.text[:500]}</html>".encode(), {"content-type": "application/json"})
    if request.answer == "PlanAnswer":
        tasks = (("T1", "researcher", "Search for"), ("T2", "reader", "Read about"))
        return plan(*(subtask(id_, agent, f"{task} {CANARY}") for id_, agent, task in tasks))
    if request.answer == "SynthesisAnswer":
        return report(f"The {CANARY} sings.")
    if request.rounds:
        return answer(f"I saw {CANARY}.")
    known = {"query": CANARY} if "search" in request.tools else {"document": f"{CANARY}.pdf", "first": 1, "last": 0}
    tool = "search" if "search" in request.tools else "read_document"
    return calling(ToolUse(tool, known), ToolUse(tool, f'{{"query": {CANARY}'), ToolUse(CANARY, {"x": CANARY}))


@dataclass
class Seen:
    """A worker that has met every failure, with its reports and metrics."""

    harness: Harness
    worker: Worker
    metrics: str
    reports: list[Report]


@pytest.fixture(scope="module")
def keys_at_hand() -> Iterator[None]:
    """Set keys in the environment and enable core dumps, as on a developer's machine."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    with pytest.MonkeyPatch.context() as environment:
        for name, key in _KEYS.items():
            environment.setenv(name, key)
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        yield
        resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.fixture(scope="module")
async def seen(keys_at_hand: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Seen]:  # noqa: ARG001  # for what it does
    """Run sessions through failures of provider, search and documents on a worker that logs at INFO."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "documents").mkdir()
    (folder / "documents" / f"{CANARY}.pdf").write_bytes(f"%PDF-1.7 {CANARY} broken".encode())
    (folder / "documents" / "song.md").write_text(f"# Song\n\nThe {CANARY} sings at dawn.\n")
    metrics = f"127.0.0.1:{free_port()}"
    failing = [500, 503]

    def respond(request: ScriptedRequest) -> ScriptedReply:
        return _echo(request, failing.pop()) if failing else _clumsy(request)

    async with open_harness(folder, respond) as harness:
        harness.search.status, harness.search.body = 400, f'{{"detail": {{"error": "no {CANARY}"}}}}'.encode()
        worker = await harness.worker(
            **_KEYS,
            CHARGEHAND_METRICS_ADDRESS=metrics,
            CHARGEHAND_LOG_FORMAT="json",
            CHARGEHAND_LOG_LEVEL="INFO",
            CHARGEHAND_PROVIDER="openai_compatible",
            CHARGEHAND_CODE="monty",
            CHARGEHAND_DOCUMENT_ROOTS=f'["{folder / "documents"}"]',
        )
        asked = [f"Say all about the {CANARY}.", f"A refused session on {CANARY}.", f"A garbled session on {CANARY}."]
        reports = await asyncio.gather(*(_outcome(harness, goal, folder) for goal in asked))
        await _bad_input(harness)
        told = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10).read())
        yield Seen(harness, worker, told.decode(), [each for each in reports if each])


async def _outcome(harness: Harness, goal: str, folder: Path) -> Report | None:
    documents = (f"file:{folder / 'documents'}/",)
    session = await harness.chargehand.start(SessionRequest(goal=goal, documents=documents))
    try:
        return await session.result()
    except SessionEnded:
        return None


async def _bad_input(harness: Harness) -> None:
    """Start a session with invalid input, as anyone can by hand."""
    handle = await harness.chargehand.client.start_workflow(
        "Supervisor", {"goal": CANARY, CANARY: CANARY, "limits": CANARY}, id="by-hand", task_queue="chaos"
    )
    with pytest.raises(SessionEnded):
        await harness.chargehand.session(handle.id).result()


def test_the_worker_met_the_provoked_failures(seen: Seen) -> None:
    """Control: retries, a refusal, a broken document and a refused search occurred, and a report has the canary."""
    [told] = [each for each in seen.reports if CANARY in each.answer]

    assert {record.state for record in told.subtasks} == {"success"}
    assert seen.worker.log.count("attempt failed: ") >= 4
    assert f"Bearer {_KEYS['OPENAI_API_KEY']}" in seen.harness.provider.requests[0].headers["authorization"]


def test_logs_and_metrics_never_contain_session_text(seen: Seen) -> None:
    """This covers the worker's log with all exceptions, the server's log and every metric."""
    assert '"level": "INFO", "logger": "chargehand.worker", "message": "worker polls"' in seen.worker.log
    assert CANARY not in seen.worker.log
    assert CANARY not in (seen.harness.folder / "server.log").read_text()
    assert "temporal_activity_execution_failed" in seen.metrics
    assert CANARY not in seen.metrics


def test_every_log_line_is_a_json_record(seen: Seen) -> None:
    """This includes lines of the SDK and its core; activity failures name their session and place."""
    records = [json.loads(line) for line in seen.worker.log.splitlines()]
    failed = [each for each in records if each["message"].startswith("attempt failed: ")]

    assert all({"time", "level", "logger", "message", "worker"} <= each.keys() for each in records)
    assert len(failed) >= 4
    assert all(re.fullmatch(r"session-[0-9a-f]{12}", each["session"]) for each in failed)
    belongs = {"session", "workflow_id", "run_id", "workflow_type", "tenant"}
    belongs |= {"activity", "activity_id", "attempt", "exception", "error_type", "remedy"}
    assert all(belongs <= each.keys() for each in failed)


async def test_temporal_names_never_contain_session_text(seen: Seen) -> None:
    """Everyone can read ids, types and search attributes of workflows, and ids and types of activities."""
    client = seen.harness.chargehand.client
    names: list[str] = []
    async for each in client.list_workflows():
        names += [each.id, each.workflow_type, str(each.raw_info.search_attributes), str(each.raw_info.task_queue)]
        history = await client.get_workflow_handle(each.id).fetch_history()
        for event in history.events:
            scheduled = event.activity_task_scheduled_event_attributes
            names += [scheduled.activity_id, scheduled.activity_type.name]

    assert len(names) > 40
    assert [name for name in names if CANARY in name] == []


async def test_doctor_prints_no_session_text(seen: Seen, tmp_path: Path) -> None:
    """Its output is safe to share: ids, states and causes, but nothing from a request."""
    client = seen.harness.chargehand.client

    told = await Commands(client, "--state-dir", tmp_path, "--task-queue", "chaos")("doctor")

    assert "'chaos'" in told.out
    assert CANARY not in told.out + told.said


def test_worker_core_dumps_are_disabled(seen: Seen) -> None:
    """The worker's memory, with the keys in it, is not written to disk."""
    limits = Path(f"/proc/{seen.worker.running.pid}/limits").read_text()

    assert [line.split()[4] for line in limits.splitlines() if line.startswith("Max core file size")] == ["0"]


def test_the_embedded_server_gets_no_provider_keys(seen: Seen) -> None:
    """Only the worker process has them, even if the server's parent has them in its environment."""
    environment = Path(f"/proc/{seen.harness.server.process.pid}/environ").read_text()

    assert "PATH=" in environment
    assert CANARY not in environment
