"""What agents can keep reading: outcomes in full, notes, sources by number, pictures, and long conversations."""

import base64
import shutil
import time
from pathlib import Path

import pytest
from PIL import Image
from pydantic import BaseModel
from temporalio.client import Client

from activities.contracts.cards import ModelCard
from activities.contracts.rounds import InputOutcome, Note
from activities.contracts.tool import ToolAnswer
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument
from activities.models.prices import price_card
from activities.models.protocol import ModelCall, ModelReply
from activities.tools.recall import Recall, RecallContext
from activities.turn_kinds.work import CompactTask, NoteDraft, WorkTask
from chargehand.contracts import Artifact, Limits, Outcome, Report, SessionRequest, Source, Success, Tier
from tests import crew_files as crews
from tests.environment import PRICES, open_environment, scripted_cards
from tests.scripted_model import (
    Script,
    ScriptedModel,
    Turn,
    answer,
    compacted,
    found,
    refined,
    reply,
    report,
    request_tool,
    request_tools,
    subtask,
    use,
    work_task,
)
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment, RunSession, scheduled_in

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


async def test_an_agent_can_recall_its_inputs_in_full(run: RunSession, crew_folder: Path) -> None:
    """It can read a direct or indirect input that its task shows shortened, page by page, with its sources."""
    chain = (subtask("T1"), subtask("T2"), subtask("T3", "writer", ["T1"]), subtask("T4", "writer", ["T3"]))
    script = Script().plan(*chain).work("T1", use("search_documents"), at_length(LONG)).synthesis(report("Done."))
    script = script.work("T3", recall("T1"), recall("T1", 2), recall("T2"), answer("Three months."))
    script = script.work("T4", recall("T1", 4), answer("Dear tenants."))
    result, opened = await run(script, GOAL, own_crews=(crew_folder,))

    assert [record.state for record in result.subtasks] == ["success"] * 4
    last = {task.instruction[-20:]: task for task in map(work_task, opened.model.of_kind("work"))}
    direct, indirect = ([past.results[0] for past in task.rounds] for task in list(last.values())[-2:])
    shown = work_task(opened.model.of_kind("work")[-1])
    assert len(LONG) > len(shown.inputs[0].outcome.content)
    first, second, refused = direct
    assert str(first.output["text"]).count("three months") > 800
    assert (first.output["pages"], second.output["page"]) == (4, 2)
    error = "There is no such outcome for this subtask, or it is no longer kept; there are: T1."
    assert refused.output == {"error": error}
    assert [source.quote for source in indirect[0].sources] == ["what search_documents read"]


async def recalled(store: ArtifactStore, outcome: Outcome) -> ToolAnswer:
    """Read the first page of an outcome."""
    given = InputOutcome(id="T1", agent="reader", instruction="Read.", outcome=outcome)
    context = RecallContext(session="s", agent="writer", idempotency_key="k", outcome=given)
    return await Recall(store).use({"id": "T1", "page": 1}, context)


async def test_recalled_outcomes_include_their_text_files(tmp_path: Path) -> None:
    """A file that is not text is only named."""
    store = ArtifactStore(tmp_path)
    table = Artifact(uri=f"artifact:{store.put(b'a,b')}/t.csv", name="t.csv", media_type="text/csv", bytes=3)
    chart = Artifact(uri=f"artifact:{'0' * 64}/c.png", name="c.png", media_type="image/png", bytes=9, title="Costs")
    source = Source(ref="lease.md#L1", quote="three months")

    page = await recalled(store, Success(content="So.", sources=(source,), artifacts=(table, chart)))

    assert page.sources == (source,)
    files = "File t.csv (text/csv, 3 bytes):\na,b\n\nFile c.png (image/png, 9 bytes): Costs"
    assert str(page.output["text"]).endswith(files)


async def test_recalling_an_outcome_is_fast(tmp_path: Path) -> None:
    """One of 10 KB is returned whole in less than 20 ms of CPU time, which a database would take."""
    outcome, store = Success(content="It is so in all of the harbours. " * 320), ArtifactStore(tmp_path)
    took: list[float] = []
    for _ in range(10):
        began = time.process_time()
        page = await recalled(store, outcome)
        took.append(time.process_time() - began)

        assert outcome.content in str(page.output["text"])
        assert page.output["pages"] == 1
    assert min(took) < 0.02


async def test_recalled_private_text_is_sent_only_with_approval(
    environment: OpenEnvironment, crew_folder: Path
) -> None:
    """Even if a person lets an agent that reaches out have an input, each call needs a decision of its own."""

    secret, harmless = (f"https://example.com/{page}" for page in ("ottokar-zibulski", "harmless"))
    searches = [request_tool("search", query=address) for address in (secret, harmless)]
    known = at_length(f"{LONG}The tenant is called Ottokar Zibulski.")
    script = Script().plan(subtask("T1"), subtask("T2", "scout", ["T1"])).work("T1", use("search_documents"), known)
    script = script.work("T2", recall("T1", 4), *searches, answer("Done.")).synthesis(report("Done."))
    async with environment(script, own_crews=(crew_folder,)) as opened:
        source = Source(ref="search_documents.md#L1", quote="what search_documents read", url=secret)
        opened.tools["search_documents"].answer = ToolAnswer(sources=(source,))
        session = await opened.start(GOAL.model_copy(update={"approval": "plan"}), until="awaiting_approval")
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


async def test_an_input_source_is_cited_by_its_short_ref(environment: OpenEnvironment) -> None:
    """An agent numbers its own sources after those of its inputs, and its outcome has the full refs of all."""
    both = answer("Both [p1], [p2].", ref="p1", quote=WORDS)
    script = Script().plan(subtask("T1"), subtask("T2", after=["T1"]))
    script = script.work("T1", use("search_documents"), answer("It says so [p1].", ref="p1", quote=WORDS))
    script = script.work("T2", use("read_document"), request_tool("read_document", document="p1"), both)
    async with environment(script.synthesis(report("It says so [S1.1], and more [S2]."))) as opened:
        result = await opened.run(SessionRequest(goal="What do the documents say?", review="never"))
        last = [call for call in opened.model.of_kind("work") if isinstance(call.task, WorkTask) and call.task.inputs]

    assert f"[p1] {FIRST} A title" in last[0].messages[0].text
    assert f"[p2] {OTHER} A title" in last[-1].messages[2].results[0].text
    assert work_task(last[-1]).rounds[1].calls[0].arguments == {"document": FIRST}
    assert [source.ref for source in result.sources] == [FIRST, OTHER]
    assert "p1" not in result.model_dump_json(include={"answer", "claims", "sources", "subtasks"})


DOCUMENTS = SessionRequest(goal="What do the documents say?", review="never")
READ = Source(ref="search_documents.md#L1", title="A title", quote="what search_documents read")
DEEP = Limits(max_turns=20)
QUOTED = READ.model_copy(update={"quote": "search_documents read"})


def note(*claims: str, ref: str = READ.ref, quote: str = QUOTED.quote) -> ModelReply:
    """Reply by noting claims."""
    return request_tools(*(("note", {"claim": claim, "ref": ref, "quote": quote}) for claim in claims))


async def test_notes_do_not_count_as_tool_calls(environment: OpenEnvironment) -> None:
    """A round of many notes and eight other calls executes all of them."""
    reading = use(*["search_documents"] * 8)
    noting = note(*(f"Claim {number}." for number in range(12)))
    both = reading.model_copy(update={"tool_calls": (*noting.tool_calls, *reading.tool_calls)})

    def second(call: ModelCall) -> ModelReply:
        assert "note" in call.offered_tools, "deep work keeps notes"
        return both

    script = Script().plan(subtask("T1")).work("", use("search_documents", about="first"), second, answer("Known."))
    async with environment(script) as opened:
        result = await opened.run(DOCUMENTS.model_copy(update={"profile": "deep", "limits": DEEP}))
        asked = opened.model.tasks(WorkTask)

    assert [given.ok for given in asked[-1].rounds[-1].results] == [True] * 20
    assert result.usage.tool_calls == 9


UNANSWERED = answer("", status="no_answer")


async def test_a_second_attempt_gets_the_notes_of_the_first(environment: OpenEnvironment) -> None:
    """It may cite them without reading the source again."""
    again = subtask("T1", instruction="Read it once more.").instruction
    failing = Script().plan(subtask("T1")).work("", use("search_documents"), note("It says so."), UNANSWERED)
    script = failing.work("once more", answer("It says so.", ref=READ.ref, quote=QUOTED.quote))
    async with environment(script.refine(refined(again))) as opened:
        result = await opened.run(DOCUMENTS)
        [second] = [call for call in opened.model.of_kind("work") if again in call.messages[0].text]

    assert isinstance(second.task, WorkTask)
    assert second.task.notes == (Note(claim="It says so.", source=QUOTED),)
    noted = f"- It says so. [p1] Quote: {QUOTED.quote}\n</data>"
    assert f"{noted}\n\nSources of these:\n<data>\n[p1] {READ.ref} A title" in second.messages[0].text
    assert result.sources == (QUOTED,)


async def test_agents_see_the_pictures_that_they_read(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later turns include them, and the history has only their names. With text models the report has a gap."""
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
        async with open_environment(client, tmp_path, script, cards=cards, document_roots=(folder,)) as opened:
            monkeypatch.setattr(opened.tools["read_document"], "use", ReadDocument(library).use)
            report = await opened.run(request)
            history = (await client.get_workflow_handle(report.session).fetch_history()).to_json()

        pages = [
            [page for message in call.messages for result in message.results for page in result.shown]
            for call in opened.model.of_kind("work")
        ]
        assert [len(shown) for shown in pages] == ([0, 1, 1] if sees else [0, 0, 0])
        assert any("chart.png: It is a picture" in gap for gap in report.gaps) is not sees
        for page in (page for shown in pages for page in shown):
            assert base64.b64decode(page.base64).startswith(b"\x89PNG")
            assert page.base64[:1_000] not in history


_ROUNDS = 8
_READ = "word " * 1_000
_READING = (
    Script()
    .plan(subtask("T1", instruction=f"Read the document{', line by line' * 8} to its end."))
    .work("", *(use("search_documents", about=number) for number in range(_ROUNDS)), answer("Known."))
)
"""Reads something new in each round, and answers in the last."""


@pytest.mark.real_server
async def test_each_turn_sees_the_whole_conversation_but_sends_only_new_rounds(environment: OpenEnvironment) -> None:
    """The model gets all earlier rounds in order; the history grows linearly with the turns."""
    async with environment(_READING) as opened:
        opened.tools["search_documents"].answer = found("big.md#L1", _READ)
        result = await opened.run(DOCUMENTS.model_copy(update={"limits": Limits(max_turns=30)}))
        handle = opened.chargehand.client.get_workflow_handle(result.subtasks[0].workflow_id or "")
        history = await handle.fetch_history()

    asked = opened.model.tasks(WorkTask)
    sent = [each.input.ByteSize() for each in scheduled_in(history) if each.activity_type.name == "take_turn"]
    assert [len(task.rounds) for task in asked] == list(range(_ROUNDS + 1))
    assert [past.calls[0].arguments["query"] for past in asked[-1].rounds] == [
        f"search_documents 1 {number}" for number in range(_ROUNDS)
    ]
    assert len(sent) == _ROUNDS + 1
    assert history.events[0].SerializeToString().count(b"to its end.") == 1
    # A new round is sent alone with a short request; two rounds would not fit.
    assert max(sent[2:]) < 2 * len(_READ)


async def test_a_worker_without_the_stored_conversation_is_sent_all_of_it(tmp_path: Path) -> None:
    """The store may vanish between any two turns: nothing is lost, and nothing is paid for twice."""

    def forgetful(call: ModelCall) -> Turn:
        shutil.rmtree(tmp_path / "conversations", ignore_errors=True)
        return _READING(call)

    async with open_environment(None, tmp_path, forgetful) as opened:
        opened.tools["search_documents"].answer = found("big.md#L1", _READ)
        result = await opened.run(DOCUMENTS.model_copy(update={"limits": Limits(max_turns=30)}))

    assert result.answer == "Known."
    assert len(opened.model.of_kind("work")) == _ROUNDS + 1
    assert result.usage.turns == len(opened.model.calls)


FOR_LONG = DOCUMENTS.model_copy(update={"limits": Limits(max_turns=60, max_rounds=20)})
CARDS = {
    tier: ModelCard(provider="scripted", name=f"scripted-{tier}", prices=PRICES, context_window=8_000) for tier in Tier
}
ROUNDS = 7


def measured(call: ModelCall, made: ModelReply) -> ModelReply:
    """Have a reply report an estimate of its prompt's input tokens."""
    tokens = sum(len(message.model_dump_json()) for message in call.messages) // 4
    assert made.usage is not None
    return made.model_copy(update={"usage": made.usage.model_copy(update={"input_tokens": tokens})})


def reading_for_long(call: ModelCall, rounds_before: list[int]) -> ModelReply:
    """Read something new in each of `ROUNDS` rounds, whatever the conversation, then answer."""
    rounds_before.append(len(work_task(call).rounds))
    number = len(rounds_before)
    if number > ROUNDS:
        return measured(call, reply(answer("It says so.", ref=READ.ref, quote=QUOTED.quote)))
    return measured(call, use("search_documents", about=f"{number} {'x' * 7_000}"))


async def run(folder: Path, compaction: Turn) -> tuple[Report, ScriptedModel, list[int]]:
    rounds_before: list[int] = []
    script = Script().plan(subtask("T1")).work("", lambda call: reading_for_long(call, rounds_before))
    async with open_environment(None, folder, script.on("compact", compaction), cards=CARDS) as opened:
        return await opened.run(FOR_LONG), opened.model, rounds_before


async def test_a_long_conversation_is_compacted(tmp_path: Path) -> None:
    """Before the window fills, the agent summarises; later turns may cite earlier sources by their numbers."""
    noted = NoteDraft(claim="It says so.", ref=READ.ref, quote=QUOTED.quote)
    invented = NoteDraft(claim="It says more.", ref="nowhere.md", quote="more")

    result, model, rounds = await run(tmp_path, compacted("So far: so [p1].", noted, invented))

    summaries = model.tasks(CompactTask)
    anew = [call for call in model.of_kind("work") if work_task(call).summary and not work_task(call).rounds]
    assert len(summaries) == len(anew) > 1
    assert max(rounds) < 4
    assert all(work_task(call).summary == f"So far: so [{FIRST}]." for call in anew)
    assert all(work_task(call).notes == (Note(claim="It says so.", source=QUOTED),) for call in anew)
    assert all(f"[p1] {FIRST}" in call.messages[0].text and "so [p1]." in call.messages[0].text for call in anew)
    assert result.stop_reason == "completed"
    assert result.sources == (QUOTED,)
    # Only the compaction's own turns come on top, each booked for its purpose.
    assert result.usage.turns == 1 + ROUNDS + 1 + len(summaries)
    assert sum(line.usage.turns for line in result.spend if line.purpose == "compact") == len(summaries)
    assert_continues_the_conversation(model)


def assert_continues_the_conversation(model: ScriptedModel) -> None:
    """The summarising turn repeats the preceding prompt, for the provider's cache, and allows no tools."""
    position = next(number for number, call in enumerate(model.calls) if isinstance(call.task, CompactTask))
    before, summing_up = model.calls[position - 1], model.calls[position]
    assert summing_up.messages[: len(before.messages)] == before.messages
    assert (summing_up.system, summing_up.tools) == (before.system, before.tools)
    assert not summing_up.may_use_tools
    assert "Answer with JSON:\n- summary:" in summing_up.messages[-1].text


async def test_without_a_summary_an_agent_continues_from_its_sources(tmp_path: Path) -> None:
    """A failed summary costs its turn; the next conversation starts with a list of the sources."""
    result, model, _ = await run(tmp_path, answer("Not a summary."))

    begun_anew = [task for task in model.tasks(WorkTask) if task.summary and not task.rounds]
    assert all(f"- [{READ.ref}] {READ.title}: {READ.quote}" in task.summary for task in begun_anew)
    assert len(begun_anew) > 1
    assert result.stop_reason == "completed"
    assert [source.ref for source in result.sources] == [READ.ref]
