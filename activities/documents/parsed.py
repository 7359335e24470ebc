"""What a parser makes of one document. Imports only the standard library: parsers run in child processes too."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

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


@dataclass
class Parsed:
    """A document in reading order."""

    unit: Unit
    units: int
    blocks: list[Block] = field(default_factory=list["Block"])
    parts: list[Part] = field(default_factory=list["Part"])
    headings: list[str] = field(default_factory=list[str])
    sheets: list[Sheet] = field(default_factory=list["Sheet"])
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Parsed":
        return cls(
            unit=value["unit"],
            units=value["units"],
            blocks=[Block(*block) for block in value["blocks"]],
            parts=[Part(*part) for part in value["parts"]],
            headings=value["headings"],
            sheets=[Sheet(*sheet) for sheet in value["sheets"]],
            problem=value["problem"],
        )


def failed_parse(problem: str) -> Parsed:
    """A document that could not be read, and why."""
    return Parsed(unit="line", units=0, problem=problem)


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
