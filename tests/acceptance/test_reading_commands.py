"""The commands that read what a session has left: `artifacts` fetches its files, `verify` checks its quotations."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.contracts.tool import ToolAnswer
from activities.documents.artifacts import ArtifactStore
from activities.tools.outputs import ToolOutput, store_outputs
from chargehand import Chargehand
from chargehand.contracts import SessionRequest, Source
from chargehand.payloads.encryption import Encryption
from chargehand.upload import store_documents
from tests.acceptance.commands import Commands
from tests.environment import open_environment
from tests.scripted_model import Script, answer, subtask, use

_PNG = b"\x89PNG\r\n\x1a\nrest"
_RULES = "# Boilers\n\nThe valve of a boiler is tested every six months.\nIt is oiled in between.\n"


_DRAWING = Script().plan(subtask("T1", "analyst")).work("", use("draw_chart"), answer("Drawn."))


async def _drawn(client: Client, folder: Path, encryption: Encryption | None = None) -> str:
    """Run a session whose agent makes two files of one name, kept in the folder `artifacts`."""
    store = ArtifactStore(folder / "artifacts", encryption)
    first = ToolOutput(name="sales.png", content=_PNG, title="Sales by month")
    made, _ = await store_outputs(store, [first, ToolOutput(name="sales.png", content=b"2")])
    async with open_environment(client, folder / "environment", _DRAWING) as opened:
        opened.tools["draw_chart"].answer = ToolAnswer(output={"drawn": 2}, artifacts=made)
        session = await opened.chargehand.start(SessionRequest(goal="Draw the sales."))
        await session.result()
    return session.id


@pytest.fixture(scope="module")
async def drawn(client: Client, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A session that has made files, and the folder where they are kept."""
    folder = tmp_path_factory.mktemp("drawn")
    return await _drawn(client, folder), folder / "artifacts"


async def test_artifacts_are_listed_and_downloaded(client: Client, drawn: tuple[str, Path], tmp_path: Path) -> None:
    """`result` names the command; without --to files are listed, with it saved, and repeating it is harmless."""
    (session, kept), to = drawn, tmp_path / "to"
    chargehand = Commands(client, "--state-dir", tmp_path / "state")
    shared = ("--artifacts", kept)

    shown = await chargehand("result", session)
    listed = await chargehand("artifacts", session)
    brought = await chargehand("artifacts", session, "--to", to, *shared)
    again = await chargehand("artifacts", session, "--to", to, *shared, "--json")

    names = ["sales.png", "sales (2).png"]
    assert f"2 files were made; to download: `chargehand artifacts {session} --to DIR`" in shown.said
    assert listed.out.splitlines() == [
        "sales.png  image/png  12 bytes  Sales by month",
        "sales (2).png  application/octet-stream  1 bytes",
    ]
    assert (brought.code, again.code) == (0, 0), brought.said + again.said
    assert [(to / name).read_bytes() for name in names] == [_PNG, b"2"]
    told = [(each["path"], each["problem"]) for each in json.loads(again.out)]
    assert told == [(str(to / name), "") for name in names]


@pytest.mark.slow
async def test_a_command_that_waits_for_a_report_says_if_no_worker_polls(client: Client, tmp_path: Path) -> None:
    """It goes on waiting, and ends as the session does."""
    session = await Chargehand(client, "nobody-polls-this").start("Is anybody there?")
    process = await Commands(client, "--state-dir", tmp_path).begin("open", session.id)
    assert process.stderr is not None
    remark = await asyncio.wait_for(process.stderr.readline(), 60)
    await client.get_workflow_handle(session.id).terminate()

    assert remark.startswith(b"Waiting for the report. No worker polls the task queue 'nobody-polls-this'")
    assert await asyncio.wait_for(process.wait(), 60) == 1


async def test_report_command_embeds_pictures(client: Client, drawn: tuple[str, Path], tmp_path: Path) -> None:
    """The file extension selects the format, and artifacts are embedded in the HTML page."""
    (session, kept), page = drawn, tmp_path / "page.htm"

    where = ("--state-dir", tmp_path / "state", "--artifacts", kept)
    ran = await Commands(client, *where)("report", session, "--to", page)

    assert (ran.code, ran.out, ran.said) == (0, "", f"Report: {page}\n")
    data = base64.b64encode(_PNG).decode()
    assert f'<img src="data:image/png;base64,{data}" alt="Sales by month">' in page.read_text()


@pytest.mark.nightly
async def test_report_command_does_not_wait_for_a_missing_report(client: Client, tmp_path: Path) -> None:
    """A running session gives a page with the `watch` command; one that ended without a report is an error."""
    started = Chargehand(client, task_queue="nobody-works-here")
    session = await started.start(SessionRequest(goal="Is <anybody> there?"))
    chargehand, page = Commands(client, "--task-queue", "nobody-works-here"), tmp_path / "page.html"

    shown = await chargehand("report", session.id, "--to", page)
    await client.get_workflow_handle(session.id).terminate()
    refused = await chargehand("report", session.id, "--to", "-", "--format", "md")

    assert (shown.code, refused.code, refused.out) == (3, 2, "")
    assert f"<code>chargehand watch {session.id}</code>" in page.read_text()
    assert f"Session '{session.id}' has no report: " in refused.said


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--to", "to"), 2, "--artifacts or CHARGEHAND_ARTIFACTS"),
        (("--force",), 2, "--force needs a folder: --to DIR"),
        (("--to", "/dev/null", "--artifacts", "artifacts"), 1, "/dev/null cannot be used as a folder"),
    ],
)
async def test_artifacts_command_names_the_missing_option(
    client: Client, drawn: tuple[str, Path], options: tuple[str, ...], code: int, said: str
) -> None:
    """A missing artifact store, a missing target folder and an unusable folder are each reported."""
    ran = await Commands(client)("artifacts", drawn[0], *options)

    assert (ran.code, ran.out) == (code, "")
    assert said in ran.said


@asynccontextmanager
async def _told(client: Client, folder: Path, *sources: Source) -> AsyncGenerator[tuple[str, Commands]]:
    """Run a session about the boiler rules whose findings cite these sources, and keep its worker running."""
    (folder / "docs").mkdir()
    (folder / "docs" / "boilers.md").write_text(_RULES)
    documents = store_documents([folder / "docs"], folder / "environment" / "artifacts")

    findings = [found for each in sources for found in answer("Known.", ref=each.ref, quote=each.quote).findings]
    known = answer("Known.").model_copy(update={"findings": findings})
    script = Script().plan(subtask("T1")).work("", use("search_documents"), known)
    async with open_environment(client, folder / "environment", script) as opened:
        opened.tools["search_documents"].answer = ToolAnswer(output={"found": 1}, sources=sources)
        session = await opened.chargehand.start(SessionRequest(goal="When is the valve tested?", documents=documents))
        await session.result()
        yield session.id, Commands(client)


_TRUE = Source(ref="boilers.md#L3", quote="The valve of a boiler is tested every six months.")
_FALSE = Source(ref="boilers.md#L4", quote="It is never oiled.")


async def test_verify_reports_quotations_that_are_not_in_the_source(client: Client, tmp_path: Path) -> None:
    """`verify` exits with code 1 and shows the reference and the words beside the quotations that match."""
    async with _told(client, tmp_path, _TRUE, _FALSE) as (session, chargehand):
        verified = await chargehand("verify", session)
        as_json = await chargehand("verify", session, "--json")

    assert (verified.code, as_json.code) == (1, 1)
    assert "✔ S1   boilers.md#L3\n" in verified.out
    assert "✘ S2   boilers.md#L4\n       these words do not stand there: It is never oiled." in verified.out
    assert "Verified quotations: 1 of 2." in verified.said
    assert [(each["ref"], each["stands"]) for each in json.loads(as_json.out)["quotations"]] == [
        (_TRUE.ref, True),
        (_FALSE.ref, False),
    ]
