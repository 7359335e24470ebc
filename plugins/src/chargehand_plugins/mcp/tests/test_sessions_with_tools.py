"""Sessions whose agents use MCP servers: the how-to's, one that repeats its credential, and one with pictures."""

import base64
import io
import os
import re
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from PIL import Image
from pydantic import BaseModel, JsonValue
from temporalio.client import Client

from activities.contracts.rounds import MOST_PICTURES
from activities.models.protocol import ModelCall
from activities.models.tiers import Models
from activities.tools.own import open_own_tools
from chargehand.client import Chargehand
from chargehand.contracts import Report, SessionRequest
from chargehand.tools import Tool
from chargehand_plugins.mcp.tests.http_server import serve_mcp
from tests.crew_files import crew_text
from tests.environment import scripted_cards
from tests.scripted_model import Script, ScriptedModel, answer, cite, request_tool, subtask, work_task
from worker.composition import compose
from worker.settings import settings_type
from worker.workers import build_worker

ROOT = Path(__file__).resolve().parents[5]
TOKEN = "canary-token-1234"
PLACE = "Anna's house"


@asynccontextmanager
async def worker(
    client: Client, folder: Path, crew: str, respond: ScriptedModel, tools: Sequence[Tool[..., Any]] = (), **chosen: Any
) -> AsyncGenerator[Chargehand]:
    """Run a worker as `worker_main` composes it but for its model, with this crew file, tools and settings."""
    crews = folder / "crews"
    crews.mkdir()
    (crews / "own.toml").write_text(crew)
    settings = settings_type()(state_dir=folder, crews=crews, task_queue=f"mcp-{uuid4().hex[:8]}", **chosen)
    async with AsyncExitStack() as closing:
        own = await open_own_tools(tools, 4, closing)
        models = Models(respond, scripted_cards())
        activities = await compose(
            settings,
            os.environ,
            closing,
            lambda traffic: replace(traffic, models=models, tools={**traffic.tools, **own}),
        )
        async with build_worker(client, settings, activities):
            yield Chargehand(client, settings.task_queue)


def asking(agent: str, tool: str, **arguments: JsonValue) -> ScriptedModel:
    """Have one agent use one tool, and answer with what it returned."""
    asks = request_tool(tool, **arguments)
    return ScriptedModel(Script().plan(subtask("T1", agent)).work("", asks, cite("It is known [{ref}].")))


async def run(chargehand: Chargehand, crew: str) -> Report:
    session = await chargehand.start(SessionRequest(goal="When it is noon in Tokyo?", crew=crew))
    return await session.result()


async def histories(client: Client, session: str) -> bytes:
    """Return every byte of a session's histories."""
    handles = [
        client.get_workflow_handle(run.id, run_id=run.run_id)
        async for run in client.list_workflows(f"WorkflowId STARTS_WITH '{session}'")
    ]
    events = [event for handle in handles for event in (await handle.fetch_history()).events]
    return b"".join(event.SerializeToString() for event in events)


@pytest.mark.slow
async def test_the_crew_in_the_mcp_how_to_works(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's first block is a crew file; its agent uses the real server, and the report cites it."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    block = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/how-to/mcp.md").read_text(), re.DOTALL)[0]
    noon = {"source_timezone": "Asia/Tokyo", "target_timezone": "Asia/Kolkata", "time": "12:00"}
    model = asking("timekeeper", "time_convert_time", **noon)

    async with worker(
        client, tmp_path, block.replace("tools = [", "start_seconds = 120\ntools = [", 1), model
    ) as opened:
        report = await run(opened, "clock")

    assert report.answer == "It is known [S1]."
    assert [source.title for source in report.sources] == ["convert_time by the MCP server 'time'"]
    assert "T08:30:00+05:30" in report.sources[0].quote
    offered = {tool.name: tool.description for tool in model.of_kind("work")[0].tools}
    assert offered["time_convert_time"].endswith("Convert time between timezones")


def drawn(number: int) -> bytes:
    exif = Image.Exif()
    exif[0x010E] = PLACE
    file = io.BytesIO()
    Image.new("RGB", (2_000 + number, 500), (number, 0, 99)).save(file, "JPEG", exif=exif)
    return file.getvalue()


@contextmanager
def camera() -> Generator[str]:
    """Serve a tool that returns words, something broken, and more pictures than are shown."""
    import mcp_types as types
    from mcp.server.mcpserver import MCPServer

    mcp = MCPServer("camera")

    @mcp.tool(structured_output=False)
    def look() -> list[types.ContentBlock]:
        """Look."""
        contents = [b"no picture", *(drawn(number) for number in range(MOST_PICTURES))]
        data = [base64.b64encode(each).decode() for each in contents]
        pictures = [types.ImageContent(type="image", data=each, mime_type="image/jpeg") for each in data]
        return [types.TextContent(type="text", text="The yard."), *pictures]

    with serve_mcp(mcp) as url:
        yield url


async def test_a_servers_pictures_are_shown_to_the_model(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are re-encoded and limited in number, with a source that describes them; the rest is listed."""
    cards = {tier: card.model_copy(update={"name": "gpt-5.4"}) for tier, card in scripted_cards().items()}
    monkeypatch.setattr(f"{__name__}.scripted_cards", lambda: cards)
    turns = list[ModelCall]()

    def end(call: ModelCall) -> BaseModel:
        turns.append(call)
        return answer("A yard.")

    model = ScriptedModel(Script().plan(subtask("T1", "guard")).work("", request_tool("camera_look"), end))
    with camera() as url:
        server = f'[[mcp]]\nname = "camera"\nurl = "{url}"\ntools = ["look"]\ncapabilities = []\n'
        crew = crew_text("desk", server, guard='tools = ["camera_look"]\ncapabilities = []')
        async with worker(client, tmp_path, crew, model) as chargehand:
            await run(chargehand, "desk")

    [result] = work_task(turns[0]).rounds[0].results
    pictures = [f"A picture of {2_000 + number} × 500 pixels." for number in range(MOST_PICTURES - 1)]
    assert [each.quote for each in result.sources] == ["\n\n".join(["The yard.", *pictures])]
    assert result.output == {"left_out": "image (2)"}
    [told] = [each for message in turns[0].messages for each in message.results]
    shown = [base64.b64decode(each.base64) for each in told.shown]
    assert len(shown) == len(pictures)
    assert Image.open(io.BytesIO(shown[0])).size == (1_568, 392)
    assert not any(PLACE.encode() in each for each in shown)
