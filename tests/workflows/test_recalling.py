"""What agents go on reading: outcomes in full, notes, sources by their numbers, and pictures."""

import base64
import time
from pathlib import Path

import pytest
from PIL import Image
from pydantic import BaseModel
from temporalio.client import Client

from activities.contracts.rounds import InputOutcome, Note
from activities.contracts.tool import ToolAnswer
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument
from activities.models.prices import price_card
from activities.models.protocol import ModelCall, ModelReply
from activities.tools.recall import Recall, RecallContext
from activities.turn_kinds.work import WorkTask
from chargehand.client import Chargehand
from chargehand.contracts import Artifact, Limits, SessionRequest, Source, Success, Tier
from tests import crew_files as crews
from tests.environment import TOOLS, Backends, scripted_cards
from tests.scripted_model import (
    Script,
    ScriptedModel,
    ScriptedTool,
    answer,
    compacted,
    found,
    plan,
    refined,
    report,
    request_tool,
    request_tools,
    subtask,
    use,
    work_task,
)
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment, RunSession
from tests.workflows.test_long_conversations import run
from worker.settings import Settings
from worker.workers import build_worker

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


def at_length(content: str) -> BaseModel:
    short = answer("Three months.", ref="search_documents.md#L1", quote="what search_documents read")
    return short.model_copy(update={"content": content})


async def test_an_agent_reads_what_its_subtask_rests_on_in_full(run: RunSession, crew_folder: Path) -> None:
    """Directly or not: a text that its task shows shortened is read by page, with its sources."""
    script = (
        Script()
        .plan(subtask("T1"), subtask("T2"), subtask("T3", "writer", ["T1"]), subtask("T4", "writer", ["T3"]))
        .work("T1", use("search_documents"), at_length(LONG))
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
        .work("T1", use("search_documents"), at_length(f"{LONG}The tenant is called Ottokar Zibulski."))
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


FIRST, OTHER = "search_documents.md#L1", "read_document.md#L1"
WORDS = "what search_documents read"


async def test_what_another_agent_read_is_cited_by_its_number(environment: OpenEnvironment) -> None:
    """A dependent reads the input's sources by number, adds its own behind them, and its outcome names all in full."""
    both = answer("Both [p1], [p2].", ref="p1", quote=WORDS)
    script = (
        Script()
        .plan(subtask("T1"), subtask("T2", after=["T1"]))
        .work("T1", use("search_documents"), answer("It says so [p1].", ref="p1", quote=WORDS))
        .work("T2", use("read_document"), request_tools(("read_document", {"document": "p1"})), both)
        .synthesis(report("It says so [S1.1], and more [S2]."))
    )
    async with environment(script) as opened:
        result = await opened.run(SessionRequest(goal="What do the documents say?", review="never"))
        last = [call for call in opened.model.of_kind("work") if isinstance(call.task, WorkTask) and call.task.inputs]

    assert f"[p1] {FIRST} A title" in last[0].messages[0].text
    assert f"[p2] {OTHER} A title" in last[-1].messages[2].results[0].text
    assert work_task(last[-1]).rounds[1].calls[0].arguments == {"document": FIRST}
    assert [source.ref for source in result.sources] == [FIRST, OTHER]
    assert "p1" not in result.model_dump_json(include={"answer", "claims", "sources", "subtasks"})


async def test_a_number_outlives_its_conversation(tmp_path: Path) -> None:
    """After it has summed up, an agent cites what it read before by the number that it had."""
    result, model, _ = await run(tmp_path, compacted("So far: so [p1]."))

    anew = [call for call in model.of_kind("work") if work_task(call).summary and not work_task(call).rounds]
    assert {work_task(call).summary for call in anew} == {f"So far: so [{FIRST}]."}
    assert all("So far: so [p1]." in call.messages[0].text for call in anew)
    assert all(f"[p1] {FIRST}" in call.messages[0].text for call in anew)
    assert [source.ref for source in result.sources] == [FIRST]


DOCUMENTS = SessionRequest(goal="What do the documents say?", review="never")
READ = Source(ref="search_documents.md#L1", title="A title", quote="what search_documents read")
DEEP = Limits(max_turns=20)
QUOTED = READ.model_copy(update={"quote": "search_documents read"})


def note(*claims: str, ref: str = READ.ref, quote: str = QUOTED.quote) -> ModelReply:
    """Reply by noting claims."""
    return request_tools(*(("note", {"claim": claim, "ref": ref, "quote": quote}) for claim in claims))


async def test_notes_cost_nothing_and_take_no_call_of_the_round(environment: OpenEnvironment) -> None:
    """A round of many notes and eight other calls executes all of them; the notes are no tool calls that count."""
    reading = use(*["search_documents"] * 8)
    noting = note(*(f"Claim {number}." for number in range(12)))
    both = reading.model_copy(update={"tool_calls": (*noting.tool_calls, *reading.tool_calls)})
    asked: list[WorkTask] = []

    def second(call: ModelCall) -> ModelReply:
        assert "note" in call.offered_tools, "deep work keeps notes"
        return both

    script = Script().plan(subtask("T1")).work("", use("search_documents", about="first"), second, answer("Known."))
    async with environment(script) as opened:
        result = await opened.run(DOCUMENTS.model_copy(update={"profile": "deep", "limits": DEEP}))
        asked = opened.model.tasks(WorkTask)

    assert [given.ok for given in asked[-1].rounds[-1].results] == [True] * 20
    assert result.usage.tool_calls == 9


async def test_the_next_attempt_has_the_notes_of_the_one_before(environment: OpenEnvironment) -> None:
    """A second attempt begins with what the first one has noted, and may cite it without reading it again."""
    again = subtask("T1", instruction="Read it once more.").instruction
    script = (
        Script()
        .plan(subtask("T1"))
        .work("", use("search_documents"), note("It says so."), answer("", status="no_answer"))
        .work("once more", answer("It says so.", ref=READ.ref, quote=QUOTED.quote))
        .refine(refined(again))
    )
    async with environment(script) as opened:
        result = await opened.run(DOCUMENTS)
        [second] = [call for call in opened.model.of_kind("work") if again in call.messages[0].text]

    assert isinstance(second.task, WorkTask)
    assert second.task.notes == (Note(claim="It says so.", source=QUOTED),)
    assert (
        f"- It says so. [p1] Quote: {QUOTED.quote}\n</data>\n\nSources of these:\n<data>\n[p1] {READ.ref} A title"
        in second.messages[0].text
    )
    assert result.sources == (QUOTED,)


async def test_an_agent_is_shown_the_pictures_that_it_reads(client: Client, tmp_path: Path) -> None:
    """In the turn after it read them, and in later ones; the history has their names alone. Text models get a gap."""
    folder = tmp_path / "documents"
    folder.mkdir()
    Image.effect_noise((300, 200), 90).save(folder / "chart.png")
    (folder / "note.md").write_text("A note.")
    card = price_card("anthropic", "claude-sonnet-5-5")
    assert card is not None
    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "indexes", (folder,))
    look, read = (request_tool("read_document", document=name, first=0, last=0) for name in ("chart.png", "note.md"))
    script = Script().plan(subtask("T1", "reader")).work("", look, read, answer("It is grey."))
    request = SessionRequest(goal="What does the chart show?", documents=(f"file:{folder}",), review="never")

    for cards, sees in ((dict.fromkeys(Tier, card), True), (scripted_cards(), False)):
        model = ScriptedModel(script)
        settings = Settings(state_dir=tmp_path, task_queue=f"test-{tmp_path.name}-{sees}")
        fakes = {name: ScriptedTool(name, found("a.md#L1", "read")) for name in TOOLS}
        backends = Backends(model, {**fakes, "read_document": ReadDocument(library)}, cards, document_roots=(folder,))
        async with build_worker(client, settings, backends.activities(tmp_path, settings.ceilings)):
            session = await Chargehand(client, settings.task_queue).start(request)
            report = await session.result()
            history = (await client.get_workflow_handle(f"{session.id}").fetch_history()).to_json()

        pages = [
            [page for message in call.messages for result in message.results for page in result.shown]
            for call in model.of_kind("work")
        ]
        assert [len(shown) for shown in pages] == ([0, 1, 1] if sees else [0, 0, 0])
        assert any("chart.png: It is a picture" in gap for gap in report.gaps) is not sees
        for page in (page for shown in pages for page in shown):
            assert base64.b64decode(page.base64).startswith(b"\x89PNG")
            assert page.base64[:1_000] not in history
