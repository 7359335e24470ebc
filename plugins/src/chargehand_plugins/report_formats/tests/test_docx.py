"""Reports as Word documents."""

import io
from base64 import b64decode, b64encode
from typing import Any, cast

import pytest
from docx import Document
from docx.enum.text import WD_ALIGN_PARAGRAPH

from chargehand import Artifact, Source
from chargehand_cli.rendering.attachments import Attachments
from chargehand_cli.rendering.escaping import is_web_address
from chargehand_plugins.report_formats.docx import docx
from tests.security.hostile_reports import HOSTILE, hostile_report
from tests.unit.cli.reports import report

_PIXEL = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
_SCHEMA_ORDER = {
    "pPr": ["pStyle", "numPr", "bidi", "spacing", "ind", "jc"],
    "tblPr": ["tblStyle", "bidiVisual", "tblW", "jc", "tblLook"],
    "rPr": ["rStyle", "rFonts", "b", "i", "strike", "u", "rtl", "lang"],
}
"""Word refuses elements in another order: ECMA-376, part 1, 17.3 and 17.4."""
_ANSWER = """\
## Rules

They are **tested** *twice* a year [S1].

1. first
   - inner
2. second

after the list

1. again first

| part | months |
|---|---|
| valve | 6 |

```
code  here
```
"""


def test_a_docx_report_has_the_structure_of_the_answer() -> None:
    """Headings, emphasis, numbered lists, tables, code, pictures, gaps and sources are Word's own."""
    made = Artifact(uri="artifact:1/c.png", name="c.png", media_type="image/png", bytes=70, title="Chart")
    drawn = Artifact(uri="artifact:1/a.svg", name="a.svg", media_type="image/svg+xml", bytes=70)
    pictures = {
        made.uri: f"data:image/png;base64,{b64encode(_PIXEL).decode()}",
        drawn.uri: f"data:image/svg+xml;base64,{b64encode(b'<svg/>').decode()}",
    }

    written = docx("", report(answer=_ANSWER, artifacts=(drawn, made)), Attachments(pictures))
    assert written
    read = Document(io.BytesIO(written))

    written = [((each.style.name if each.style else None) or "", each.text) for each in read.paragraphs]
    tested = next(each for each in read.paragraphs if each.text.startswith("They are"))
    assert [(run.text, run.bold, run.italic) for run in tested.runs][1:4:2] == [
        ("tested", True, False),
        ("twice", False, True),
    ]
    assert [each for each in written if each[0].startswith(("Heading", "List"))] == [
        ("Heading 2", "Rules"),
        ("List Continue", "1. first"),
        ("List Bullet 2", "inner"),
        ("List Continue", "2. second"),
        ("List Continue", "1. again first"),
        ("Heading 1", "Pictures and files"),
        ("Heading 1", "Not found or not done"),
        ("List Bullet", "The test of 2024 was not found."),
        ("Heading 1", "Contradictions"),
        ("List Bullet", "the interval. 6 months [S1]. a year [S2]. S1"),
        ("Heading 1", "Sources"),
    ]
    assert [[cell.text for cell in row.cells] for row in read.tables[0].rows] == [["part", "months"], ["valve", "6"]]
    assert ("Normal", "code  here") in written
    assert ("Quote", "tested every six months") in written
    assert written[written.index(("Heading 1", "Pictures and files")) + 1] == ("Caption", "a.svg, 70 bytes")
    assert len(read.inline_shapes) == 1  # python-docx adds no SVG


def test_hostile_text_stays_text_in_a_docx_report() -> None:
    """Nothing in it loads from elsewhere, and only the address of a source becomes a link."""
    written = docx("", hostile_report("\n\n".join(HOSTILE)), Attachments())
    assert written

    read = Document(io.BytesIO(written))
    outside = [each.target_ref for each in read.part.rels.values() if each.is_external]
    assert outside == [each.url for each in hostile_report("").sources if each.url and is_web_address(each.url)]


def test_numbers_and_right_to_left_text_are_aligned_correctly() -> None:
    """Numbers align right and Arabic runs from the right; a source is a link, a computed one its description."""
    source = Source(ref="https://a.example/b", url="https://a.example/b")
    query = Source(ref="sql:d932a81d", title="SELECT 1", about="outages.csv: sum of minutes")
    tables = (
        "| part | 2025 |\n|---|---|\n| 7 valves | 1,200 |\n| pump | – |\n\n| الجزء | الثمن |\n|---|---|\n| مضخة | 7 |"
    )
    answer = f"مرحبا بالعالم\n\nHello\n\n{tables}"
    written = docx("", report(answer=answer, sources=(source, query)), Attachments())
    assert written
    read = Document(io.BytesIO(written))

    assert read.paragraphs[-1].text == "S2  outages.csv: sum of minutes"
    from_the_right = [each.text for each in read.paragraphs if cast("Any", each)._p.xpath("./w:pPr/w:bidi")]
    aligned = [[row.cells[1].paragraphs[0].alignment for row in table.rows] for table in read.tables]
    right, its_end = WD_ALIGN_PARAGRAPH.RIGHT, WD_ALIGN_PARAGRAPH.LEFT
    assert from_the_right == ["مرحبا بالعالم"]
    assert aligned == [[right] * 3, [its_end, right]]
    assert [len(cast("Any", table)._tbl.xpath("./w:tblPr/w:bidiVisual")) for table in read.tables] == [0, 1]
    for name, order in _SCHEMA_ORDER.items():
        for each in cast("Any", read.element).xpath(f"//w:{name}"):
            given = [child.tag.partition("}")[2] for child in each]
            assert given == sorted(given, key=order.index)
    assert [each.target_ref for each in read.part.rels.values() if each.is_external] == ["https://a.example/b"]


def test_citations_and_addresses_of_sources_are_links() -> None:
    """A citation leads to its source below; links to other addresses and citations of no source stay text."""
    answer = "Known [S1, S2] by [a **page**](https://example.org/b), not [S3] or [another](https://evil.example/)."
    written = docx("", report(answer=answer, gaps=("Not all [S2].",), contradictions=()), Attachments())
    assert written
    read = Document(io.BytesIO(written))

    links = [(each.address or each.fragment, each.text) for part in read.paragraphs for each in part.hyperlinks]
    page = "https://example.org/b"
    in_answer = [("S1", "S1"), ("S2", "S2"), (page, "a "), (page, "page")]
    assert links == [*in_answer, ("S2", "S2"), (page, page)]
    assert cast("Any", read.element).xpath("//w:bookmarkStart/@w:name") == ["S1", "S2"]
    assert "Known [S1, S2] by a page, not [S3] or another." in [each.text for each in read.paragraphs]


@pytest.mark.parametrize(("length", "style"), [(300, "Title"), (301, "Subtitle")])
def test_a_long_goal_does_not_fill_the_first_page(length: int, style: str) -> None:
    """It has the size of text, not of a title."""
    written = docx("", report(goal="w" * length), Attachments())
    assert written

    first = Document(io.BytesIO(written)).paragraphs[0]
    assert (first.text, first.style.name if first.style else "") == ("w" * length, style)


@pytest.mark.parametrize(("language", "stated"), [("de", "de"), ("", "x-none")])
def test_a_document_states_its_language(language: str, stated: str) -> None:
    """Text by agents has the answer's language or none; text by the program is English."""
    source = Source(ref="manual.pdf", title="", quote="Alle sechs Monate.")

    written = docx("", report(answer="Zweimal im Jahr.", language=language, sources=(source,)), Attachments())
    assert written
    read = Document(io.BytesIO(written))

    default = [read.core_properties.language, *read.styles.element.xpath(".//w:rPrDefault//w:lang/@w:val")]
    codes = "./w:rPr/w:lang/@w:val"
    own = {each.text: [code for run in each.runs for code in run._r.xpath(codes)] for each in read.paragraphs}
    assert default == [stated] * 2
    assert own["Zweimal im Jahr."] == []
    assert own["Sources"] == ["en"]
    assert own["Alle sechs Monate."] == ["x-none"]
