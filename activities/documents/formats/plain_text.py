"""Read text as its reader sees it: headings, paragraphs, lists, tables and listings, with line numbers."""

import codecs
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from activities.documents.formats.registry import format_of
from activities.documents.parsed import (
    Block,
    BlockKind,
    HeadingPath,
    NotADocumentError,
    Parsed,
    Part,
    Source,
    UnreadableError,
)
from activities.processes.limits import Allowance

NOT_TEXT: Final = "not a text, and not of a supported format"
_ENCODING: Final = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
"""As a page or an XML file says at its beginning."""
_PROSE_SUFFIXES: Final = frozenset({"", ".txt", ".text", ".rst", ".adoc", ".org", ".tex", ".1", ".me", ".first"})
_PART_LINES: Final = 200
_FENCE: Final = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_ATX_HEADING: Final = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_UNDERLINE: Final = re.compile(r"^([=\-~^\"'`*+#:.<>_])\1{2,}\s*$")
_LIST_ITEM: Final = re.compile(r"^\s*([-*+•]|\d{1,3}[.)])\s")
_TABLE_ROW: Final = re.compile(r"^\s*\|.*\|\s*$")
_BADGES: Final = re.compile(r"^\s*(\[?!\[[^\]]*\]\([^)]*\)(\]\([^)]*\))?\s*)+$")
_MARKUP: Final = re.compile(r"`|\*\*|\\(?=[^\w\s])|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|(?<!\s)\s*+\{#[\w-]+\}")
_CAPITALS: Final = re.compile(r"^[A-Z0-9][A-Z0-9 ,&/'()\-]{3,60}:?$")
_DIRECTIVE: Final = re.compile(r"^\.\.\s+([\w:-]+)::")
_LISTING_DIRECTIVES: Final = frozenset(
    {"code", "code-block", "sourcecode", "literalinclude", "parsed-literal", "productionlist", "testcode", "doctest"}
)
_DEFINITION: Final = re.compile(
    r"^(?:export\s+|pub\s+|public\s+|async\s+)*(class|def|function|func|fn|interface|struct|enum|trait)\s+(\w+)"
)


def parse(source: Source, allowance: Allowance) -> Parsed:  # noqa: ARG001  # a text of the largest size is fast
    """Split Markdown, prose or program code into blocks under their headings."""
    return parse_text(read_text(source.path), source.name)


def parse_text(text: str, name: str) -> Parsed:
    """Parse by the file's name."""
    if not text.strip():
        raise UnreadableError("The file is empty.")
    lines = text.removesuffix("\n").split("\n")
    is_markdown = format_of(name).kind == "md"
    if is_markdown or PurePosixPath(name).suffix.lower() in _PROSE_SUFFIXES:
        parsed = _Prose(lines, markdown=is_markdown).parse()
    else:
        parsed = _parse_code(lines)
    parsed.units = len(lines)
    parsed.parts = line_parts(lines)
    return parsed


def read_text(path: Path) -> str:
    """Read a text file. Raises `NotADocumentError`."""
    text = decode(path.read_bytes())
    if text is None:
        raise NotADocumentError(NOT_TEXT)
    return text


def decode(content: bytes) -> str | None:
    """Decode a text file, or return None if it is not text. Line ends become line feeds, one for each line end."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = content.decode("utf-16", errors="replace")
    elif b"\0" in content[:65_536]:
        return None
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = _decode_other(content)
            if sum(not (character.isprintable() or character.isspace()) for character in text[:4_000]) > 40:
                return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode_other(content: bytes) -> str:
    """Decode what is no UTF-8 as it says that it is encoded, else as spreadsheets on Windows still write it."""
    named = _ENCODING.search(content[:2_000])
    with suppress(LookupError, ValueError):
        return content.decode(named[1].decode()) if named else content.decode("cp1252", errors="replace")
    return content.decode("cp1252", errors="replace")


def line_parts(lines: list[str]) -> list[Part]:
    """Cut a text into stretches that can be fetched one by one."""
    return [
        Part(start + 1, min(start + _PART_LINES, len(lines)), "\n".join(lines[start : start + _PART_LINES]))
        for start in range(0, len(lines), _PART_LINES)
    ]


class _Prose:
    """Markdown, reStructuredText and plain text: what a line means depends on the lines around it."""

    def __init__(self, lines: list[str], *, markdown: bool) -> None:
        self._lines = lines
        self._markdown = markdown
        self._blocks: list[Block] = []
        self._path = HeadingPath()
        self._start = 0
        self._kind: BlockKind = "text"
        self._underlines: list[str] = []
        self._listing_indent: int | None = None
        """Indentation of the paragraph that announced a listing; deeper lines belong to the listing."""

    def parse(self) -> Parsed:
        number = self._skip_front_matter() if self._markdown else 0
        self._start = number
        while number < len(self._lines):
            number = self._take(number)
        self._flush(len(self._lines))
        return Parsed(unit="line", units=0, blocks=self._blocks, headings=self._path.all)

    def _take(self, number: int) -> int:  # noqa: PLR0911 - a table of what a line can be
        """Read the line at this index and return the index to go on at."""
        line = self._lines[number]
        if not line.strip():
            self._flush(number)
            self._start = number + 1
            return number + 1
        if self._markdown:
            if fence := _FENCE.match(line):
                return self._take_fence(number, fence.group(1))
            if heading := _ATX_HEADING.match(line):
                return self._take_heading(number, number + 1, len(heading.group(1)), heading.group(2))
            if line.lstrip().startswith("<!--"):
                return self._skip_until(number, lambda text: "-->" in text)
            if _BADGES.match(line):
                return self._skip_until(number, lambda _: True)
        if (after := self._take_underlined(number)) is not None:
            return after
        self._note_kind(number, line)
        return number + 1

    def _note_kind(self, number: int, line: str) -> None:
        if number == self._start:
            self._kind = self._kind_of(line)
        elif (self._kind == "table") != bool(_TABLE_ROW.match(line)) and self._kind != "code":
            self._flush(number)
            self._start = number
            self._kind = self._kind_of(line)

    def _kind_of(self, line: str) -> BlockKind:
        indent = len(line) - len(line.lstrip())
        if self._listing_indent is not None:
            if indent > self._listing_indent:
                return "code"
            self._listing_indent = None
        if _TABLE_ROW.match(line):
            return "table"
        if line.lstrip().startswith(">>> "):
            return "code"
        if self._markdown and indent >= 4 and not _LIST_ITEM.match(line) and not self._follows_list():
            return "code"
        return "text"

    def _follows_list(self) -> bool:
        return bool(self._blocks) and _LIST_ITEM.search(self._blocks[-1].text) is not None

    def _take_fence(self, number: int, fence: str) -> int:
        self._flush(number)
        closing = re.compile(rf"^\s{{0,3}}{re.escape(fence[0])}{{{len(fence)},}}\s*$")
        end = number + 1
        while end < len(self._lines) and not closing.match(self._lines[end]):
            end += 1
        self._add(number + 1, end, "code")
        self._start = end + 1
        return end + 1

    def _take_underlined(self, number: int) -> int | None:  # noqa: PLR0911 - a table of what a line can be
        """A title with a line of punctuation below it, and perhaps one above."""
        if number != self._start or number + 1 >= len(self._lines):
            return None
        line, below = self._lines[number], self._lines[number + 1]
        over = _UNDERLINE.match(line)
        if over and number + 2 < len(self._lines) and below.strip():
            if _UNDERLINE.match(self._lines[number + 2]) and line[0] == self._lines[number + 2][0]:
                return self._take_heading(number, number + 3, self._underline_level(line[0] * 2), below)
            return None
        if over:
            return self._skip_until(number, lambda _: True)
        under = _UNDERLINE.match(below)
        if under and not line.startswith((" ", "\t")) and self._is_title(line, under):
            return self._take_heading(number, number + 2, self._underline_level(below[0]), line)
        if not self._markdown and _CAPITALS.match(line) and not below.strip():
            return self._take_heading(number, number + 1, self._underline_level("capitals"), line)
        return None

    def _is_title(self, line: str, under: re.Match[str]) -> bool:
        if self._markdown:
            return under.group(1) in "=-" and not _LIST_ITEM.match(line) and not _TABLE_ROW.match(line)
        return len(under.group(0).rstrip()) >= len(line.rstrip()) * 0.6

    def _underline_level(self, mark: str) -> int:
        if self._markdown:
            return 1 if mark.startswith("=") else 2
        if mark not in self._underlines:
            self._underlines.append(mark)
        return self._underlines.index(mark) + 1

    def _take_heading(self, number: int, after: int, level: int, title: str) -> int:
        self._flush(number)
        self._path.enter(level, _MARKUP.sub("", title))
        self._listing_indent = None
        self._start = after
        return after

    def _skip_front_matter(self) -> int:
        if self._lines and self._lines[0].strip() == "---":
            for number, line in enumerate(self._lines[1:60], 1):
                if line.strip() in {"---", "..."}:
                    return number + 1
        return 0

    def _skip_until(self, number: int, is_last: Callable[[str], bool]) -> int:
        self._flush(number)
        while number < len(self._lines) and not is_last(self._lines[number]):
            number += 1
        self._start = number + 1
        return number + 1

    def _flush(self, end: int) -> None:
        if end <= self._start:
            return
        kind = self._kind
        first = self._lines[self._start]
        if not self._markdown and kind == "text" and first.lstrip().startswith(".. "):
            directive = _DIRECTIVE.match(first.lstrip())
            if directive is None or directive.group(1) in _LISTING_DIRECTIVES:
                if directive is not None:
                    self._listing_indent = len(first) - len(first.lstrip())
                kind = "code"
        if kind == "text" and not self._markdown and self._lines[end - 1].rstrip().endswith("::"):
            self._listing_indent = len(first) - len(first.lstrip())
        self._add(self._start, end, kind)
        self._start = end
        self._kind = "text"

    def _add(self, start: int, end: int, kind: BlockKind) -> None:
        text = "\n".join(self._lines[start:end])
        if text.strip():
            self._blocks.append(Block(text, start + 1, end, str(self._path), kind))


def _parse_code(lines: list[str]) -> Parsed:
    blocks: list[Block] = []
    path = HeadingPath()
    start = 0
    for number, line in enumerate([*lines, ""]):
        if line.strip():
            if definition := _DEFINITION.match(line):
                path.enter(1, definition.group(0))
            continue
        if number > start:
            blocks.append(Block("\n".join(lines[start:number]), start + 1, number, str(path), "code"))
        start = number + 1
    return Parsed(unit="line", units=0, blocks=blocks, headings=path.all)
