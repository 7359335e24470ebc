"""What a parser makes of one document. Imports almost nothing: parsers run in child processes, which start often."""

from typing import Literal, NamedTuple

BlockKind = Literal["text", "code", "table"]
Unit = Literal["page", "line", "paragraph", "row"]


class Block(NamedTuple):
    """A paragraph, list, table or listing, as it stands in the document."""

    text: str
    first: int
    """Number of the page, line, paragraph or row on which it begins, from 1."""
    last: int
    heading: str = ""
    """Titles above it, outermost first, joined by ` > `."""
    kind: BlockKind = "text"
    place: str = ""
    """The sheet it stands on, in a workbook."""


class Part(NamedTuple):
    """A stretch of the document for reading on."""

    first: int
    last: int
    text: str
    place: str = ""


class Sheet(NamedTuple):
    """A table that was found in the document, written as UTF-8 CSV with one header line."""

    name: str
    """Of the sheet; empty for a CSV file."""
    path: str
    delimiter: str = ","
    header: bool = True


class Parsed:
    """A document in reading order."""

    def __init__(
        self,
        unit: Unit,
        units: int,
        blocks: list[Block] | None = None,
        parts: list[Part] | None = None,
        headings: list[str] | None = None,
        *,
        problem: str = "",
        foreign: str = "",
    ) -> None:
        self.unit: Unit = unit
        self.units = units
        self.blocks = blocks or []
        self.parts = parts or []
        self.headings = headings or []
        self.sheets: list[Sheet] = []
        self.problem = problem
        self.foreign = foreign
        """Why it is no document at all."""


def failed_parse(problem: str) -> Parsed:
    """A document that could not be read, and why."""
    return Parsed(unit="line", units=0, problem=problem)


def no_document(reason: str) -> Parsed:
    """A file that is of no format that is read here."""
    return Parsed(unit="line", units=0, foreign=reason)


class HeadingPath:
    """The titles above the current place in a document."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, str]] = []
        self.all: list[str] = []

    def enter(self, level: int, title: str) -> None:
        title = " ".join(title.split())[:200]
        if not title:
            return
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        self._stack.append((level, title))
        self.all.append(title)

    def __str__(self) -> str:
        return " > ".join(title for _, title in self._stack)
