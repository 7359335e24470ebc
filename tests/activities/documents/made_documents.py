"""Real documents for tests, written by the libraries that people's programs use."""

import asyncio
import datetime
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate

from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary

HANDBOOK = """# Handbook

## Leave

Everyone gets 28 days of paid annual leave.
Unused leave of up to five days may be carried over until 31 March.

- Ask your manager two weeks ahead.

## Expenses

Hotels may cost 160 EUR a night.

```python
print(2026)
```
"""

SALES = """day,region,Units sold,Revenue (EUR),zip
2026-01-01,North,3,"1,200.50",01067
2026-01-02,South,4,"2,000.00",80331
2026-01-03,NA,5,"3,000.25",10115
"""


def library(tmp_path: Path, *allowed: Path) -> DocumentLibrary:
    """Make a separate library that may read the given folders."""
    return DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "index", allowed)


def folder(path: Path, **files: str | bytes) -> str:
    """Write files (`name__suffix=content`) and return the folder's URI."""
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        file = path / name.replace("__", ".")
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return f"file:{path}/"


def manifest(files: list[tuple[str, str, int]]) -> bytes:
    """The list of an uploaded folder's files: name, digest, bytes."""
    entries = [{"name": name, "sha256": digest, "bytes": size} for name, digest, size in files]
    return json.dumps({"format": "chargehand-manifest-1", "files": entries, "skipped": []}).encode()


def one_page(*sections: tuple[str, str]) -> bytes:
    """One page of headings with a paragraph each."""
    styles = getSampleStyleSheet()
    file = io.BytesIO()
    parts = [(Paragraph(heading, styles["Heading1"]), Paragraph(text, styles["Normal"])) for heading, text in sections]
    SimpleDocTemplate(file).build([piece for part in parts for piece in part])
    return file.getvalue()


def pdf() -> bytes:
    """Two pages: a title and a numbered section on the first, a deeper one on the second."""
    styles = getSampleStyleSheet()
    file = io.BytesIO()
    SimpleDocTemplate(file).build(
        [
            Paragraph("Boiler manual", styles["Title"]),
            Paragraph("1 Safety", styles["Heading1"]),
            Paragraph("Never open the cover while the unit is hot. Let it cool for 40 minutes.", styles["Normal"]),
            PageBreak(),
            Paragraph("1.1 Warranty", styles["Heading2"]),
            Paragraph("The warranty covers labour for two years if the service was carried out.", styles["Normal"]),
        ]
    )
    return file.getvalue()


async def building_begun(tmp_path: Path) -> None:
    """Wait until a library below this path has begun to build an index."""
    while not await asyncio.to_thread(lambda: list(tmp_path.glob("index/.building-*/inputs"))):
        pass


def textless_pdf(password: str | None = None) -> bytes:
    """A page with a drawing and no text; with a password, only the password opens it."""
    return _drawn(lambda canvas: canvas.rect(100, 100, 200, 200, fill=1), password)


def blank_pdf() -> bytes:
    """A page with nothing on it."""
    return _drawn(Canvas.showPage)


def filled_pdf() -> bytes:
    """A page with nothing but a form that was filled in."""
    return _drawn(lambda canvas: (canvas.drawString(9, 9, "By"), canvas.acroForm.textfield(value="Grace Hopper")))


def columns_pdf(*rows: str, places: tuple[float, ...]) -> bytes:
    """A page of rows, written row by row, whose parts are at these distances from the left."""

    def draw(canvas: Canvas) -> None:
        for at, row in enumerate(rows):
            for left, text in zip(places, row.split("|"), strict=False):
                canvas.drawString(left, 700 - 14 * at, text)

    return _drawn(draw)


def enlarged_pdf(*lines: tuple[float, str]) -> bytes:
    """A page of lines, each enlarged to its given size from letters of one size."""

    def draw(canvas: Canvas) -> None:
        for at, (size, words) in enumerate(lines):
            text: Any = canvas.beginText()
            text.setFont("Helvetica", 1)
            text.setTextTransform(size, 0, 0, size, 50, 700 - 30 * at)
            text.textOut(words)
            canvas.drawText(text)

    return _drawn(draw)


def _drawn(draw: Callable[[Any], object], password: str | None = None) -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file, encrypt=password)
    draw(canvas)
    canvas.save()
    return file.getvalue()


def _saved(document: Any) -> bytes:  # one of several libraries' types
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def contract() -> bytes:
    """A DOCX with a title, a section, a paragraph and a table."""
    document = docx.Document()
    document.add_heading("Employment contract", 0)
    document.add_heading("Notice period", 1)
    document.add_paragraph("Either side may end the contract with three months' notice.")
    table = document.add_table(2, 2)
    for row, texts in zip(table.rows, (("Role", "Salary"), ("Engineer", "70,000 EUR")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    return _saved(document)


def prices() -> bytes:
    """A workbook: a title, an empty row, a header in row 3 and three rows of data; and a sheet with a remark."""
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    assert sheet is not None
    sheet.title = "Price list"
    sheet.append(["Prices of 2026"])
    sheet.append([])
    sheet.append(["Product", "Unit price", "Valid from", "Order"])
    for index, product in enumerate(("Anvil", "Bellows", "Chisel")):
        sheet.append([product, 10.5 + index, datetime.date(2026, 1, 1 + index), index == 0])
    workbook.create_sheet("Remarks").append(["All prices are without tax."])
    return _saved(workbook)


def slides() -> bytes:
    """A PPTX of two slides: bullets with notes, and a table."""
    presentation: Any = pptx.Presentation()  # shapes of many classes
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Berths in winter"
    first.placeholders[1].text_frame.text = "Berths are let from October."
    first.notes_slide.notes_text_frame.text = "Say that the north pier is closed."
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Fees"
    table = second.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for row, texts in enumerate((("Vessel", "Fee"), ("Trawler", "410 EUR"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    return _saved(presentation)


_PREFIXES = {"office": "office", "text": "text", "table": "table", "drawing": "draw", "presentation": "p"}
_ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name, prefix in _PREFIXES.items()
)


def open_document(kind: str, body: str) -> bytes:
    """An OpenDocument file as LibreOffice writes it: `text` or `presentation`."""
    inside = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    content = f"<office:document-content {_ODF}>{inside}</office:document-content>"
    return _archive(f"application/vnd.oasis.opendocument.{kind}", {"content.xml": content})


def open_text() -> bytes:
    """An ODT with headings, spans, a list, a table, a deleted sentence and a comment."""
    return open_document(
        "text",
        "<text:tracked-changes><text:p>The old fee was 9 EUR.</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Moorings</text:h><text:h text:outline-level="2">Fees</text:h>'
        "<text:p>The <text:span>fee</text:span> for<text:tab/>a night is<text:s/>12 EUR."
        "<office:annotation><text:p>Is it?</text:p></office:annotation></text:p>"
        "<text:list><text:list-item><text:p>Children pay nothing.</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>Buoy</text:p></table:table-cell>"
        "<table:table-cell><text:p>7 EUR</text:p></table:table-cell></table:table-row></table:table>",
    )


def open_slides() -> bytes:
    """An ODP of one slide with its notes."""
    return open_document(
        "presentation",
        '<draw:page><draw:frame p:class="title"><draw:text-box><text:p>Dredging</text:p></draw:text-box></draw:frame>'
        "<draw:frame><draw:text-box><text:p>The channel is dredged in May.</text:p></draw:text-box></draw:frame>"
        "<p:notes><draw:frame><draw:text-box><text:p>Ask for the survey.</text:p></draw:text-box></draw:frame>"
        "</p:notes></draw:page>",
    )


_PILOT = "<html><body><h1>The pilot</h1><p>She came aboard at dawn.</p></body></html>"
_FOG = "<html><body><h1>The fog</h1><p>The bell rang twice a minute.</p></body></html>"


def ebook(first: str | bytes = _PILOT, encryption: str = "<encryption/>", second: str = _FOG) -> bytes:
    """An EPUB of two chapters, whose order is not that of their names."""
    return _archive(
        "application/epub+zip",
        {
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
            '<item id="a" href="b%201.xhtml"/><item id="b" href="a.xhtml"/></manifest>'
            '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>',
            "META-INF/encryption.xml": encryption,
            "OEBPS/b 1.xhtml": first,
            "OEBPS/a.xhtml": second,
        },
    )


RICH_TEXT = (
    r"{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\info{\author A. Clerk}}\b Towing\b0\par "
    r"The tug costs 300\~EUR an hour, f\'fcr ein Schiff.\par}"
)


def _archive(kind: str, members: Mapping[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", kind, zipfile.ZIP_STORED)
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()
