"""Write the rows of a table, each cell in its column, also where cells are merged."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_FIGURE: Final = re.compile(r"(?!(?:19|20)\d\d\Z)(?:\W|EUR|USD|GBP|CHF)*\d")
"""How that begins which might be added: any figure but a year."""
_MOST_COLUMNS: Final = 100


class Cell(NamedTuple):
    """A cell, as many columns wide and rows high as it says; None for its text continues the cell above."""

    text: str | None
    columns: int = 1
    rows: int = 1


class Grid:
    """Places the cells of one table, row after row."""

    def __init__(self) -> None:
        self._above: dict[int, Cell] = {}  # by column, as they stand in rows to come, and in how many

    def row(self, cells: Iterable[Cell]) -> str:
        """Write a row: a wide cell keeps the places that it covers, and a high one stands in each of its rows.

        A figure that stands again says so, lest it be added twice.
        """
        line, given = list[str](), iter(cells)
        while True:
            above = self._above.get(len(line), Cell("", rows=0))
            cell = above._replace(text=None) if above.rows > 0 else next(given, None)
            if cell is None:
                return row_text(line)
            text = (above.text or "") if cell.text is None else " ".join(cell.text.split())
            again = f"{text} (as above)" if cell.text is not None and _FIGURE.match(text) else text
            columns = min(cell.columns, _MOST_COLUMNS)
            self._above[len(line)] = Cell(again, columns, cell.rows - 1)
            line += [text, *[""] * (columns - 1)]


def span(said: str | None) -> int:
    """Read how far a cell reaches, or how often it stands; once if a document does not say."""
    return max(1, int(said)) if said and said.isdecimal() and len(said) < 10 else 1


def row_text(cells: list[str]) -> str:
    """Write a row of a table; cells of it that are empty keep their place, a row of them is empty."""
    plain = [" ".join(cell.split()) for cell in cells]
    return " | ".join(plain) if any(plain) else ""
