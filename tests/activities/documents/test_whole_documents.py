"""Nothing that a document's reader sees is left out in silence, wherever its format keeps it."""

import io
import struct
from collections.abc import Callable
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml.parser import parse_xml
from hostile_documents import workbook_of
from made_documents import columns_pdf, ebook, enlarged_pdf, filled_pdf, folder, library, open_document
from PIL import Image

_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_AROUND_RUNS = (
    "<w:ins>{}</w:ins>", "<w:moveTo>{}</w:moveTo>", "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>",
    '<w:fldSimple w:instr="REF x">{}</w:fldSimple>', '<w:hyperlink w:anchor="x">{}</w:hyperlink>',
    "<w:r><w:pict><w:txbxContent><w:p>{}</w:p></w:txbxContent></w:pict></w:r>",
)  # fmt: skip
_KEPT, _GONE = (f"<w:r><w:t>{word}</w:t></w:r>" for word in ("kept", "gone"))


def document_with(body: str, *, footnote: str = "", styles: str = "") -> bytes:
    """Write a DOCX with a body and styles as given, and a footnote 2."""
    document: Any = docx.Document()  # its XML has no types
    document.element.body.extend(parse_xml(f"<w:body {_WORD}>{body}</w:body>"))
    document.styles.element.extend(parse_xml(f"<w:styles {_WORD}>{styles}</w:styles>"))
    notes = f'<w:footnotes {_WORD}><w:footnote w:id="2"><w:p>{footnote}</w:p></w:footnote></w:footnotes>'
    package = document.part.package
    part = Part(PackURI("/word/footnotes.xml"), CONTENT_TYPE.WML_FOOTNOTES, notes.encode(), package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


async def texts_of(tmp_path: Path, **files: str | bytes) -> list[str]:
    """Read files whole, in the order of their names."""
    docs = tmp_path / "docs"
    opened = await library(tmp_path, docs).open((folder(docs, **files),))
    return [(await opened.read(entry.name)).sources[0].quote for entry in opened.catalog.documents]


async def test_docx_text_is_read_from_every_container(tmp_path: Path) -> None:
    """Controls, fields, text boxes, merged cells and notes are read; equal cells stay two, deletions are dropped."""
    files = dict[str, bytes]()
    for number, (outer, inner) in enumerate(product(_AROUND_RUNS, repeat=2)):
        words = outer.format(inner.format(_KEPT))
        paragraph = f"<w:p><w:del>{_GONE}</w:del>{words}<w:moveFrom>{_GONE}</w:moveFrom></w:p>"
        cell = f"<w:tc><w:tcPr><w:vMerge w:val='{{}}'/></w:tcPr><w:p>{words}</w:p></w:tc>"
        row = f"<w:tr>{cell}<w:tc><w:p>{_KEPT}</w:p></w:tc></w:tr>"
        merged = "<w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc>"
        below = f"<w:tr>{merged}<w:tc><w:p><w:r><w:t>7</w:t></w:r></w:p></w:tc></w:tr>"
        table = f"<w:tbl>{row.format('restart')}{below}</w:tbl>"
        noted = '<w:p><w:r><w:t>See</w:t><w:footnoteReference w:id="2"/></w:r></w:p>'
        body = f"{paragraph}<w:sdt><w:sdtContent>{paragraph}</w:sdtContent></w:sdt>{table}{noted}"
        files[f"{number:02}__docx"] = document_with(body, footnote=words)

    read = await texts_of(tmp_path, **files)

    assert read == ["kept\nkept\nkept | kept\nkept | 7\nSee\nNote: kept"] * len(_AROUND_RUNS) ** 2


async def test_notes_follow_the_sentence_that_refers_to_them(tmp_path: Path) -> None:
    """In ODT, EPUB and RTF, the sentence itself can still be quoted unbroken."""
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body>{}</text:note-body></text:note>"
    odt = f"<text:p>The fee{note.format('<text:p>Except in May.</text:p>')} is 9.</text:p>"
    table = "<table:table><table:table-row><table:table-cell>{}</table:table-cell></table:table-row></table:table>"
    page = (
        '<html><body><p>The fee is 9.</p><aside epub:type="footnote"><p>Note: Except in May.</p></aside></body></html>'
    )
    rtf = r"{\rtf1\ansi The fee{\super\chftn{\*\footnote\pard {\i Except} in May.}} is {\deleted 8}9.\par}"

    read = await texts_of(
        tmp_path,
        a__odt=open_document("text", odt),
        b__odt=open_document("text", table.format(table.format(odt))),
        c__epub=ebook(page, second=""),
        d__rtf=rtf,
    )

    assert {" ".join(text.split()) for text in read} == {"The fee is 9. Note: Except in May."}


_TABLE = (
    "<table:table><table:table-row {}><table:table-cell {}><text:p>7</text:p></table:table-cell></table:table-row>"
    "</table:table>"
)
_SHEETS = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_MAIL, _XLS = (
    Path(__file__).with_name("written").joinpath(name).read_bytes() for name in ("fee.eml", "uncomputed.xls")
)
_NO_RESULT = b"\3\0\0\0\0\0\xff\xff"
_SHEET = b'<worksheet xmlns="%s"><sheetData>%s</sheetData></worksheet>'
_GAP = b'<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row><row><c r="B2"><v>6</v></c></row>'
_SAVED_PAGE = (
    b"Subject: Fees\nContent-Type: multipart/related; boundary=X\n\n--X\nContent-Type: text/html\n\n"
    b"<p>The fee is 9.</p>\n--X\nContent-Type: text/css\n\np { color: red }\n--X--\n"
)
_WRITTEN: dict[str, tuple[str | bytes, str]] = {
    "repeated__odt": (open_document("text", _TABLE.format("", 'table:number-columns-repeated="2"')), "7 | 7"),
    "rows__odt": (open_document("text", _TABLE.format('table:number-rows-repeated="2"', "")), "7 7"),
    "polish__html": ('<meta charset="iso-8859-2"><p>Łódź 30 zł</p>'.encode("iso-8859-2"), "Łódź 30 zł"),
    "cells__html": (
        "<table><tr><td><div>40</div><p>50<ul><li>a<li>b</ul><td>7<table><tr><td>in</table>after<td>side</table>",
        "40 50 a b | 7 in after side",
    ),
    "raised__html": (
        "10<sup>6</sup> m<sup>2</sup> at 70<sup><a>1</a></sup> on the 1<sup>st</sup>",
        "10^6 m2 at 70 [1] on the 1st",
    ),
    "gaps__xlsx": (workbook_of(_SHEET % (_SHEETS, _GAP)), "1: 1 | 2 2: | 6"),
    "form__pdf": (filled_pdf(), "By Grace Hopper"),
    "halves__rtf": (r"{\rtf1 Tide \u-10179?\u-8704? and \u55357? rose.}", "Tide \U0001f600 and \ufffd rose."),
    "page__mhtml": (_SAVED_PAGE, "Subject: Fees The fee is 9."),
    "box__docx": (document_with(f"<w:p>{_KEPT}{_AROUND_RUNS[-1].format(_GONE)}{_KEPT}</w:p>"), "keptkept gone"),
    "a__eml": (_MAIL, "From: Hafenamt <office@harbour.test> Subject: Gebühr Gebühr: 9 € Subject: Berth Berth: B"),
}


@pytest.mark.parametrize("name", _WRITTEN)
async def test_documents_are_read_as_their_program_shows_them(name: str, tmp_path: Path) -> None:
    """Repeated cells, filled forms, declared encodings, mails and characters written as two halves are included."""
    written, read = _WRITTEN[name]

    assert " ".join((await texts_of(tmp_path, **{name: written}))[0].split()) == read


async def test_missing_parts_of_a_document_are_reported(tmp_path: Path) -> None:
    """Uncomputed formulas and mail attachments are listed as skipped; a 0 for every formula counts as uncomputed.

    Excel's `sep=` line is not a header, and two columns of numbers may share a title.
    """
    docs, row = tmp_path / "docs", b'<row r="1"><c r="A1"><v>7</v></c><c r="B1"><f>A1*2</f>%s</c></row>'
    cells = {"none": b"<v/>", "zero": b"<v>0</v>", "done": b"<v>14</v>", "error": b"<v>#DIV/0!</v>"}
    files = {f"{name}__xlsx": workbook_of(_SHEET % (_SHEETS, row % stored)) for name, stored in cells.items()}
    results = {"old": _NO_RESULT, "old_zero": bytes(8), "old_done": struct.pack("<d", 470)}
    files |= {f"{name}__xls": _XLS.replace(_NO_RESULT, result) for name, result in results.items()}
    files |= {"sep__csv": b"sep=;\nberth;fee\nA;7\n", "twice__csv": b"berth,fee,fee\nA,1,2\nB,3,4\n"}
    catalog = (await library(tmp_path, docs).open((folder(docs, mail__eml=_MAIL, **files),))).catalog

    problems = [each.problem for each in catalog.documents if each.problem]
    assert problems == ["None of its formulas has been computed. Open it in a spreadsheet program and save it."]
    assert [each.rows for each in catalog.tables if ".csv" in each.document] == [1, 2]
    uncomputed = ("error.xlsx", "none.xlsx", "old.xls", "old_zero.xls")
    skipped = {*(f"{name}: formulas without a result: 1" for name in uncomputed), "mail.eml: attached files: bill.pdf"}
    assert sorted(each.rpartition(". ")[0] for each in catalog.skipped) == sorted(skipped)


_MERGED = (("Zone", "Vessel", "Fee"), ("North", "Yacht", "40"), ("", "Trawler", ""), ("Closed", "", "7"))
"""Merged cells: `North` with the one below, `40` with the one below, and `Closed` with the one beside it."""
_SPANS = {"North": "rows", "40": "rows", "Closed": "columns"}


def _saved(document: Any, add: Callable[[int, int], Any]) -> bytes:
    """Fill and merge a table of one of the libraries, which share this interface."""
    table, file = add(4, 3), io.BytesIO()
    for (at, row), column in product(enumerate(_MERGED), range(3)):
        table.cell(at, column).text = row[column]
    for first, last in (((1, 0), (2, 0)), ((1, 2), (2, 2)), ((3, 0), (3, 1))):
        table.cell(*first).merge(table.cell(*last))
    document.save(file)
    return file.getvalue()


def _written(cell: str, covered: str, row: str) -> str:
    """Write the rows of a table as XML."""
    cells = ((cell.format(_SPANS.get(text), text) if text else covered for text in texts) for texts in _MERGED)
    return "".join(row.format("".join(each)) for each in cells)


async def test_merged_cells_keep_other_cells_in_their_columns(tmp_path: Path) -> None:
    """In every format, a vertically merged cell is repeated in each row, and a repeated figure is marked."""
    document, presentation = docx.Document(), pptx.Presentation()
    shapes: Any = presentation.slides.add_slide(presentation.slide_layouts[6]).shapes
    cell = '<table:table-cell table:number-{}-spanned="2"><text:p>{}</text:p></table:table-cell>'
    odt = _written(cell, "<table:covered-table-cell/>", "<table:table-row>{}</table:table-row>")
    html = _written("<td {}span=2>{}", "", "<tr>{}").replace("columnsspan", "colspan").replace("rowsspan", "rowspan")
    read = await texts_of(
        tmp_path,
        a__docx=_saved(document, document.add_table),
        b__html=f"<table>{html}</table>",
        c__odt=open_document("text", f"<table:table>{odt}</table:table>"),
        d__pptx=_saved(presentation, lambda rows, columns: shapes.add_table(rows, columns, 0, 0, 9, 9).table),
    )

    expected = "Zone | Vessel | Fee North | Yacht | 40 North | Trawler | 40 (as above) Closed | | 7"
    assert {" ".join(text.split()) for text in read} == {expected}


_ROWS = ("berth{0}town{0}fee", "A{0}Visby{0}7", "B{0}Visby{0}9", "C{0}Lund{0}")
_ABOVE, _BELOW = ("Berths", "", "As of 1 May"), ("", "Note: fees exclude VAT, see page 4", "Source: ledger")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
async def test_notes_around_a_table_are_not_part_of_it(mark: str, tmp_path: Path) -> None:
    """In CSV, even if every line has as many delimiters as the table, and in sheets with merged cells."""
    rows = [row.format(mark) for row in _ROWS]
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for line in (*_ABOVE, *_ROWS, *_BELOW):
        sheet.append(line.split("{0}"))
    sheet.cell(6, 2).value = None
    sheet.merge_cells("B5:B6")
    file = io.BytesIO()
    book.save(file)
    padded = [f"{line}{mark * (2 - line.count(mark))}" for line in (*_ABOVE, *rows, *_BELOW[:1], *_BELOW[2:])]
    files: dict[str, str | bytes] = {"b__csv": "\n".join(padded), "c__xlsx": file.getvalue()}
    files["a__csv"] = "\n".join((*_ABOVE, *rows, *_BELOW)) + "\n\n"
    catalog = (await library(tmp_path, tmp_path / "docs").open((folder(tmp_path / "docs", **files),))).catalog

    assert [[(each.title, each.examples) for each in table.columns] for table in catalog.tables] == [
        [("berth", ("A", "B", "C")), ("town", ("Visby", "Lund")), ("fee", ("7", "9"))]
    ] * 3


async def test_json_of_flat_objects_is_a_table(tmp_path: Path) -> None:
    """JSON Lines, an array, or the only array in an object make a table; deeper data is text alone."""
    lines = ['{"berth": "A", "fee": 7, "owner": {"name": "Ada"}}', '{"berth": "B", "fee": null, "open": true}']
    array = f"[{','.join(lines)}]"
    files = {"a__jsonl": "\n".join(lines), "b__json": array, "c__json": f'{{"at": "May", "berths": {array}}}'}
    files |= {"d__json": '{"fee": 7}', "e__jsonl": '{"fees": [7, 9]}\n{"fees": []}', "f__json": "[7, 9]"}
    catalog = (await library(tmp_path, tmp_path / "docs").open((folder(tmp_path / "docs", **files),))).catalog

    columns = [("berth", ("A", "B")), ("fee", ("7",)), ("owner name", ("Ada",)), ("open", ("true",))]
    assert [(each.document, [(one.title, one.examples) for one in each.columns]) for each in catalog.tables] == [
        (name, columns) for name in ("a.jsonl", "b.json", "c.json")
    ]
    assert [each.problem for each in catalog.documents] == [""] * len(files)


async def test_docx_headers_are_read_and_comments_reported(tmp_path: Path) -> None:
    """Each header is read once, below the text; headers and footers with only a page number are dropped."""
    document = docx.Document()
    document.add_paragraph("The fee is 9.")
    for number in range(2):
        section = document.add_section()
        section.header.is_linked_to_previous = section.footer.is_linked_to_previous = False
        section.header.paragraphs[0].text, section.footer.paragraphs[0].text = "Harbour office", str(number)
    document.add_comment(document.paragraphs[0].runs, text="Is it?")
    file = io.BytesIO()
    document.save(file)
    opened = await library(tmp_path, tmp_path / "docs").open((folder(tmp_path / "docs", a__docx=file.getvalue()),))

    assert (await opened.read("a.docx")).sources[0].quote == "The fee is 9.\nHeader: Harbour office"
    assert opened.catalog.skipped == ("a.docx: comments: 1. Write them into its text.",)


_ACROSS = "The whole of this page was set by the harbour office, which answers for each of its columns."
_LEFT = (
    "The pier was built of granite", "by merchants of the island, who", "kept their ships there in winter",
    "and spring.",
)  # fmt: skip
_RIGHT = ("A berth costs 47 euro a metre", "if it is paid until the first of", "March, and 52 thereafter.")
_FAR = ("Dogs are kept on a lead while", "the ferry is at the pier, and", "horses stay outside.")


@pytest.mark.parametrize(
    ("columns", "read"),
    [
        ((_LEFT, _RIGHT), (*_LEFT, *_RIGHT)),
        ((_RIGHT, _LEFT), (*_RIGHT, *_LEFT)),
        ((_LEFT, _RIGHT, _FAR), (*_LEFT, *_RIGHT, *_FAR)),
        ((("Berth", "A", "B"), ("Fee a metre", "47", "52")), ("Berth Fee a metre", "A 47", "B 52")),
    ],
)
async def test_columns_of_a_pdf_are_read_one_after_the_other(
    columns: tuple[tuple[str, ...], ...], read: tuple[str, ...], tmp_path: Path
) -> None:
    """Columns may be two or more and differ in length; cells of a table stay in their row."""
    rows = ("|".join(row) for row in zip_longest(*columns, fillvalue=""))
    page = columns_pdf(_ACROSS, *rows, _ACROSS, places=(40, 220, 410))

    assert await texts_of(tmp_path, a__pdf=page) == ["\n".join((_ACROSS, *read, _ACROSS))]


async def test_pdf_headings_are_detected_by_displayed_size(tmp_path: Path) -> None:
    """Some programs write all text in one font size and scale the page."""
    page = enlarged_pdf((18, "Fog"), (10, "The bell rings twice."), (14, "Wind"), (10, "The ferry stops at 26 knots."))
    opened = await library(tmp_path, tmp_path / "docs").open((folder(tmp_path / "docs", a__pdf=page),))

    assert opened.catalog.documents[0].headings == ("Fog", "Wind")


async def test_numbered_pdf_rows_are_not_headings(tmp_path: Path) -> None:
    """The rows can be found by search; a numbered title above text is a heading."""
    rows = ("1 Ships 120", "2 Maps 85", "3 Fishing 40", "The museum is closed on Mondays.", "4 Prices", "Adults pay 9.")
    page = enlarged_pdf(*((10, row) for row in rows))
    opened = await library(tmp_path, tmp_path / "docs").open((folder(tmp_path / "docs", a__pdf=page),))

    assert opened.catalog.documents[0].headings == ("4 Prices",)
    assert "Maps 85" in (await opened.search("maps")).passages[0].text


_BRIEF = {
    "yaml": "fee: 47\n",
    "json": '{"fee": 47}',
    "sh": "fee=47\n",
    "eml": "To: a@b.test\n\nThe fee is 47.\n",
    "md": "```\nfee(47)\n```\n",
    "html": "<pre>fee 47</pre>",
    "docx": document_with(f"<w:tbl><w:tr>{'<w:tc><w:p><w:r><w:t>fee 47</w:t></w:r></w:p></w:tc>' * 2}</w:tr></w:tbl>"),
    "odt": open_document("text", "<text:p>fee 47</text:p>"),
    "epub": ebook("<table><tr><td>fee</td><td>47</td></tr></table>", second=""),
    "rtf": r"{\rtf1\ansi fee 47\par}",
}


async def test_very_short_documents_are_catalogued_and_searchable(tmp_path: Path) -> None:
    """Even one that is all code, or one table row, has its first words in the catalog and can be found."""
    docs = tmp_path / "docs"
    uri = folder(docs, **{f"a__{suffix}": content for suffix, content in _BRIEF.items()})
    opened = await library(tmp_path, docs).open((uri,))

    assert [entry.name for entry in opened.catalog.documents if not entry.opening] == []
    for suffix in _BRIEF:
        assert (await opened.search("fee", document=f"a.{suffix}")).passages, suffix


async def test_epub_chapters_are_decoded_or_the_book_is_refused(tmp_path: Path) -> None:
    """Chapters in UTF-16 or Latin-1 are read; encrypted chapters are a problem of the book."""
    page = "<html><body><p>Gebühr für שלום</p></body></html>"
    latin = page.replace("שלום", "é")
    locked = '<encryption><CipherReference URI="OEBPS/b 1.xhtml"/></encryption>'
    docs = tmp_path / "docs"
    files = {
        "a": ebook(page.encode("utf-16"), second=""),
        "b": ebook(latin.encode("latin-1"), second=""),
        "c": ebook(page, locked),
    }
    opened = await library(tmp_path, docs).open((folder(docs, **{f"{name}__epub": files[name] for name in files}),))

    read = [(await opened.read(f"{name}.epub")).sources[0].quote for name in "ab"]
    assert read == ["Gebühr für שלום", "Gebühr für é"]
    assert "protected against copying" in opened.catalog.documents[2].problem


async def test_pictures_are_described_as_displayed(tmp_path: Path) -> None:
    """Size follows the EXIF rotation, further frames are counted, and 16-bit greys are kept."""
    files = dict[str, bytes]()
    for turn in range(1, 9):
        exif, file = Image.Exif(), io.BytesIO()
        exif[0x0112] = turn
        Image.new("RGB", (200, 100)).save(file, "JPEG", exif=exif)
        files[f"{turn}__jpg"] = file.getvalue()
    for kind in ("PNG", "WEBP"):
        file = io.BytesIO()
        frames = [Image.new("RGB", (50, 60), colour) for colour in ("red", "blue")]
        frames[0].save(file, kind, save_all=True, append_images=frames[1:])
        files[f"film__{kind.lower()}"] = file.getvalue()
    file, grey = io.BytesIO(), Image.new("I;16", (256, 1))
    for value in range(256):
        grey.putpixel((value, 0), value << 8)
    grey.save(file, "PNG")

    *turned, film, other = await texts_of(tmp_path, **files)
    docs = tmp_path / "grey"
    opened = await library(tmp_path, docs).open((folder(docs, a__png=file.getvalue()),))
    content = await opened.picture("a.png#page=1")

    assert turned == ["A picture of 200 × 100 pixels."] * 4 + ["A picture of 100 × 200 pixels."] * 4
    assert film == other == "A picture of 50 × 60 pixels, the first of 2."
    assert content is not None
    with Image.open(io.BytesIO(content)) as shown:
        assert [shown.convert("L").getpixel((value, 0)) for value in range(256)] == list(range(256))
