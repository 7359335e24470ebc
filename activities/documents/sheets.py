"""Writes a document's tables as CSV files, each with one header line."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from activities.documents.parsed import Block, Sheet

_HEADER_WITHIN_ROWS: Final = 20
_WIDTH_WITHIN_ROWS: Final = 200
_BAR: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"[\s|:-]+")


def is_number(text: str) -> bool:
    """Whether a cell is a number; years are not, since they can be column titles."""
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return False
    return not (value.is_integer() and 1900 <= value <= 2100)


def header_at(rows: Sequence[Sequence[str]]) -> int | None:
    """Find the first row without data that has as many cells as most rows or, failing that, at least two."""
    filled = [sum(map(bool, row)) for row in rows[:_WIDTH_WITHIN_ROWS]]
    usual = Counter(count for count in filled if count > 1).most_common(1)
    for least in (usual[0][0], 2) if usual else ():
        for index, row in enumerate(rows[:_HEADER_WITHIN_ROWS]):
            # The first of several titles may be missing.
            is_full = filled[index] >= max(2, least - (filled[index] > 1 and not row[0]))
            if is_full and not any(_is_value(cell) for cell in row if cell):
                return index
    is_titled_column = len(rows) > 1 and len(rows[0]) == 1 and rows[0][0] and not _is_value(rows[0][0])
    return 0 if is_titled_column else None


def notes_below(rows: Sequence[Sequence[str]], width: int) -> int:
    """Count the last rows that are notes below a table: one cell each or, after an empty row, few cells."""
    filled = [sum(map(bool, row)) for row in rows]
    after = len(rows)
    while after and (filled[after - 1] == 0 or (filled[after - 1] == 1 and width > 2)):
        after -= 1
    empty = max((at for at in range(after) if not filled[at]), default=len(rows))
    is_apart = empty < after and all(len(row) < width or 2 * sum(map(bool, row)) <= width for row in rows[empty:])
    return len(rows) - (empty if is_apart else after)


def write_sheet(name: str, header: Sequence[str], data: Sequence[Sequence[str]], path: Path) -> Sheet:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(data)
    return Sheet(name, str(path))


def sheets_of(blocks: Sequence[Block], tables: Path) -> Iterator[Sheet]:
    """Write the tables of a text, each with titles in row one and equally many cells per row."""
    number = 0
    for (kind, heading), run in groupby(blocks, lambda block: (block.kind, block.heading)):
        lines = [line.strip() for block in run for line in block.text.split("\n")] if kind == "table" else []
        has_bars = any(map(_RULE.fullmatch, lines))
        rows = [_cells(line, has_bars=has_bars) for line in lines if not _RULE.fullmatch(line)]
        if has_bars:
            rows = [row + [""] * (len(rows[0]) - len(row)) for row in rows]
        groups = [[*alike] for _, alike in groupby(rows, len)]
        # If one row differs, such as a merged total, the rest would only be half of a table.
        if all(len(table) > 1 and header_at(table) == 0 and all(table[0]) for table in groups):
            for header, *data in groups:
                path = tables.with_name(f"{tables.name}-{number}.csv")
                yield write_sheet(heading.rpartition(" > ")[2], header, data, path)
                number += 1


def _cells(line: str, *, has_bars: bool) -> list[str]:
    inner = line[1:-1] if has_bars and not line.endswith("\\|") else line
    return [cell.replace("\\|", "|").strip() for cell in _BAR.split(inner)]


def _is_value(cell: str) -> bool:
    return is_number(cell) or (len(cell) == 10 and cell[4] == cell[7] == "-" and cell[:4].isdigit())
