"""Sessions about pictures."""

import base64
from pathlib import Path

from PIL import Image
from temporalio.client import Client

from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument
from activities.models.prices import price_card
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest, Tier
from tests.environment import TOOLS, Backends, scripted_cards
from tests.scripted_model import Script, ScriptedModel, ScriptedTool, answer, found, request_tool, subtask
from worker.settings import Settings
from worker.workers import build_worker


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
