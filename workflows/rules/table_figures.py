"""Figures of a claim about a table: whether each is of the row and column it speaks of, or computed from such."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import chain, permutations
from typing import Final

from workflows.rules.quantities import Quantity, values_of

_CELL_FIGURE: Final = re.compile(r"[-−]?[$€£¥]?\s?(\d+(?:[.,'’\u00a0\u202f]\d+)*)\s?[%€]?")
_WORD: Final = re.compile(r"[^\W_]+", re.UNICODE)
_MOST_ROWS: Final = 200
_MOST_PAIRED: Final = 8
"""Figures of which any two may be compared; more are so many that a figure would arise by accident."""
_STEM: Final = 5


@dataclass(frozen=True)
class Cell:
    """A figure of a table."""

    value: Decimal
    row: int
    column: int


@dataclass(frozen=True)
class ResultTable:
    """What a query or a program returned, as a table."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All figures."""
        return tuple(
            Cell(value, row, column)
            for row, cells in enumerate(self.rows)
            for column, text in enumerate(cells)
            if (value := _number(text)) is not None
        )

    def named_rows(self, text: str) -> frozenset[int]:
        """List the rows of which a text has a label: the words of a cell that is no figure, and not in every row."""
        words = _words(text)
        labels = [
            {cell.casefold() for cell in cells if _number(cell) is None or _is_year(cell)} - {""} for cells in self.rows
        ]
        shared = set[str]().intersection(*labels) if not labels else labels[0].intersection(*labels)
        return frozenset(
            row
            for row, own in enumerate(labels)
            if any(_words(label) and _words(label) <= words for label in own - shared)
        )

    def named_columns(self, text: str) -> frozenset[int]:
        """List the columns of figures whose titles a text has a word of."""
        stems = {word[:_STEM] for word in _words(text)}
        with_figures = {cell.column for cell in self.cells}
        return frozenset(
            column
            for column in with_figures
            if column < len(self.header) and {word[:_STEM] for word in _words(self.header[column])} & stems
        )


@lru_cache(maxsize=128)
def read_table(result: str) -> ResultTable | None:
    """Read what a tool returned as a table; None if it is none."""
    lines = [line for line in result.strip().split("\n") if line.strip()]
    if len(lines) < 2:  # a header and a row
        return None
    header, *rows = (_cells(line) for line in lines[: _MOST_ROWS + 1])
    rows = [row for row in rows if len(row) == len(header)]
    return ResultTable(header, tuple(rows)) if rows else None


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def misplaced(figure: Quantity, claim: str, table: ResultTable) -> str:
    """Say of which row or column a figure is, if the claim speaks of others; empty if it is where the claim says."""
    at = [cell for cell in table.cells if cell.value in figure.values]
    rows, columns = table.named_rows(claim), table.named_columns(claim)
    in_rows = [cell for cell in at if not rows or cell.row in rows]
    if at and not in_rows and not (len(rows) > 1 and is_computed_from(figure, claim, table)):
        return f"{figure.written} is of another row: {' | '.join(table.rows[at[0].row])}"
    if in_rows and columns and not any(cell.column in columns or _is_label(cell, table) for cell in in_rows):
        return f"{figure.written} is of another column: {table.header[in_rows[0].column]}"
    return ""


def is_extreme(figure: Quantity, table: ResultTable) -> bool:
    """Whether a figure is the largest or the smallest of a column, or none of its cells."""
    at = [cell for cell in table.cells if cell.value in figure.values]
    columns = [[cell.value for cell in table.cells if cell.column == found.column] for found in at]
    return not at or any(found.value in {max(column), min(column)} for found, column in zip(at, columns, strict=True))


def has_extreme(claim: str, table: ResultTable) -> bool:
    """Whether the one row that a claim names has the most or the least of a column."""
    rows = table.named_rows(claim)
    at = [cell for cell in table.cells if cell.row in rows]
    columns = [[cell.value for cell in table.cells if cell.column == each.column] for each in at]
    return len(rows) == 1 and any(
        cell.value in {max(column), min(column)} for cell, column in zip(at, columns, strict=True)
    )


def is_computed_from(figure: Quantity, claim: str, table: ResultTable) -> bool:
    """Whether a figure is the sum, mean, count, difference, ratio or share of what the claim speaks of."""
    cells = [cell for cell in table.cells if not _is_label(cell, table)]
    rows, columns = table.named_rows(claim), table.named_columns(claim) or {cell.column for cell in cells}
    named = [cell for cell in cells if not rows or cell.row in rows]
    totals = [sum((cell.value for cell in cells if cell.column == column), Decimal(0)) for column in columns]
    chosen = [cell.value for cell in named if cell.column in columns][:_MOST_PAIRED]
    by_column = [
        [cell.value for cell in part if cell.column == column] for part in (cells, named) for column in columns
    ]
    computed = (
        _shares([*chosen, *totals])
        if figure.unit in {"percent", "point"}
        else chain(*map(_aggregates, by_column), _comparisons([*chosen, *totals]))
    )
    return any(figure.is_in([Quantity("", frozenset({value}))]) for value in computed)


def _aggregates(values: Sequence[Decimal]) -> Iterator[Decimal]:
    if values:
        yield Decimal(len(values))
        yield sum(values, Decimal(0))
        yield sum(values, Decimal(0)) / len(values)


def _comparisons(values: Sequence[Decimal]) -> Iterator[Decimal]:
    for one, other in permutations(values, 2):
        yield abs(one - other)
        if other:
            yield one / other


def _shares(values: Sequence[Decimal]) -> Iterator[Decimal]:
    for one, other in permutations(values, 2):
        yield abs(one - other)
        if other:
            yield one / other * 100
            yield abs(one - other) / other * 100


def _number(cell: str) -> Decimal | None:
    match = _CELL_FIGURE.fullmatch(cell.strip())
    if match is None:
        return None
    try:
        return Decimal(cell.strip())
    except InvalidOperation:
        return next((value for value in values_of(match[1]) if isinstance(value, Decimal)), None)


def _is_year(cell: str) -> bool:
    return bool(re.fullmatch(r"(?:1[89]|20)\d\d", cell.strip()))


def _is_label(cell: Cell, table: ResultTable) -> bool:
    """Whether a figure stands in a column of years."""
    return all(_is_year(row[cell.column]) for row in table.rows)


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    bare = "".join(mark for mark in unicodedata.normalize("NFD", text) if not unicodedata.combining(mark))
    return frozenset(word.casefold() for word in _WORD.findall(bare.replace("_", " ")))
