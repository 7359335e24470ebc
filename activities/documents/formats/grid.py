"""Rows of tables with merged cells, written with each cell in its column."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

FIGURE: Final = re.compile(r"(?!(?:19|20)\d\d\Z)(?:\W|EUR|USD|GBP|CHF)*\d")
"""Start of a text that could be summed: a figure, but not a year."""
_MOST_COLUMNS: Final = 100


class Cell(NamedTuple):
    """A cell and the columns and rows that it spans. A text of None continues the cell above."""

    text: str | None
    columns: int = 1
    rows: int = 1


class Grid:
    """Places the cells of one table, row by row."""

    def __init__(self) -> None:
        self._above: dict[int, Cell] = {}  # by column; `rows` counts the rows that are not filled yet

    def row(self, cells: Iterable[Cell]) -> str:
        """Write a row. A cell that spans columns leaves them empty; one that spans rows is repeated in each.

        Repeated figures are marked, so that a sum does not count them twice.
        """
        line, remaining = list[str](), iter(cells)
        while True:
            above = self._above.get(len(line), Cell("", rows=0))
            cell = above._replace(text=None) if above.rows > 0 else next(remaining, None)
            if cell is None:
                return row_text(line)
            text = (above.text or "") if cell.text is None else " ".join(cell.text.split())
            again = f"{text} (as above)" if cell.text is not None and FIGURE.match(text) else text
            columns = min(cell.columns, _MOST_COLUMNS)
            self._above[len(line)] = Cell(again, columns, cell.rows - 1)
            line += [text, *[""] * (columns - 1)]


def span(said: str | None) -> int:
    """Parse a span or repetition count; 1 if absent or invalid."""
    return max(1, int(said)) if said and said.isdecimal() and len(said) < 10 else 1


def row_text(cells: list[str]) -> str:
    """Join the cells of a row. Empty cells keep their place; a row without text is empty."""
    plain = [" ".join(cell.split()) for cell in cells]
    return " | ".join(plain) if any(plain) else ""
