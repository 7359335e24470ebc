"""What callers in Python do with sessions on a real server, and with a worker in a process of their own."""

import re
import sys
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow

import chargehand.worker
from chargehand import Chargehand, InvalidInput, NoWorker, SessionFailed, SessionRequest, UploadRefused, session
from chargehand.errors import MissingExtra, UnusableSettings
from chargehand.upload import store_documents
from chargehand.worker import Worker
from tests.crew_files import READS_DOCUMENTS, crew_folder, crew_text
from tests.scripted_model import subtask
from tests.waiting import until, until_state
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_main_path import well_behaved


async def test_documents_are_uploaded_by_path_and_by_bytes_and_passed_on_by_address(
    environment: OpenEnvironment, tmp_path: Path
) -> None:
    """The workers read what was uploaded; what cannot be used is told by its place and the remedy."""
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


def test_a_path_in_a_request_is_told_where_it_belongs() -> None:
    """Whoever writes a path where an address stands learns which argument uploads it."""
    with pytest.raises(ValueError, match=r"'contract\.pdf' is a path; pass documents=\['contract\.pdf'\] to start"):
        SessionRequest(goal="What is owed?", documents=("contract.pdf",))


@pytest.mark.real_server
async def test_a_schedule_gives_each_session_an_id_of_its_own(environment: OpenEnvironment) -> None:
    """Two sessions of one schedule are two sessions; the same id replaces a schedule."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        chargehand = opened.chargehand
        with pytest.raises(InvalidInput, match="give either cron or every"):
            await chargehand.schedule("nightly", "What is new?")
        with pytest.raises(InvalidInput, match="schedule: "):
            await chargehand.schedule("nightly", "What is new?", cron="at night")
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
async def test_only_the_report_of_a_finished_session_is_verified(environment: OpenEnvironment) -> None:
    """What is verified is the session's own report; one that runs, and what is no session, is refused by its field."""
    async with environment(well_behaved(subtask("T1"))) as opened:
        waiting = await opened.chargehand.start(SessionRequest(goal="Who waits?", approval="plan"))
        await until_state(waiting, "awaiting_approval")
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
async def test_a_session_without_a_worker_says_so(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries and updates end instead of waiting for ever."""
    monkeypatch.setattr(session, "_PATIENCE_SECONDS", 0.2)
    async with environment(well_behaved(subtask("T1"))) as opened:
        started = await Chargehand(opened.chargehand.client, "nobody-polls-this").start("Is anybody there?")
        for ask in (started.status, started.plan, started.approve, started.finish_now):
            with pytest.raises(NoWorker, match="No worker polls the task queue 'nobody-polls-this'"):
                await ask()


_READER = f'tools = ["search_documents", "read_document"]\n{READS_DOCUMENTS}'


async def test_a_worker_runs_sessions_in_a_process_of_ones_own(client: Client, tmp_path: Path) -> None:
    """A client without Chargehand's converter is enough for a worker that serves crews of one's own."""
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


def test_a_missing_worker_is_named_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client package alone has the module, which says what to install."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "chargehand_worker"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if not (Path(each) / "chargehand_worker").is_dir()])

    for name in ("Worker", "run"):
        with pytest.raises(MissingExtra, match=r"The worker is not installed: pip install 'chargehand\[worker\]'"):
            getattr(chargehand.worker, name)


async def test_settings_that_cannot_be_used_are_named(client: Client, tmp_path: Path) -> None:
    """Unknown names and invalid values are refused at once, wrong crews before anything polls."""
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
