"""Pictures and scanned pages: re-encoded, named by the tool, and shown to a model that can see."""

import base64
import io
from pathlib import Path
from typing import Any

import docx
import pytest
from made_documents import folder, library, pdf, textless_pdf
from PIL import Image

from activities.contracts.rounds import MOST_PICTURES, PICTURE_TOKENS, ToolCall
from activities.contracts.tool import ToolContext
from activities.documents.formats.picture import MOST_EDGE
from activities.documents.library import OpenLibrary
from activities.documents.tool import ReadDocument
from activities.turn.activity import prompt_bytes
from activities.turn.agent_conversations import show_pictures
from activities.turn_kinds.protocol import Message, ToolText
from chargehand.tools import ToolAnswer
from tests.activities.models.calls import MODELS, WIRES, Wire, a_call, requests_of

SEEING = MODELS | {"chat": "gpt-5.4"}
PLACE = "Anna's house"


def picture(kind: str = "JPEG", size: tuple[int, int] = (3_000, 1_000), *, turned: bool = False) -> bytes:
    """A picture, red above and blue below, whose file says where and by whom it was made."""
    image = Image.new("RGB", size, "blue")
    image.paste("red", (0, 0, size[0], size[1] // 2))
    exif = Image.Exif()
    exif[0x010E] = PLACE
    if turned:
        exif[0x0112] = 3  # upside down
    file = io.BytesIO()
    image.save(file, kind, exif=exif)
    return file.getvalue()


def scan(pages: int) -> bytes:
    """A PDF whose pages are pictures."""
    images = [Image.new("RGB", (600, 800), (10 * number, 0, 99)) for number in range(1, pages + 1)]
    for image in images:
        image.paste("white", (0, 0, 300, 400))
    file = io.BytesIO()
    images[0].save(file, "PDF", save_all=True, append_images=images[1:])
    return file.getvalue()


async def _opened(tmp_path: Path, **files: bytes) -> tuple[OpenLibrary, str]:
    uri = folder(tmp_path / "docs", **files)
    return await library(tmp_path, tmp_path / "docs").open((uri,)), uri


async def _read(tmp_path: Path, uri: str, document: str, first: int = 0) -> ToolAnswer:
    tool = ReadDocument(library(tmp_path, tmp_path / "docs"))
    context = ToolContext(session="s", agent="reader", idempotency_key="k", documents=(uri,))
    return await tool.use({"document": document, "first": first, "last": 0}, context)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_pictures_are_re_encoded_before_a_model_sees_them(tmp_path: Path, kind: str) -> None:
    """The model gets only the pixels, upright and in the billed size, without metadata."""
    opened, uri = await _opened(tmp_path, **{f"a__{kind.lower()}": picture(kind, turned=True)})
    [entry] = opened.catalog.documents

    answer = await _read(tmp_path, uri, entry.name)
    content = await opened.picture(answer.pictures[0])

    assert answer.pictures == (f"{entry.name}#page=1",)
    assert [source.quote for source in answer.sources] == ["A picture of 3000 × 1000 pixels."]
    assert content is not None
    assert PLACE.encode() not in content
    with Image.open(io.BytesIO(content)) as image:
        assert image.size == (MOST_EDGE, round(MOST_EDGE / 3))
        top = image.convert("RGB").getpixel((100, 20))
    assert isinstance(top, tuple)
    assert (top[0] < 50, top[2] > 200) == (True, True)


async def test_scanned_pages_are_shown_a_few_at_a_time(tmp_path: Path) -> None:
    """Reading continues after the last picture shown, and no page is left out."""
    pictures = scan(2 * MOST_PICTURES + 1)
    opened, uri = await _opened(tmp_path, scan__pdf=pictures, text__pdf=pdf(), plan__pdf=textless_pdf())
    shown: list[str] = []
    first: int | None = 1
    while first is not None:
        answer = await _read(tmp_path, uri, "scan.pdf", first)
        assert len(answer.pictures) <= MOST_PICTURES
        shown += answer.pictures
        following = answer.output.get("next")
        first = following if isinstance(following, int) else None

    assert shown == [f"scan.pdf#page={page}" for page in range(1, 2 * MOST_PICTURES + 2)]
    assert len({await opened.picture(name) for name in shown}) == len(shown)
    pictured = {entry.name: entry.pictures for entry in opened.catalog.documents}
    assert (pictured["text.pdf"], pictured["plan.pdf"]) == ((), (1,))


def report(*pictures: bytes) -> bytes:
    """A DOCX with these pictures, the last in a table, and each twice."""
    document = docx.Document()
    document.add_heading("Results", 1)
    document.add_paragraph("The chart shows the quarter.")
    for each in pictures[:-1] * 2:
        document.add_picture(io.BytesIO(each))
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "Signed"
    for _ in range(2):
        seal: Any = cell.paragraphs[0].add_run().add_picture(io.BytesIO(pictures[-1]))
        seal._inline.docPr.set("descr", "The seal of the harbour")
    document.add_paragraph("The end.")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


async def test_pictures_in_a_docx_appear_at_their_place(tmp_path: Path) -> None:
    """Each is its own paragraph, re-encoded and shown once; small or broken ones are left out."""
    dot, chart, seal = picture("PNG", (20, 20)), picture("PNG", (400, 200)), picture(size=(90, 80))
    broken = picture(size=(300, 300))[:900]
    opened, uri = await _opened(tmp_path, q3__docx=report(dot, broken, chart, seal))

    answer = await _read(tmp_path, uri, "q3.docx")
    contents = [await opened.picture(name) for name in answer.pictures]

    above = ("Results", "The chart shows the quarter.", "A picture of 400 × 200 pixels.")
    below = ("Signed", "Described: The seal of the harbour", "A picture of 90 × 80 pixels.", "The end.")
    read = "\n".join((*above, *below))
    assert [source.quote for source in answer.sources] == [read]
    assert answer.pictures == ("q3.docx#paragraph=3", "q3.docx#paragraph=6")
    assert all(content and PLACE.encode() not in content for content in contents)


@pytest.mark.parametrize("wire", WIRES)
async def test_vision_models_get_the_picture(tmp_path: Path, wire: Wire) -> None:
    """On every wire the request has the file's bytes; other models are told that they cannot see the picture."""
    opened, _ = await _opened(tmp_path, a__png=picture("PNG"))
    name = "a.png#page=1"
    content = await opened.picture(name)
    assert content is not None
    asked = Message(role="assistant", calls=(ToolCall(id="t1", tool="read_document", arguments={"document": "a.png"}),))
    told = Message(role="tools", results=(ToolText(call_id="t1", text="It is here.", pictures=(name,)),))
    conversation = (Message(role="user", text="What is it?"), asked, told)

    for model, sees in ((SEEING[wire], True), ("house-model", False)):
        messages = await show_pictures(conversation, opened.picture, model)
        call = a_call(wire, messages=messages).model_copy(update={"model": model})
        [request] = await requests_of(wire, call)

        assert (base64.b64encode(content).decode() in str(request.body)) is sees
        assert ("cannot see" in str(request.body)) is not sees
        bare = a_call(wire, messages=(*conversation[:2], told.model_copy(update={"results": ()})))
        assert (prompt_bytes(call) - prompt_bytes(bare) > PICTURE_TOKENS) is sees
