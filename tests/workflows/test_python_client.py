"""What callers do with sessions on a real server: in Python, and by the commands of the Temporal CLI."""

import asyncio
import os
import re
import shlex
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow

import chargehand.worker
from activities.models.protocol import ModelCall
from chargehand import Chargehand, InvalidInput, NoWorker, SessionFailed, SessionRequest, UploadRefused, session
from chargehand.errors import MissingExtra, UnusableSettings
from chargehand.listing import SessionSummary
from chargehand.messages import UPDATES
from chargehand.session import Session
from chargehand.upload import store_documents
from chargehand.worker import Worker
from tests.conftest import temporal_program
from tests.crew_files import READS_DOCUMENTS, crew_folder, crew_text
from tests.scripted_model import Held, Script, Turn, answer, request_tool, say, subtask
from tests.waiting import eventually, until, until_state
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_main_path import well_behaved
from tests.workflows.test_tool_approval import complaints_desk, pending


async def test_documents_can_be_given_as_paths_bytes_or_addresses(environment: OpenEnvironment, tmp_path: Path) -> None:
    """Workers read what was uploaded; an unusable document is named by its position, with the remedy."""
    lease = tmp_path / "lease.md"
    lease.write_text("Notice is three months.", encoding="utf-8")
    async with environment(well_behaved(subtask("T1"))) as opened:
        client, queue = opened.chargehand.client, opened.chargehand.task_queue
        chargehand = Chargehand(client, queue, artifacts=tmp_path / "artifacts")
        with pytest.raises(UploadRefused, match="unknown where the workers read: pass artifacts="):
            await Chargehand(client, queue).start("How long is it?", documents=[lease])
        with pytest.raises(UploadRefused, match=r"documents\[1\]: .* pass an https:// address"):
            await chargehand.start("How long is it?", documents=[lease, "http://example.org/a.md"])
        started = await chargehand.start("How long is it?", documents=[str(lease), ("note.txt", b"Or four.")])
        report = await started.result()
        given = (await started.request()).documents

    assert [re.sub("[0-9a-f]{64}", "…", each) for each in given] == ["artifact:…/lease.md", "artifact:…/note.txt"]
    assert report.stop_reason == "completed"


def test_a_path_in_a_request_names_the_argument_that_uploads_it() -> None:
    """Whoever writes a path where an address stands learns which argument uploads it."""
    with pytest.raises(ValueError, match=r"'contract\.pdf' is a path; pass documents=\['contract\.pdf'\] to start"):
        SessionRequest(goal="What is owed?", documents=("contract.pdf",))


@pytest.mark.real_server
async def test_each_session_of_a_schedule_has_its_own_id(environment: OpenEnvironment) -> None:
    """Scheduling again under the same id replaces the schedule."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        chargehand = opened.chargehand
        with pytest.raises(InvalidInput, match="give either cron or every"):
            await chargehand.schedule("nightly", "What is new?")
        with pytest.raises(InvalidInput, match="schedule: "):
            await chargehand.schedule("nightly", "What is new?", cron="99 2 * * *")
        await chargehand.schedule("nightly", "What is new?", cron="0 2 * * *", time_zone="Europe/Berlin")
        await chargehand.schedule("nightly", "What is new?", every=timedelta(days=1), overlap="beside")
        handle = chargehand.client.get_schedule_handle("nightly")
        spec = (await handle.describe()).schedule.spec
        started: list[str] = []

        async def has_started(count: int) -> bool:
            actions = (await handle.describe()).info.recent_actions
            begun = [each.action for each in actions]
            started[:] = [each.workflow_id for each in begun if isinstance(each, ScheduleActionExecutionStartWorkflow)]
            return len(started) == count

        await handle.trigger()
        await until(lambda: has_started(1))
        reports = [await chargehand.session(each).result() for each in started]
        await chargehand.unschedule("nightly")
        await chargehand.unschedule("nightly")

    assert (len(spec.intervals), len(spec.calendars)) == (1, 0)
    assert [report.session for report in reports] == started
    assert re.fullmatch(r"nightly-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", started[0])


@pytest.mark.real_server
async def test_only_a_finished_session_can_be_verified(environment: OpenEnvironment) -> None:
    """A running or rejected session is refused by field; a finished one has its own report checked."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        waiting = await opened.start(SessionRequest(goal="Who waits?", approval="plan"), until="awaiting_approval")
        with pytest.raises(SessionFailed, match="session: it still runs"):
            await waiting.verify()
        await waiting.reject()
        with pytest.raises(SessionFailed, match="session: it has no report"):
            await waiting.verify()
        finished = await opened.chargehand.start("Who is done?")
        report = await finished.result()
        verified = [await finished.verify() for _ in range(2)]

    assert verified[0] == verified[1]
    assert [each.claim for each in verified[0].claims] == [claim.text for claim in report.claims]


@pytest.mark.real_server
async def test_queries_and_updates_fail_when_no_worker_polls(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not wait forever; once the session has ended, its history shows how."""
    monkeypatch.setattr(session, "_PATIENCE_SECONDS", 0.2)
    async with environment(well_behaved(subtask("T1"))) as opened:
        started = await Chargehand(opened.chargehand.client, "nobody-polls-this").start("Is anybody there?")
        for ask in (started.status, started.plan, started.approve, started.finish_now):
            with pytest.raises(NoWorker, match="No worker polls the task queue 'nobody-polls-this'"):
                await ask()
        await opened.chargehand.client.get_workflow_handle(started.id).terminate()
        ended = await started.status()

    assert (ended.goal, ended.state, ended.standing.words) == ("Is anybody there?", "terminated", "terminated")


_READER = f'tools = ["search_documents", "read_document"]\n{READS_DOCUMENTS}'


async def test_a_worker_can_be_embedded_in_a_users_process(client: Client, tmp_path: Path) -> None:
    """It serves the user's own crews, and a client without Chargehand's converter is enough for it."""
    crews = crew_folder(tmp_path, "inspectors", reader=_READER)
    (tmp_path / "rules.md").write_text("# Boilers\n\nThe valve of a boiler is tested every six months.\n")
    plain = await Client.connect(client.service_client.config.target_host)
    queue = f"embedded-{uuid4().hex[:8]}"
    state = tmp_path / "state"

    async with Worker(plain, crews=crews, task_queue=queue, state_dir=state, provider="extractive"):
        documents = store_documents([tmp_path / "rules.md"], state / "artifacts")
        request = SessionRequest(goal="How often is the valve tested?", crew="inspectors", documents=documents)
        session = await Chargehand(client, queue).start(request)
        report = await session.result()

    assert "every six months" in report.answer
    assert {each.agent for each in report.subtasks} == {"reader"}


def test_a_missing_worker_package_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client package alone has the module that raises the error."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "chargehand_worker"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if not (Path(each) / "chargehand_worker").is_dir()])

    for name in ("Worker", "run"):
        with pytest.raises(MissingExtra, match=r"The worker is not installed: pip install 'chargehand\[worker\]'"):
            getattr(chargehand.worker, name)


async def test_unusable_worker_arguments_are_refused_by_name(client: Client, tmp_path: Path) -> None:
    """Unknown names and invalid values fail at once, wrong crews before anything polls."""
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(crew_text("inspectors", reader=_READER).replace("guidance", "guidence"), encoding="utf-8")

    with pytest.raises(UnusableSettings, match=r"serach is not a setting.*did you mean search\?"):
        Worker(client, serach="ddgs")
    with pytest.raises(UnusableSettings, match="CHARGEHAND_MAX_ACTIVITIES"):
        Worker(client, max_activities=0)
    with pytest.raises(UnusableSettings, match=r"The plug-in 'no_such_module'.*install it"):
        Worker(client, plugins=["no_such_module"])
    with pytest.raises(UnusableSettings, match=r"wrong\.toml.*guidence"):
        async with Worker(client, crews=tmp_path, state_dir=tmp_path / "state"):
            pass


_PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "temporal-cli.md"
_BLOCK: Final = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HASH: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def commands(page: Path = _PAGE) -> list[list[str]]:
    """List the commands of a page in their order."""
    blocks = "".join(_BLOCK.findall(page.read_text(encoding="utf-8"))).replace("\\\n", "")
    return [shlex.split(line) for line in blocks.splitlines() if line.startswith("temporal ")]


@pytest.mark.slow
@pytest.mark.real_server
async def test_updates_can_be_sent_with_the_temporal_cli(
    environment: OpenEnvironment, client: Client, tmp_path: Path
) -> None:
    """Each command of the page does what the page says."""
    held, crews = Held(answer("Rotterdam.")), complaints_desk(tmp_path, 'approve = ["refund"]')

    def ask_first(call: ModelCall) -> Turn:
        asked = len([each for each in opened.model.of_kind("work") if each.agent == call.agent])
        return answer("By what?", status="ambiguous_input") if asked == 1 else held

    script = Script().plan(subtask("T1"), subtask("T2", after=["T1"])).work("", ask_first, agent="reader")
    script = script.plan(subtask("T1", agent="clerk"), goal="complaint")
    script = script.work("", request_tool("refund", amount=7), answer("Settled."), agent="clerk")
    done: list[str] = []
    async with environment(script, own_crews=(crews,), acting=("refund", "fraud_check", "letter")) as opened:
        ports, complaint = opened.chargehand.session("ports"), opened.chargehand.session("complaint")
        for command in commands():
            name = command[command.index("--name") + 1] if "--name" in command else ""
            call = await _is_ready_for(name, ports, complaint, held)
            replaced = {"chargehand": opened.chargehand.task_queue, "temporal": temporal_program()}
            words = [replaced.get(word, word).replace(_HASH, call) for word in command]
            await _run(client, *words)
            done += [name] if name else []
        held.released.set()
        first, second = await ports.result(), await opened.chargehand.session("ports-2").result()
        await complaint.result()

        async def list_ports() -> list[SessionSummary]:
            return [each async for each in opened.chargehand.list(thread="ports")]

        listed = await eventually(list_ports, lambda sessions: len(sessions) == 2)

    assert set(done) <= set(UPDATES)
    assert first.stop_reason == "finish_now"
    assert second.follows == "ports"
    assert len(opened.tools["refund"].calls) == 1
    goals = {each.goal for each in listed}
    assert goals == {"Who runs the largest ports of Europe?", "And which of them is the oldest?"}


@pytest.mark.real_server
async def test_a_conversation_can_be_held_with_the_temporal_cli(environment: OpenEnvironment, client: Client) -> None:
    """The commands on its page open, continue, read and close it."""
    said: list[str] = []
    async with environment(Script().replies("pump", say("Is its lamp on?"))) as opened:
        for command in commands(_PAGE.with_name("conversations.md")):
            replaced = {"chargehand": opened.chargehand.task_queue, "temporal": temporal_program()}
            said.append(await _run(client, *(replaced.get(word, word) for word in command)))
        end = await opened.chargehand.conversation("pump").result()

    assert "Is its lamp on?" in said[1]
    assert "Is its lamp on?" in said[2]
    assert '"closed"' in said[-1]
    assert (end.reason, end.messages, end.replies) == ("closed", 1, 1)


async def _is_ready_for(name: str, ports: Session, complaint: Session, held: Held) -> str:
    """Wait until a session is ready for an update; return the hash of the call to decide about."""
    match name:
        case "decide_plan":
            await until_state(ports, "awaiting_approval")
        case "answer":
            await until_state(ports, "awaiting_answer")
        case "edit_plan" | "tell" | "interrupt":
            await held.reached.wait()
        case "decide_call":
            [call] = await pending(complaint, 1)
            return call.hash
        case _:
            pass
    return _HASH


async def _run(client: Client, *command: str) -> str:
    environment: dict[str, Any] = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    environment |= {"TEMPORAL_ADDRESS": client.service_client.config.target_host}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    written, _ = await process.communicate()
    assert process.returncode == 0, (command, written.decode())
    return written.decode()
