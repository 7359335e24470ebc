"""How `engine-maintenance-manual.md` becomes the PDF of the example."""

from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageBreak, PageTemplate, Paragraph, Table, TableStyle

TITLE = "Halvorsen D9 Engine Maintenance Manual"
EDITION = "Edition 4, February 2025"
MARGIN = 22 * mm

_BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=10.5, leading=15, spaceAfter=7)
_POINT = ParagraphStyle("point", parent=_BODY, leftIndent=14, spaceAfter=4)
_CELL = ParagraphStyle("cell", parent=_BODY, fontSize=9.5, leading=12.5, spaceAfter=0)
_HEADINGS = {
    "# ": ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=20, leading=26, spaceAfter=4),
    "## ": ParagraphStyle("section", fontName="Helvetica-Bold", fontSize=14, leading=19, spaceBefore=10, spaceAfter=6),
    "### ": ParagraphStyle("part", fontName="Helvetica-Bold", fontSize=11, leading=15, spaceBefore=6, spaceAfter=3),
}


def write(source: Path, path: Path) -> None:
    """Write the manual as a PDF whose bytes never change: no dates, no compression."""
    document = BaseDocTemplate(
        str(path),
        pagesize=A4,
        title=TITLE,
        author="Halvorsen Marine",
        subject=EDITION,
        invariant=1,
        pageCompression=0,
    )
    frame = Frame(MARGIN, MARGIN, A4[0] - 2 * MARGIN, A4[1] - 2 * MARGIN, 0, 0, 0, 0)
    document.addPageTemplates(PageTemplate("page", [frame], onPageEnd=_foot))
    blocks = source.read_text(encoding="utf-8").strip().split("\n\n")
    document.build([flowable for block in blocks for flowable in _flowables(block)])


def _flowables(block: str) -> list[Flowable]:
    """Set one block of the source: a heading, a list, a table, a page break or a paragraph."""
    lines = block.splitlines()
    if block == "<!-- new page -->":
        return [PageBreak()]
    for mark, style in _HEADINGS.items():
        if block.startswith(mark):
            return [Paragraph(escape(block.removeprefix(mark)), style)]
    if block.startswith("| "):
        return [_table([[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line])]
    if block.startswith("- "):
        points = " ".join(line.strip() for line in lines).split(" - ")
        return [Paragraph(f"- {escape(point.removeprefix('- '))}", _POINT) for point in points]
    return [Paragraph(escape(" ".join(lines)), _BODY)]


def _table(rows: list[list[str]]) -> Flowable:
    heading, *body = rows
    cells = [[Paragraph(f"<b>{escape(text)}</b>", _CELL) for text in heading]]
    cells += [[Paragraph(escape(text), _CELL) for text in row] for row in body]
    # The last column takes what is left, so that only its text wraps and a row reads in order when extracted.
    widths = [8 * mm + max(len(row[column]) for row in rows) * 1.75 * mm for column in (0, 1)]
    table = Table(cells, colWidths=[*widths, A4[0] - 2 * MARGIN - sum(widths)], hAlign="LEFT", spaceAfter=8)
    table.setStyle(TableStyle([("LINEBELOW", (0, 0), (-1, -1), 0.4, colors.grey), ("VALIGN", (0, 0), (-1, -1), "TOP")]))
    return table


def _foot(canvas: Any, document: Any) -> None:
    canvas.setFont("Helvetica", 8.5)
    canvas.drawString(MARGIN, 12 * mm, f"{TITLE} - {EDITION}")
    canvas.drawRightString(A4[0] - MARGIN, 12 * mm, f"Page {document.page}")
