"""Pictures that a server returns are shown to models that see."""

import base64
import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from pydantic import BaseModel
from temporalio.client import Client

from activities.contracts.rounds import MOST_PICTURES
from activities.models.protocol import ModelCall
from chargehand_plugins.mcp.tests import test_sessions_with_tools as sessions
from chargehand_plugins.mcp.tests.http_server import serve_mcp
from tests.crew_files import crew_text
from tests.environment import scripted_cards
from tests.scripted_model import Script, ScriptedModel, answer, request_tool, subtask, work_task

PLACE = "Anna's house"


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


async def test_a_servers_pictures_are_shown(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written anew and in a bounded number, with a source that says what they are; the rest is named as left out."""
    cards = {tier: card.model_copy(update={"name": "gpt-5.4"}) for tier, card in scripted_cards().items()}
    monkeypatch.setattr(sessions, "scripted_cards", lambda: cards)
    turns = list[ModelCall]()

    def end(call: ModelCall) -> BaseModel:
        turns.append(call)
        return answer("A yard.")

    model = ScriptedModel(Script().plan(subtask("T1", "guard")).work("", request_tool("camera_look"), end))
    with camera() as url:
        server = f'[[mcp]]\nname = "camera"\nurl = "{url}"\ntools = ["look"]\ncapabilities = []\n'
        crew = crew_text("desk", server, guard='tools = ["camera_look"]\ncapabilities = []')
        async with sessions.worker(client, tmp_path, crew, model) as chargehand:
            await sessions.run(chargehand, "desk")

    [result] = work_task(turns[0]).rounds[0].results
    pictures = [f"A picture of {2_000 + number} × 500 pixels." for number in range(MOST_PICTURES - 1)]
    assert [each.quote for each in result.sources] == ["\n\n".join(["The yard.", *pictures])]
    assert result.output == {"left_out": "image (2)"}
    [told] = [each for message in turns[0].messages for each in message.results]
    shown = [base64.b64decode(each.base64) for each in told.shown]
    assert len(shown) == len(pictures)
    assert Image.open(io.BytesIO(shown[0])).size == (1_568, 392)
    assert not any(PLACE.encode() in each for each in shown)
