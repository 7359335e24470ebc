"""Reads text as a reader sees it: headings, paragraphs, lists, tables and listings, with line numbers."""

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from activities.documents.formats.encoding import encoding_of, unicode_of
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
_DEFINITION: Final = re.compile(
    r"^(?:export\s+|pub\s+|public\s+|async\s+)*(class|def|function|func|fn|interface|struct|enum|trait)\s+(\w+)"
)


def parse(source: Source, allowance: Allowance) -> Parsed:  # noqa: ARG001  # a text of the largest size is fast
    """Split Markdown, prose or program code into blocks under their headings."""
    text = read_text(source.path)
    parsed = parse_text(text.text, source.name)
    parsed.unread = text.doubt
    return parsed


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


class Text(NamedTuple):
    """A text, and a message for the user about letters that may be wrong."""

    text: str
    doubt: str = ""


def read_text(path: Path) -> Text:
    """Read a text file. Raises `NotADocumentError`."""
    text = decode(path.read_bytes())
    if text is None:
        raise NotADocumentError(NOT_TEXT)
    return text


def decode(content: bytes) -> Text | None:
    """Decode a text file, or return None if it is not text. Every line end becomes a single line feed."""
    encoding = unicode_of(content)
    if encoding.name != "utf-16" and b"\0" in content[:65_536]:
        return None
    try:
        text = content.decode(encoding.name)
    except UnicodeDecodeError:
        encoding = encoding_of(content, content.splitlines())
        text = content.decode(encoding.name, errors="replace")
        if sum(not (character.isprintable() or character.isspace()) for character in text[:4_000]) > 40:
            return None
    return Text(text.replace("\r\n", "\n").replace("\r", "\n"), encoding.doubt)


def line_parts(lines: list[str]) -> list[Part]:
    """Divide a text into parts that can be fetched one by one."""
    return [
        Part(start + 1, min(start + _PART_LINES, len(lines)), "\n".join(lines[start : start + _PART_LINES]))
        for start in range(0, len(lines), _PART_LINES)
    ]


class _Prose:
    """Markdown, reStructuredText and plain text: what a line means depends on the lines around it."""

    def __init__(self, lines: list[str], *, markdown: bool) -> None:
        self._lines, self._markdown = lines, markdown
        self._blocks, self._path, self._underlines = list[Block](), HeadingPath(), list[str]()
        self._start = 0

    def parse(self) -> Parsed:
        number = self._start = self._front_matter() if self._markdown else 0
        while number < len(self._lines):
            number = self._take(number)
        self._flush(number, number)
        return Parsed(unit="line", units=0, blocks=self._blocks, headings=self._path.all)

    def _take(self, number: int) -> int:  # noqa: PLR0911 - a table of what a line can be
        """Read the line at this index and return the index of the next line to read."""
        line = self._lines[number]
        if not line.strip():
            return self._flush(number, number + 1)
        if self._markdown:
            if fence := _FENCE.match(line):
                closing = re.compile(rf"^\s{{0,3}}{re.escape(fence[1][0])}{{{len(fence[1])},}}\s*$")
                self._flush(number, number + 1)
                end = self._find(number + 1, closing.match)
                return self._flush(end, end + 1, "code")
            if heading := _ATX_HEADING.match(line):
                return self._enter(number, number + 1, len(heading[1]), heading[2])
            if _BADGES.match(line):
                return self._flush(number, number + 1)
            if line.lstrip().startswith("<!--"):
                return self._flush(number, self._find(number, lambda text: "-->" in text) + 1)
        if number == self._start:
            return self._title(number)
        first = self._lines[self._start]
        if self._kind(first) != "code" and bool(_TABLE_ROW.match(first)) != bool(_TABLE_ROW.match(line)):
            self._flush(number, number)
        return number + 1

    def _find(self, number: int, is_last: Callable[[str], object]) -> int:
        return next((at for at in range(number, len(self._lines)) if is_last(self._lines[at])), len(self._lines))

    def _title(self, number: int) -> int:
        """Read a title underlined, and perhaps overlined, with punctuation; otherwise consume one line."""
        lines = [*self._lines[number : number + 3], "", ""]
        over, under = _UNDERLINE.match(lines[0]), _UNDERLINE.match(lines[1])
        if over and lines[1].strip() and _UNDERLINE.match(lines[2]) and lines[0][0] == lines[2][0]:
            return self._enter(number, number + 3, self._level(lines[0][0] * 2), lines[1])
        if over:
            return self._flush(number, number + 1)
        if under and not lines[0].startswith((" ", "\t")) and self._is_title(lines[0], under):
            return self._enter(number, number + 2, self._level(lines[1][0]), lines[0])
        if not self._markdown and _CAPITALS.match(lines[0]) and not lines[1].strip():
            return self._enter(number, number + 1, self._level("capitals"), lines[0])
        return number + 1

    def _is_title(self, line: str, under: re.Match[str]) -> bool:
        if self._markdown:
            return under[1] in "=-" and not _LIST_ITEM.match(line) and not _TABLE_ROW.match(line)
        return len(under[0].rstrip()) >= len(line.rstrip()) * 0.6

    def _level(self, mark: str) -> int:
        if self._markdown:
            return 1 if mark.startswith("=") else 2
        self._underlines += [mark] if mark not in self._underlines else []
        return self._underlines.index(mark) + 1

    def _enter(self, number: int, after: int, level: int, title: str) -> int:
        self._flush(number, after)
        self._path.enter(level, _MARKUP.sub("", title))
        return after

    def _front_matter(self) -> int:
        is_closed = self._lines[0].strip() == "---" and {"---", "..."}.intersection(map(str.strip, self._lines[1:60]))
        return 1 + self._find(1, lambda line: line.strip() in {"---", "..."}) if is_closed else 0

    def _flush(self, end: int, after: int, kind: BlockKind | None = None) -> int:
        """Add the block that ends here, and continue after it."""
        text = "\n".join(self._lines[self._start : end])
        if text.strip():
            kind = kind or self._kind(self._lines[self._start])
            self._blocks.append(Block(text, self._start + 1, end, str(self._path), kind))
        self._start = after
        return after

    def _kind(self, first: str) -> BlockKind:
        """Classify a block by its first line and the block before; an indented one after `::` is a listing."""
        indent, before = len(first) - len(first.lstrip()), self._blocks[-1] if self._blocks else Block("", 0, 0)
        follows = (
            _LIST_ITEM.search(before.text) if self._markdown else before.kind != "code" and before.text[-2:] != "::"
        )
        is_deep = indent >= 4 and not _LIST_ITEM.match(first) if self._markdown else indent > 0
        if first.lstrip().startswith(">>> ") or (is_deep and not follows):
            return "code"
        return "table" if _TABLE_ROW.match(first) else "text"


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
