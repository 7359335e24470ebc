"""Read a DOCX: headings, paragraphs, tables and pictures in reading order."""

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from activities.documents.formats.paragraphs import Paragraphs
from activities.documents.formats.picture import MOST_PICTURES, has_pillow, read_picture
from activities.documents.parsed import Parsed, PictureFile, Source, UnreadableError
from activities.processes.limits import Allowance

_PARAGRAPHS_A_PIECE = 100
_ROWS_A_PIECE = 10
_LEAST_EDGE: Final = 48
"""Pixels; bullets and rules are smaller."""
_BLIP: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
_EMBED: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}embed"

if TYPE_CHECKING:
    from docx.document import Document


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Number every paragraph that has text, every table row and every picture, from 1."""
    import docx
    from docx.opc.exceptions import PackageNotFoundError
    from docx.table import Table

    try:
        document = docx.Document(str(source.path))
    except (PackageNotFoundError, KeyError, ValueError) as error:
        problem = "It is not a readable DOCX: broken, protected by a password, or in an older format."
        raise UnreadableError(problem) from error
    styles = {style.style_id: style.name or "" for style in document.styles}
    read, pictures = Paragraphs(), _Pictures(document, source)
    for item in allowance.over(document.iter_inner_content(), _PARAGRAPHS_A_PIECE):
        if isinstance(item, Table):
            for row in _rows(item.rows, allowance):
                read.add(row, "table")
            pictures.read(item._tbl, read)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the library has no other way to what is drawn
            continue
        if text := item.text.strip():
            # The public way looks through all styles for each paragraph, a hundred times as long as the rest.
            style = styles.get(item._p.style or "", "")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as just said
            _add(read, style, text)
        pictures.read(item._p, read)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as for tables
    parsed = read.parsed()
    parsed.pictures = pictures.written
    return parsed


def _add(read: Paragraphs, style: str, text: str) -> None:
    if style == "Title" or style.startswith("Heading "):
        level = style.removeprefix("Heading ")
        read.add_title(1 + int(level) if level.isdigit() else 1, text)
    else:
        read.add(f"- {text}" if style.startswith("List") else text)


class _Pictures:
    """The pictures of a document, each written once, with the paragraph that stands for it."""

    def __init__(self, document: "Document", source: Source) -> None:
        self.written: list[PictureFile] = []
        self._parts = document.part.related_parts if has_pillow() else {}
        self._stem = source.tables
        self._seen: set[str] = set()

    def read(self, element: Any, read: Paragraphs) -> None:
        """Write those that are drawn in a paragraph or table; links to elsewhere, and other formats, are left out."""
        names: list[str] = [blip.get(_EMBED, "") for blip in element.iter(_BLIP)] if self._parts else []
        for name in names:
            if name not in self._parts or name in self._seen or len(self.written) == MOST_PICTURES:
                continue
            self._seen.add(name)
            with suppress(UnreadableError):
                content = io.BytesIO(self._parts[name].blob)
                picture, said = read_picture(content, self._stem, read.count + 1, _LEAST_EDGE)
                read.add(said)
                self.written.append(picture)


def _rows(rows: Iterable[Any], allowance: Allowance) -> Iterator[str]:
    for row in allowance.over(rows, _ROWS_A_PIECE):
        cells: list[str] = []
        for cell in row.cells:
            text = " ".join(cell.text.split())
            # A merged cell is repeated for every column it spans.
            if not cells or text != cells[-1]:
                cells.append(text)
        if any(cells):
            yield " | ".join(cells)
