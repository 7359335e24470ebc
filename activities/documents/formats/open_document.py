"""Reads an OpenDocument text (ODT) by paragraphs, or an OpenDocument presentation (ODP) by slides."""

import zipfile
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree

from activities.documents.formats.grid import Cell, Grid, span
from activities.documents.formats.paragraphs import Paragraphs
from activities.documents.formats.presentation import pages_of
from activities.documents.parsed import Parsed, Source, UnreadableError
from activities.processes.limits import Allowance

_NAMESPACE: Final = "{{urn:oasis:names:tc:opendocument:xmlns:{}:1.0}}{}"
_HEADING, _PARAGRAPH, _ITEM, _NOTE = (_NAMESPACE.format("text", name) for name in ("h", "p", "list-item", "note-body"))
_LEVEL: Final = _NAMESPACE.format("text", "outline-level")
_BLANKS: Final = frozenset(_NAMESPACE.format("text", name) for name in ("s", "tab", "line-break"))
_TABLE, _ROW, _CELL = (_NAMESPACE.format("table", name) for name in ("table", "table-row", "table-cell"))
_COLUMNS_REPEATED, _ROWS_REPEATED, _COLUMNS, _ROWS = (
    _NAMESPACE.format("table", f"number-{what}-{how}")
    for how in ("repeated", "spanned")
    for what in ("columns", "rows")
)
_MOST_REPEATED: Final = 100
_PAGE: Final = _NAMESPACE.format("drawing", "page")
_CLASS: Final = _NAMESPACE.format("presentation", "class")
_NOTES: Final = _NAMESPACE.format("presentation", "notes")
_BESIDE_THE_TEXT: Final = frozenset(
    _NAMESPACE.format(*name) for name in (("office", "annotation"), ("text", "tracked-changes"), ("text", "note"))
)
_ANNOTATION: Final = _NAMESPACE.format("office", "annotation")
_DISPLAY, _IS_HIDDEN, _STYLE_NAME, _HIDDEN_PARAGRAPH = (
    _NAMESPACE.format("text", name) for name in ("display", "is-hidden", "style-name", "hidden-paragraph")
)
_STYLE, _NAME = (_NAMESPACE.format("style", name) for name in ("style", "name"))
_PIECES: Final = 100


def parse(source: Source, allowance: Allowance) -> Parsed:
    try:
        with zipfile.ZipFile(source.path) as archive:
            # The parser refuses expanding entities, and the process that runs it is limited.
            body = ElementTree.fromstring(archive.read("content.xml"))  # noqa: S314  # see above
            named = archive.read("styles.xml") if "styles.xml" in archive.namelist() else b"<none/>"
            _hide(body, ElementTree.fromstring(named))  # noqa: S314  # see above
    except (zipfile.BadZipFile, KeyError, RuntimeError, ElementTree.ParseError) as error:
        problem = "It is not a readable OpenDocument file: broken, or protected by a password."
        raise UnreadableError(problem) from error
    slides = [*body.iter(_PAGE)]
    if slides:
        return pages_of((_slide(each) for each in slides), allowance)
    read = Paragraphs()
    for element, text, is_item in allowance.over(_elements(body, Grid()), _PIECES):
        if element.tag == _HEADING and text:
            read.add_title(span(element.get(_LEVEL)), text)
        elif text:
            read.add(f"- {text}" if is_item else text, "table" if element.tag == _ROW else "text")
        read.add_notes(_plain(note) for note in element.iter(_NOTE))
    return read.parsed()


def _cells(row: ElementTree.Element) -> Iterator[Cell]:
    for cell in row.iterfind(_CELL):  # covered cells have another tag
        times = min(span(cell.get(_COLUMNS_REPEATED)), _MOST_REPEATED)
        yield from [Cell(_plain(cell), span(cell.get(_COLUMNS)), span(cell.get(_ROWS)))] * times


def _hide(*documents: ElementTree.Element) -> None:
    """Take elements that are hidden, directly or by their style, out of the text."""
    styles = (style for document in documents for style in document.iter(_STYLE))
    hidden = {style.get(_NAME) for style in styles if any(each.get(_DISPLAY) == "none" for each in style)}
    for element in documents[0].iter():
        whole = element.find(_HIDDEN_PARAGRAPH)
        is_hidden = any(each is not None and each.get(_IS_HIDDEN) == "true" for each in (element, whole))
        if is_hidden or element.get(_DISPLAY) == "none" or element.get(_STYLE_NAME) in hidden:
            element.tag = _ANNOTATION


def _elements(
    above: ElementTree.Element, grid: Grid, *, is_item: bool = False
) -> Iterator[tuple[ElementTree.Element, str, bool]]:
    """Yield headings, paragraphs and rows in reading order, each with its text and whether it belongs to a list."""
    for element in above:
        if element.tag in {_HEADING, _PARAGRAPH}:
            yield element, _plain(element), is_item
        elif element.tag == _ROW:
            for _ in range(min(span(element.get(_ROWS_REPEATED)), _MOST_REPEATED)):
                yield element, grid.row(_cells(element)), False
        elif element.tag not in _BESIDE_THE_TEXT:
            below = Grid() if element.tag == _TABLE else grid
            yield from _elements(element, below, is_item=is_item or element.tag == _ITEM)


def _slide(page: ElementTree.Element) -> tuple[str, list[str]]:
    title, lines = "", list[str]()
    for frame in page:
        texts = [text for _, text, _ in _elements(frame, Grid()) if text]
        if frame.get(_CLASS) == "title":
            title = " ".join(texts)
        else:
            lines += [f"Notes: {text}" for text in texts] if frame.tag == _NOTES else texts
    return title, lines


def _plain(element: ElementTree.Element) -> str:
    return " ".join("".join(_words(element)).split())


def _words(element: ElementTree.Element) -> Iterator[str]:
    yield element.text or ""
    for part in element:
        if part.tag not in _BESIDE_THE_TEXT:
            yield " " if part.tag in _BLANKS else ""
            yield from _words(part)
            yield " " if part.tag in {_PARAGRAPH, _HEADING, _CELL} else ""
        yield part.tail or ""
