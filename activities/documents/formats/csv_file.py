"""Reads CSV and TSV files line by line, without ever holding a large table in memory."""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final

from activities.documents.formats.encoding import Encoding, encoding_of, unicode_of
from activities.documents.formats.plain_text import NOT_TEXT, decode, line_parts
from activities.documents.parsed import Block, NotADocumentError, Parsed, Sheet, Source, UnreadableError
from activities.documents.sheets import header_at, is_number, notes_below
from activities.processes.limits import Allowance

_MOST_INDEXED_LINES: Final = 5_000
_MOST_READABLE_LINES: Final = 20_000
_MOST_READABLE_CHARACTERS: Final = 20_000_000
_LONGEST_LINE: Final = 1_000_000
_SAMPLE_BYTES: Final = 65_536
_SAMPLE_LINES: Final = 100
_LINES_A_PIECE: Final = 5_000
_MOST_NOTES: Final = 20
_SEPARATOR: Final = re.compile(r"sep=(.)")
"""A first line that tells Excel the table's separator."""


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Copy a table as UTF-8 and index its first lines."""
    path, csv_path = source.path, source.tables.with_name(f"{source.tables.name}-0.csv")
    with path.open("rb") as file:
        sample = file.read(_SAMPLE_BYTES)
    if decode(sample) is None:
        raise NotADocumentError(NOT_TEXT)
    encoding = unicode_of(sample)
    try:
        return _parse(allowance.over(_lines(path, encoding), _LINES_A_PIECE), csv_path)
    except UnicodeDecodeError:
        with path.open("rb") as file:
            lines = iter(lambda: file.readline(_LONGEST_LINE), b"")
            encoding = encoding_of(sample, allowance.over(lines, _LINES_A_PIECE))
    parsed = _parse(allowance.over(_lines(path, encoding, "replace"), _LINES_A_PIECE), csv_path)
    parsed.unread = encoding.doubt
    return parsed


def _lines(path: Path, encoding: Encoding, errors: str = "strict") -> Iterator[str]:
    with path.open(encoding=encoding.name, errors=errors) as file:
        while line := file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise UnreadableError("It has a line of more than a million characters: it is not a readable table.")
            yield line.rstrip("\n")


def _parse(lines: Iterator[str], csv_path: Path) -> Parsed:
    """Copy the table, and index the first lines; lines above and below the table are text."""
    top = list(islice(lines, _SAMPLE_LINES))
    separator = _SEPARATOR.fullmatch(top[0]) if top else None
    delimiter = separator[1] if separator else max(",;\t|", key=lambda mark: _fit(top, mark))
    rows = [_cells(line, delimiter) for line in top]
    above = bool(separator) + _lines_above(rows[bool(separator) :])
    titles, values = [*rows[above : above + 2], [""], [""]][:2]
    first_lines, last = list[str](), deque[str]()
    number = count = length = 0
    with csv_path.open("w", encoding="utf-8", newline="\n") as copy:
        for number, line in enumerate(chain(top, lines), 1):
            last += [line] if number > above else []
            if len(last) > _MOST_NOTES:
                copy.write(last.popleft() + "\n")
            length += len(line) + 1
            if number <= _MOST_READABLE_LINES and length <= _MOST_READABLE_CHARACTERS:
                first_lines.append(line)
            if line.strip():
                count = number
        is_quoted = any(line.count('"') % 2 for line in last)  # a quoted cell may span several lines
        below = 0 if is_quoted else notes_below([_cells(line, delimiter) for line in last], len(titles))
        copy.writelines(line + "\n" for line in [*last][: len(last) - below])
    first_lines = first_lines[:count]
    if not first_lines:
        raise UnreadableError("The file is empty.")
    are_titles = len(set(titles)) == len(titles) or any(map(is_number, values))
    has_header = all(titles) and are_titles and not any(map(is_number, titles))
    heading = ", ".join(titles)[:300] if has_header else ""
    return Parsed(
        unit="line",
        units=number - below - above - has_header,
        blocks=[
            Block(line, at, at, heading, "table") if above < at <= number - below else Block(line, at, at)
            for at, line in enumerate(first_lines[:_MOST_INDEXED_LINES], 1)
            if line.strip()
        ],
        parts=line_parts(first_lines),
        headings=[heading] if heading else [],
        sheets=[Sheet("", str(csv_path), delimiter, has_header)],
    )


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for row in csv.reader([line], delimiter=delimiter) for cell in row]


def _fit(lines: Sequence[str], delimiter: str) -> tuple[int, int]:
    """Return how many lines a delimiter divides into equally many cells, and how many cells that is."""
    counts = Counter(len(_cells(line, delimiter)) for line in lines)
    return max(((lines, cells) for cells, lines in counts.items() if cells > 1), default=(0, 0))


def _lines_above(rows: Sequence[Sequence[str]]) -> int:
    """Count the lines above the titles, unless one of them has as many cells."""
    at = header_at(rows) or 0
    filled = [sum(map(bool, row)) for row in rows[: at + 1]]
    return at if max(filled[:at], default=0) < max(filled[at:], default=0) else 0
