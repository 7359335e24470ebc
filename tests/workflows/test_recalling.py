"""The tool `recall`: an agent reads what its subtask rests on in full, and nothing else."""

import time
from pathlib import Path

import pytest
from pydantic import BaseModel

from activities.contracts.rounds import InputOutcome
from activities.contracts.tool import ToolAnswer
from activities.documents.artifacts import ArtifactStore
from activities.models.protocol import ModelReply
from activities.tools.recall import Recall, RecallContext
from chargehand.contracts import Artifact, SessionRequest, Source, Success
from tests import crew_files as crews
from tests.scripted_model import Script, answer, plan, report, request_tool, subtask, use, work_task
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="Write to the tenants about the notice.", crew="office", review="never")
LONG = "The notice is three months. " * 2_800


@pytest.fixture
def crew_folder(tmp_path: Path) -> Path:
    return crews.crew_folder(
        tmp_path,
        "office",
        reader=f'tools = ["search_documents"]\n{crews.READS_DOCUMENTS}',
        writer='tools = ["recall"]',
        scout=f'tools = ["recall", "search"]\n{crews.READS_THE_WEB}',
    )


def recall(id_: str, page: int = 1) -> ModelReply:
    return request_tool("recall", id=id_, page=page)


def found(content: str) -> BaseModel:
    short = answer("Three months.", ref="search_documents.md#L1", quote="what search_documents read")
    return short.model_copy(update={"content": content})


async def test_an_agent_reads_what_its_subtask_rests_on_in_full(run: RunSession, crew_folder: Path) -> None:
    """Directly or not: a text that its task shows shortened is read by page, with its sources."""
    script = (
        Script()
        .plan(subtask("T1"), subtask("T2"), subtask("T3", "writer", ["T1"]), subtask("T4", "writer", ["T3"]))
        .work("T1", use("search_documents"), found(LONG))
        .work("T3", recall("T1"), recall("T1", 2), recall("T2"), answer("Three months."))
        .work("T4", recall("T1", 4), answer("Dear tenants."))
        .synthesis(report("Done."))
    )
    result, opened = await run(script, GOAL, own_crews=(crew_folder,))

    assert [record.state for record in result.subtasks] == ["success"] * 4
    last = {task.instruction[-20:]: task for task in map(work_task, opened.model.of_kind("work"))}
    direct, indirect = ([past.results[0] for past in task.rounds] for task in list(last.values())[-2:])
    shown = work_task(opened.model.of_kind("work")[-1])
    assert len(LONG) > len(shown.inputs[0].outcome.content)
    first, second, refused = direct
    assert str(first.output["text"]).count("three months") > 800
    assert (first.output["pages"], second.output["page"]) == (4, 2)
    assert refused.output == {
        "error": "There is no such outcome for this subtask, or it is no longer kept; there are: T1."
    }
    assert [source.quote for source in indirect[0].sources] == ["what search_documents read"]


async def test_what_is_recalled_goes_no_further_than_an_input(run: RunSession, crew_folder: Path) -> None:
    """A plan in which an agent that reaches out could recall private text is refused, directly or not."""
    through = (subtask("T1"), subtask("T2", "writer", ["T1"]), subtask("T3", "scout", ["T2"]))
    script = Script().plans(*[plan(*through)] * 2, plan(*through[:2])).work("", answer("So."))
    _, opened = await run(script.synthesis(report("Done.")), GOAL, own_crews=(crew_folder,))

    errors = opened.model.of_kind("plan")[-1].messages[0].text
    assert "private" in errors
    assert {call.agent for call in opened.model.of_kind("work")} == {"reader", "writer"}


async def test_files_are_read_too(tmp_path: Path) -> None:
    """The text of a file that a tool made follows the outcome; what is no text is named."""
    store = ArtifactStore(tmp_path)
    table = Artifact(uri=f"artifact:{store.put(b'a,b')}/t.csv", name="t.csv", media_type="text/csv", bytes=3)
    chart = Artifact(uri=f"artifact:{'0' * 64}/c.png", name="c.png", media_type="image/png", bytes=9, title="Costs")
    source = Source(ref="lease.md#L1", quote="three months")
    outcome = Success(content="So.", sources=(source,), artifacts=(table, chart))
    given = InputOutcome(id="T1", agent="reader", instruction="Read.", outcome=outcome)
    context = RecallContext(session="s", agent="writer", idempotency_key="k", outcome=given)

    page = await Recall(store).use({"id": "T1", "page": 1}, context)

    assert page.sources == (source,)
    assert str(page.output["text"]).endswith(
        "File t.csv (text/csv, 3 bytes):\na,b\n\nFile c.png (image/png, 9 bytes): Costs"
    )


async def test_an_outcome_is_read_at_once(tmp_path: Path) -> None:
    """One of 10 KB is read whole, in less than the 20 ms of a database."""
    outcome = Success(content="It is so in all of the harbours. " * 320)
    given = InputOutcome(id="T1", agent="reader", instruction="Read.", outcome=outcome)
    context = RecallContext(session="s", agent="writer", idempotency_key="k", outcome=given)
    recall, took = Recall(ArtifactStore(tmp_path)), list[float]()
    for _ in range(10):
        began = time.perf_counter()
        page = await recall.use({"id": "T1", "page": 1}, context)
        took.append(time.perf_counter() - began)

        assert outcome.content in str(page.output["text"])
        assert page.output["pages"] == 1
    assert min(took) < 0.02


async def test_private_text_that_is_recalled_is_not_sent_anywhere(
    environment: OpenEnvironment, crew_folder: Path
) -> None:
    """As with inputs: though a person lets an agent that reaches out have it, another decides about each call."""

    secret, harmless = (f"https://example.com/{page}" for page in ("ottokar-zibulski", "harmless"))
    searches = [request_tool("search", query=address) for address in (secret, harmless)]
    script = (
        Script()
        .plan(subtask("T1"), subtask("T2", "scout", ["T1"]))
        .work("T1", use("search_documents"), found(f"{LONG}The tenant is called Ottokar Zibulski."))
        .work("T2", recall("T1", 4), *searches, answer("Done."))
        .synthesis(report("Done."))
    )
    async with environment(script, own_crews=(crew_folder,)) as opened:
        source = Source(ref="search_documents.md#L1", quote="what search_documents read", url=secret)
        opened.tools["search_documents"].answer = ToolAnswer(sources=(source,))
        session = await opened.chargehand.start(GOAL.model_copy(update={"approval": "plan"}))
        await until_state(session, "awaiting_approval")
        await session.approve()
        for is_harmless in (False, True):
            await until_state(session, "awaiting_call_approval")
            [call] = (await session.status()).calls
            await (session.approve_call(call) if is_harmless else session.reject_call(call, "No."))
        await session.result()

    last = work_task(opened.model.of_kind("work")[-1])
    assert "Zibulski" not in last.inputs[0].outcome.content
    recalled = last.rounds[0].results[0]
    assert "Zibulski" in str(recalled.output["text"])
    assert [each.url for each in recalled.sources] == [secret]
    assert [call["query"] for call in opened.tools["search"].calls] == [harmless]
