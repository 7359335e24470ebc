"""Reads a DOCX file: headings, paragraphs, tables, pictures, charts and diagrams in reading order."""

import io
from collections.abc import Container, Iterator
from contextlib import suppress
from itertools import islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from activities.documents.formats.drawings import drawn_lines
from activities.documents.formats.grid import Cell, Grid
from activities.documents.formats.paragraphs import Paragraphs
from activities.documents.formats.picture import MOST_PICTURES, has_pillow, read_picture
from activities.documents.parsed import Parsed, PictureFile, Source, UnreadableError
from activities.processes.limits import Allowance

_PARAGRAPHS_A_PIECE = 100
_ROWS_A_PIECE = 10
_LEAST_EDGE: Final = 48
"""Pixels; bullets and rules are smaller."""
_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_PARAGRAPH, _TABLE, _ROW, _CELL, _ID, _HYPHEN = (
    _WORD + name for name in ("p", "tbl", "tr", "tc", "id", "noBreakHyphen")
)
_TEXTS: Final = {_WORD + "t", "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"}
_BLANKS: Final = {_WORD + name for name in ("tab", "ptab", "br", "cr")}
_BOX: Final = _WORD + "txbxContent"
_RUN, _VALUE, _VANISH, _RUN_STYLE, _PARAGRAPH_STYLE = (
    _WORD + name for name in ("r", "val", "vanish", "rStyle", "pStyle")
)
_OWN_VANISH: Final = f"{_WORD}rPr/{_VANISH}"
_OFF: Final = {"0", "false", "off"}
_NOTES: Final = {_WORD + f"{kind}Reference": f"{kind}s" for kind in ("footnote", "endnote")}
"""Tags of references to notes, and the kind of file that holds the notes."""
_NOT_READ: Final = {
    *(_WORD + name for name in ("del", "moveFrom", "pPr", "rPr")),
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",  # the same content again, for old programs
}
_BLIP: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
_EMBED: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}embed"

if TYPE_CHECKING:
    from docx.document import Document
    from docx.opc.part import Part


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Number every paragraph that has text, every table row and every picture, from 1."""
    import docx
    from docx.opc.exceptions import PackageNotFoundError

    try:
        document = docx.Document(str(source.path))
    except (PackageNotFoundError, KeyError, ValueError) as error:
        problem = "It is not a readable DOCX: broken, protected by a password, or in an older format."
        raise UnreadableError(problem) from error
    styles = {style.style_id: style.name or "" for style in document.styles}
    read, pictures = Paragraphs(), list[PictureFile]()
    parts = dict(document.part.related_parts)
    body: Any = cast("Any", document.element).body  # the library's XML has no types
    hidden = {style.style_id for style in document.styles if _hides(style)}
    _hide(body, hidden)
    notes = dict(_notes(document, hidden))
    for item in allowance.over(_elements(body, _PARAGRAPH, _TABLE), _PARAGRAPHS_A_PIECE):
        for each in _with_boxes(item):
            if each.tag == _TABLE:
                for row in filter(None, _rows(each, allowance)):
                    read.add(row, "table")
            elif text := _plain(each, {*_NOT_READ, _BOX}):
                # The public API searches all styles for each paragraph and takes a hundred times as long as the rest.
                _add(read, styles.get(each.style or "", ""), text)
        for text in drawn_lines(item, parts):
            read.add(text)
        if has_pillow():
            pictures += islice(_pictures(item, parts, source.tables, read), MOST_PICTURES - len(pictures))
        read.add_notes(notes.pop((each.tag, each.get(_ID)), "") for each in item.iter(*_NOTES))
    for text in _beside(document, hidden):
        read.add(text)
    parsed = read.parsed()
    parsed.pictures = pictures
    comments = sum(map(len, _related_parts(document, "comments")))
    parsed.unread = f"comments: {comments}. Write them into its text." if comments else ""
    return parsed


def _with_boxes(item: Any) -> Iterator[Any]:
    """Yield a paragraph and the contents of its text boxes, or a table."""
    yield item
    if item.tag == _PARAGRAPH:
        for box in _elements(item, _BOX):
            for inner in _elements(box, _PARAGRAPH, _TABLE):
                yield from _with_boxes(inner)


def _related_parts(document: "Document", kind: str) -> Iterator[Any]:
    """Yield the XML of all files of one kind that belong to the document."""
    from docx.oxml.parser import parse_xml

    for relation in document.part.rels.values():
        if relation.reltype.endswith(f"/{kind}") and not relation.is_external:
            yield parse_xml(relation.target_part.blob)


def _beside(document: "Document", hidden: Container[str]) -> Iterator[str]:
    """Yield each distinct header and footer once, except those without letters, such as bare page numbers."""
    for kind in ("header", "footer"):
        parts = [*_related_parts(document, kind)]
        for part in parts:
            _hide(part, hidden)
        texts = dict.fromkeys(map(_plain, parts))
        yield from (f"{kind.title()}: {text}" for text in texts if any(map(str.isalpha, text)))


def _hides(style: Any) -> bool:
    """Whether a style, or a style on which it is based, hides its text."""
    hidden = style.font.hidden if hasattr(style, "font") else False
    return _hides(style.base_style) if hidden is None and style.base_style is not None else bool(hidden)


def _hide(body: Any, styles: Container[str]) -> None:
    """Remove runs hidden directly or by a style; the same property on a paragraph mark hides no text."""
    styled = (each for each in body.iter(_RUN_STYLE, _PARAGRAPH_STYLE) if styles and each.get(_VALUE) in styles)
    hidden = [
        run for each in styled for run in each.getparent().getparent().iter(_RUN) if run.find(_OWN_VANISH) is None
    ]
    hidden += [each.getparent().getparent() for each in body.iter(_VANISH) if each.get(_VALUE) not in _OFF]
    for run in hidden:
        if run.tag == _RUN and run.getparent() is not None:
            run.getparent().remove(run)


def _add(read: Paragraphs, style: str, text: str) -> None:
    if style == "Title" or style.startswith("Heading "):
        level = style.removeprefix("Heading ")
        read.add_title(1 + int(level) if level.isdigit() else 1, text)
    else:
        read.add(f"- {text}" if style.startswith("List") else text)


def _pictures(element: Any, parts: dict[str, "Part"], stem: Path, read: Paragraphs) -> Iterator[PictureFile]:
    """Write each picture of a paragraph or table once, and add it below; skip links and other formats."""
    for part in filter(None, (parts.pop(blip.get(_EMBED, ""), None) for blip in element.iter(_BLIP))):
        with suppress(UnreadableError):
            picture, text = read_picture(io.BytesIO(part.blob), stem, read.count + 1, _LEAST_EDGE)
            read.add(text)
            yield picture


def _rows(table: Any, allowance: Allowance) -> Iterator[str]:
    grid = Grid()
    for row in allowance.over(_elements(table, _ROW), _ROWS_A_PIECE):
        cells = (
            (None if each.vMerge == "continue" else _plain(each), each.grid_span) for each in _elements(row, _CELL)
        )
        before, after = ([Cell("")] * places for places in (row.grid_before, row.grid_after))
        yield grid.row((*before, *starmap(Cell, cells), *after))


def _notes(document: "Document", hidden: Container[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the footnotes and endnotes, each with the tag and id of the reference to it."""
    for reference, kind in _NOTES.items():
        for notes in _related_parts(document, kind):
            _hide(notes, hidden)
            for note in notes:
                yield (reference, note.get(_ID)), _plain(note)


def _elements(above: Any, *tags: str) -> Iterator[Any]:
    """Yield elements in reading order, including those inside controls, which the library skips."""
    for element in above:
        if element.tag in tags:
            yield element
        elif element.tag not in _NOT_READ:
            yield from _elements(element, *tags)


def _plain(element: Any, without: Container[str] = _NOT_READ) -> str:
    return " ".join("".join(_words(element, without)).split())


def _words(element: Any, without: Container[str]) -> Iterator[str]:
    for part in element:
        if part.tag in _TEXTS:
            yield part.text or ""
        elif part.tag in _BLANKS:
            yield " "
        elif part.tag == _HYPHEN:
            yield "-"
        elif part.tag not in without:
            space = " " if part.tag in {_PARAGRAPH, _CELL} else ""
            yield from (space, *_words(part, without), space)
