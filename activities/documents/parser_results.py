"""What a parser hands back of one document: a file of JSON lines, so that a huge one never lies in memory whole.

Written by the child, read by the worker. The first line says what the document is; each further one is a stretch for
reading, or a passage for finding.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from activities.child_limits import Allowance
from activities.documents.parser_output import Parsed, Part, Sheet, Unit
from activities.documents.passages import Span, cut

MOST_HEADINGS: Final = 40
OPENING_CHARACTERS: Final = 200
_ROWS_A_PIECE: Final = 300


class Result(NamedTuple):
    """A document that a child has parsed."""

    unit: Unit = "line"
    units: int = 0
    headings: tuple[str, ...] = ()
    """In reading order, 40 at most."""
    opening: str = ""
    """Its first words, 200 characters at most."""
    sheets: tuple[Sheet, ...] = ()
    problem: str = ""
    """Why it could not be read, in words for the user; empty if it could."""
    foreign: str = ""
    """Why it is no document at all; empty if it is one."""
    path: Path | None = None
    """The file with its stretches and passages."""

    def rows(self) -> Iterator[Part | Span]:
        """Stretches first, then passages."""
        if self.path is None:
            return
        with self.path.open(encoding="utf-8") as file:
            file.readline()
            for line in file:
                is_span, *values = json.loads(line)
                yield Span(*values) if is_span else Part(*values)


def failed_result(problem: str) -> Result:
    """A document that could not be read, and why."""
    return Result(problem=problem)


def write_result(path: Path, parsed: Parsed, allowance: Allowance) -> None:
    """Cut a document into passages and write everything down."""
    opening = next((block.text for block in parsed.blocks if block.kind == "text"), "")
    result = Result(
        unit=parsed.unit,
        units=parsed.units,
        headings=tuple(dict.fromkeys(parsed.headings))[:MOST_HEADINGS],
        opening=" ".join(opening[: 10 * OPENING_CHARACTERS].split())[:OPENING_CHARACTERS],
        sheets=tuple(parsed.sheets),
        problem=parsed.problem,
        foreign=parsed.foreign,
    )
    with path.open("w", encoding="utf-8", errors="replace") as file:
        file.write(json.dumps(result._asdict()) + "\n")
        for part in allowance.over(parsed.parts, _ROWS_A_PIECE):
            file.write(json.dumps((0, *part)) + "\n")
        for span in allowance.over(cut(parsed.blocks, parsed.unit), _ROWS_A_PIECE):
            file.write(json.dumps((1, *span)) + "\n")


def read_result(path: Path) -> Result:
    """Read what a document is, and remember where the rest stands."""
    with path.open(encoding="utf-8") as file:
        told = cast("dict[str, Any]", json.loads(file.readline()))
    return Result(
        unit=told["unit"],
        units=told["units"],
        headings=tuple(told["headings"]),
        opening=told["opening"],
        sheets=tuple(Sheet(*sheet) for sheet in told["sheets"]),
        problem=told["problem"],
        foreign=told["foreign"],
        path=path,
    )
