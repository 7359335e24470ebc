"""The result of a document parser, and the file that carries it from the child process to the worker.

The file consists of JSON lines, so that a large document is never in memory as a whole: the first line describes the
document, each further line is a part to read or a passage to find. Imports little, since child processes start often.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

BlockKind = Literal["text", "code", "table"]
Unit = Literal["page", "line", "paragraph", "row"]

MOST_HEADINGS: Final = 40
OPENING_CHARACTERS: Final = 200


class UnreadableError(Exception):
    """The document cannot be read; the message says why, for the user."""


class NotADocumentError(Exception):
    """The file is not of a supported format; the message says what it is."""


class Source(NamedTuple):
    """A file to parse."""

    name: str
    path: Path
    tables: Path
    """Path prefix of the CSV files that the parser writes."""


class Block(NamedTuple):
    """A paragraph, list, table or listing of the document, or a passage composed of several."""

    text: str
    first: int
    """Number of the page, line, paragraph or row on which it begins, from 1."""
    last: int
    heading: str = ""
    """Titles above it, outermost first, joined by ` > `."""
    kind: BlockKind = "text"
    place: str = ""
    """Its sheet, in a workbook."""


class Part(NamedTuple):
    """A section of the document to be read."""

    first: int
    last: int
    text: str
    place: str = ""


class Sheet(NamedTuple):
    """A table of the document, written as a UTF-8 CSV file with one header line."""

    name: str
    """Name of the sheet; empty for a CSV file."""
    path: str
    delimiter: str = ","
    header: bool = True


class PictureFile(NamedTuple):
    """A page or paragraph that is a picture, written as a PNG or JPEG file."""

    page: int
    path: str


@dataclass
class Parsed:
    """A document in reading order."""

    unit: Unit
    units: int
    blocks: list[Block] = field(default_factory=list[Block])
    parts: list[Part] = field(default_factory=list[Part])
    headings: list[str] = field(default_factory=list[str])
    sheets: list[Sheet] = field(default_factory=list[Sheet])
    pictures: list[PictureFile] = field(default_factory=list[PictureFile])
    unread: str = ""
    """The part that cannot be read, worded for the user."""


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


class Result(NamedTuple):
    """The description of a parsed document, or why there is none."""

    unit: Unit = "line"
    units: int = 0
    headings: tuple[str, ...] = ()
    """Titles in reading order, at most 40."""
    opening: str = ""
    """The document's first words, at most 200 characters."""
    sheets: tuple[Sheet, ...] = ()
    pictures: tuple[PictureFile, ...] = ()
    unread: str = ""
    """The part that cannot be read, worded for the user."""
    problem: str = ""
    """Why the document could not be read, worded for the user."""
    unsupported: str = ""
    """Why the file is not a document."""
    path: Path | None = None
    """The file with its parts and passages."""

    def rows(self) -> Iterator[Part | Block]:
        """Yield the parts first, then the passages."""
        if self.path is None:
            return
        with self.path.open(encoding="utf-8") as file:
            file.readline()
            for line in file:
                is_block, *values = json.loads(line)
                yield Block(*values) if is_block else Part(*values)


def describe(parsed: Parsed) -> Result:
    """Summarize a parsed document."""
    # A document without prose opens with its first block, unless that is a table whose columns are listed anyway.
    others = [] if parsed.sheets else parsed.blocks
    opening = next((block.text for block in (*(each for each in parsed.blocks if each.kind == "text"), *others)), "")
    return Result(
        unit=parsed.unit,
        units=parsed.units,
        headings=tuple(dict.fromkeys(parsed.headings))[:MOST_HEADINGS],
        opening=" ".join(opening[: 10 * OPENING_CHARACTERS].split())[:OPENING_CHARACTERS],
        sheets=tuple(parsed.sheets),
        pictures=tuple(parsed.pictures),
        unread=parsed.unread,
    )


def write_result(path: Path, result: Result, parts: Iterable[Part] = (), passages: Iterable[Block] = ()) -> None:
    """Write the file that `read_result` reads."""
    with path.open("w", encoding="utf-8", errors="replace") as file:
        file.write(json.dumps(result._asdict()) + "\n")
        file.writelines(json.dumps((0, *part)) + "\n" for part in parts)
        file.writelines(json.dumps((1, *passage)) + "\n" for passage in passages)


def read_result(path: Path) -> Result:
    """Read the description; `rows` reads the rest."""
    with path.open(encoding="utf-8") as file:
        stored = cast("dict[str, Any]", json.loads(file.readline()))
    sheets = tuple(Sheet(*sheet) for sheet in stored["sheets"])
    pictures = tuple(PictureFile(*picture) for picture in stored["pictures"])
    stored |= {"headings": tuple(stored["headings"]), "sheets": sheets, "pictures": pictures, "path": path}
    return Result(**stored)
