"""Reads the text of a PDF page by page, and finds its headings and paragraphs."""

import re
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from math import hypot
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from activities.documents.formats.columns import Span, reading_order
from activities.documents.formats.picture import (
    MOST_EDGE,
    MOST_PICTURES,
    MOST_PIXELS,
    has_pillow,
    require_pillow,
    write_picture,
)
from activities.documents.parsed import Block, HeadingPath, Parsed, Part, PictureFile, Source, UnreadableError
from activities.processes.limits import Allowance

if TYPE_CHECKING:
    import pypdfium2

MOST_PAGES: Final = 3_000
MOST_CHARACTERS: Final = 20_000_000
_IS_PICTURE: Final = "This page is a picture."
_LINE_END_HYPHEN: Final = "\ufffe"
_LINE: Final = re.compile(rf"[^\s\0{_LINE_END_HYPHEN}](?:[^\r\n]*[^\s\0])?")
_LARGER: Final = 1.08
_NUMBERED: Final = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,3})\.?\s+[^\W\d_a-z].{2,70}$")
_CONTENTS_LINE: Final = re.compile(r"(?<!\.)(?<!\. )(?:\. ?){5,}+\s*+\d+$")
_BULLET: Final = re.compile(r"^\s*([-–•*▪●◦]|\d{1,3}[.)]|\([a-z\d]{1,3}\))\s+\S")


class Line(NamedTuple):
    """A line of a page."""

    text: str
    size: float
    """Font size as rendered, in points."""


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Read the text layer of every page."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(source.path)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadableError("It is protected by a password: save a copy without one.") from error
        raise UnreadableError("It is not a readable PDF: the file is broken or incomplete.") from error
    pages: list[list[Line]] = []
    pictures: list[PictureFile] = []
    length = 0
    for number in allowance.over(range(min(len(document), MOST_PAGES))):
        try:
            lines = _lines(_open_page(document, number).get_textpage())
        except pypdfium2.PdfiumError:
            lines = []
        if not lines and len(pictures) < MOST_PICTURES and has_pillow():
            drawn = _draw_page(document, source, number + 1)
            pictures += drawn
            lines = [Line(_IS_PICTURE, 0)] * len(drawn)
        length += sum(len(line.text) for line in lines)
        if length > MOST_CHARACTERS:
            break
        pages.append(lines)
    if length < min(200, 10 * max(1, len(pages))) and not pictures:
        require_pillow()
        raise UnreadableError("It has no text, and no page that could be shown as a picture.")
    parsed = pages_to_parsed(pages)
    parsed.pictures = pictures
    return parsed


def _open_page(document: "pypdfium2.PdfDocument", number: int) -> "pypdfium2.PdfPage":
    """Open a page including the values filled into its form, which a text layer omits."""
    import pypdfium2

    page, raw = document[number], cast("Any", pypdfium2.raw)  # pypdfium2.raw has no types
    if raw.FPDFPage_GetAnnotCount(page) and raw.FPDFPage_Flatten(page, 0) == 1:
        page.close()
        return document[number]
    return page


def _draw_page(document: "pypdfium2.PdfDocument", source: Source, number: int) -> list[PictureFile]:
    """Draw a page that has no text, unless it is empty, or has a picture that is too large to draw."""
    import pypdfium2

    try:
        page = cast("Any", document[number - 1])  # pypdfium2 has no types for these
        sizes = [each.get_px_size() for each in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE])]
        if any(width * height > MOST_PIXELS for width, height in sizes):
            return []
        image = page.render(scale=MOST_EDGE / max(*page.get_size(), 1)).to_pil()
    except pypdfium2.PdfiumError:
        return []
    is_empty = all(darkest == lightest for darkest, lightest in image.convert("RGB").getextrema())
    return [] if is_empty else [write_picture(image, source.tables, number)]


def _lines(textpage: "pypdfium2.PdfTextPage") -> list[Line]:
    """List the lines of a page in reading order, each with the size of its first letter."""
    import pypdfium2

    text, raw = textpage.get_text_range(), cast("Any", pypdfium2.raw)  # pypdfium2.raw has no types
    matrix = raw.FS_MATRIX()

    spans = [Span(*each.span()) for each in _LINE.finditer(text)]
    with suppress(pypdfium2.PdfiumError):  # a character without a position
        spans = reading_order(text, spans, lambda at: cast("Any", textpage).get_charbox(at, loose=True))

    def line(span: Span) -> Line:
        raw.FPDFText_GetMatrix(textpage, span.start, matrix)  # the page may be scaled
        size = raw.FPDFText_GetFontSize(textpage, span.start) * hypot(matrix.c, matrix.d)
        return Line(text[span.start : span.end].replace(_LINE_END_HYPHEN, "").replace("\0", ""), round(size, 1))

    return [*map(line, spans)]


def pages_to_parsed(pages: list[list[Line]]) -> Parsed:
    """Find headings and paragraphs in the bare lines of a PDF's text layer."""
    running = _running_lines([[line.text for line in page] for page in pages])
    sizes: Counter[float] = Counter()
    for line in (line for page in pages for line in page):
        sizes[line.size] += len(line.text)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    path = HeadingPath()
    blocks: list[Block] = []
    for number, page in enumerate(pages, 1):
        lines = [
            line for line in page if _without_digits(line.text) not in running and not _CONTENTS_LINE.search(line.text)
        ]
        blocks.extend(Block(text, number, number, heading) for text, heading in _paragraphs(lines, path, body))
    parts = [Part(number, number, "\n".join(line.text for line in page)) for number, page in enumerate(pages, 1)]
    return Parsed(unit="page", units=len(pages), blocks=blocks, parts=parts, headings=path.all)


def _running_lines(pages: list[list[str]]) -> set[str]:
    """Find headers and footers: lines at the edge of most pages, ignoring digits."""
    if len(pages) < 4:
        return set()
    counts: Counter[str] = Counter()
    for lines in pages:
        counts.update({_without_digits(line) for line in [*lines[:2], *lines[-2:]]})
    return {line for line, count in counts.items() if count >= len(pages) * 0.6}


def _without_digits(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def _paragraphs(lines: list[Line], path: HeadingPath, body: float) -> list[tuple[str, str]]:
    width = sorted(len(line.text) for line in lines)[int(len(lines) * 0.9)] if lines else 0
    paragraphs: list[tuple[str, str]] = []
    current: list[str] = []

    def end() -> None:
        if current:
            paragraphs.append((_join_lines(current, width), str(path)))
            current.clear()

    levels = [_level(line, body) for line in lines]
    # Consecutive numbered lines are a list, or rows of a table.
    plain = [line.size < body * _LARGER and level for line, level in zip(lines, levels, strict=True)]
    for at, (line, level) in enumerate(zip(lines, levels, strict=True)):
        if level and not (plain[at] and plain[at] in (*plain[max(0, at - 1) : at], *plain[at + 1 : at + 2])):
            end()
            path.enter(level, line.text)
            continue
        if _BULLET.match(line.text):
            end()
        current.append(line.text)
        if line.text.endswith((".", "!", "?", ":")) and len(line.text) < width * 0.85:
            end()
    end()
    return paragraphs


def _join_lines(lines: list[str], width: int) -> str:
    """Join the lines of a paragraph into one; keep rows of a table, which end early, on separate lines."""
    text = ""
    for before, line in pairwise(["", *lines]):
        text += ("\n" if len(before) < width * 0.75 else " ") + line
    return text.strip()


def _level(line: Line, body: float) -> int:
    """Return 1 to 6, or 0 if a line is not a heading: titles are larger, and numbers indicate depth."""
    if len(line.text) > 120 or not any(character.isalpha() for character in line.text):
        return 0
    may_be_title = len(line.text.split()) <= 9 and not line.text.endswith((".", ",", ";", ":", "!", "?"))
    if may_be_title and line.size >= body and (numbered := _NUMBERED.match(line.text)):
        return 2 + numbered.group(1).count(".")
    if line.size < body * _LARGER:
        return 0
    return 1 if line.size > body * 1.6 else 2 if line.size > body * 1.25 else 3
