"""Read the text of a PDF, page by page. Runs in a child process: a PDF can be made to exhaust its reader."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

from activities.documents.parsed import Block, HeadingPath, Parsed, Part, failed_parse

MOST_PAGES: Final = 3_000
MOST_CHARACTERS: Final = 20_000_000
_LINE_END_HYPHEN: Final = "\ufffe"
_NUMBERED: Final = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,3})\.?\s+[^\W\d_a-z].{2,70}$")
_BULLET: Final = re.compile(r"^\s*([-–•*▪●◦]|\d{1,3}[.)]|\([a-z\d]{1,3}\))\s+\S")


def parse_pdf(path: Path) -> Parsed:
    """Read the text layer of every page."""
    import pypdfium2  # noqa: PLC0415 - the workbook's parser starts without it

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            return failed_parse("It is protected by a password: save a copy without one.")
        return failed_parse("It is not a PDF that can be read: the file is broken or incomplete.")
    pages: list[str] = []
    length = 0
    for number in range(min(len(document), MOST_PAGES)):
        try:
            text = document[number].get_textpage().get_text_range()
        except pypdfium2.PdfiumError:
            text = ""
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace(_LINE_END_HYPHEN, "").replace("\0", "")
        length += len(text)
        if length > MOST_CHARACTERS:
            break
        pages.append(text)
    if sum(character.isalnum() for page in pages for character in page) < 10 * max(1, len(pages)) and length < 200:
        return failed_parse("It has no text, only images (a scan?): run text recognition over it first.")
    return pages_to_parsed(pages)


def pages_to_parsed(pages: list[str]) -> Parsed:
    """Find headings and paragraphs in the bare lines of a PDF's text layer."""
    running = _running_lines(pages)
    path = HeadingPath()
    blocks: list[Block] = []
    for number, page in enumerate(pages, 1):
        lines = [line.strip() for line in page.split("\n")]
        lines = [line for line in lines if line and _without_digits(line) not in running]
        blocks.extend(Block(text, number, number, heading) for text, heading in _paragraphs(lines, path))
    parts = [Part(number, number, page) for number, page in enumerate(pages, 1)]
    return Parsed(unit="page", units=len(pages), blocks=blocks, parts=parts, headings=path.all)


def _running_lines(pages: list[str]) -> set[str]:
    """Headers and footers: lines that stand on the edge of most pages, whatever their numbers."""
    if len(pages) < 4:
        return set()
    counts: Counter[str] = Counter()
    for page in pages:
        lines = [line.strip() for line in page.split("\n") if line.strip()]
        counts.update({_without_digits(line) for line in [*lines[:2], *lines[-2:]]})
    return {line for line, count in counts.items() if count >= len(pages) * 0.6}


def _without_digits(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def _paragraphs(lines: list[str], path: HeadingPath) -> list[tuple[str, str]]:
    width = sorted(map(len, lines))[int(len(lines) * 0.9)] if lines else 0
    found: list[tuple[str, str]] = []
    current: list[str] = []

    def end() -> None:
        if current:
            found.append((" ".join(current), str(path)))
            current.clear()

    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        level = _heading_level(line, following, width, starts=not current, is_first=not path.all)
        if level:
            end()
            path.enter(level, line)
            continue
        if _BULLET.match(line):
            end()
        current.append(line)
        if line.endswith((".", "!", "?", ":")) and len(line) < width * 0.85:
            end()
    end()
    return found


def _heading_level(line: str, following: str, width: int, *, starts: bool, is_first: bool) -> int:
    """1 to 6, or 0 for a line that is no heading."""
    if line.endswith((".", ",", ";", ":", "!", "?")) or len(line.split()) > 9:
        return 0
    if numbered := _NUMBERED.match(line):
        return 2 + numbered.group(1).count(".")
    stands_out = len(line) < width * 0.7 and line[:1].isupper() and (starts or is_first)
    if stands_out and (_NUMBERED.match(following) or (len(following) > 40 and following[:1].isupper())):
        return 1 if is_first else 2
    return 0
