"""Read CSV and TSV files line by line, so that a large table is never in memory as a whole."""

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.documents.formats.plain_text import NOT_TEXT, decode, line_parts
from activities.documents.parsed import Block, NotADocumentError, Parsed, Sheet, Source, UnreadableError
from activities.documents.sheets import is_number
from activities.processes.limits import Allowance

_MOST_INDEXED_LINES: Final = 5_000
_MOST_READABLE_LINES: Final = 20_000
_MOST_READABLE_CHARACTERS: Final = 20_000_000
_LONGEST_LINE: Final = 1_000_000
_SAMPLE_BYTES: Final = 65_536
_LINES_A_PIECE: Final = 5_000
_SEPARATOR: Final = re.compile(r"sep=(.)")
"""The line by which a table tells Excel what parts its columns."""


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Copy a table as UTF-8 and index its first lines."""
    path, csv_path = source.path, source.tables.with_name(f"{source.tables.name}-0.csv")
    with path.open("rb") as file:
        sample = file.read(_SAMPLE_BYTES)
    if decode(sample) is None:
        raise NotADocumentError(NOT_TEXT)
    encodings = ["utf-16"] if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            return _parse(allowance.over(_lines(path, encoding), _LINES_A_PIECE), csv_path)
        except UnicodeDecodeError:
            continue
    raise NotADocumentError(NOT_TEXT)


def _lines(path: Path, encoding: str) -> Iterator[str]:
    errors = "replace" if encoding == "cp1252" else "strict"
    with path.open(encoding=encoding, errors=errors) as file:
        while line := file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise UnreadableError("It has a line of more than a million characters: it is not a readable table.")
            yield line.rstrip("\n")


def _parse(lines: Iterator[str], csv_path: Path) -> Parsed:
    first_lines: list[str] = []
    count = length = 0
    said = ""
    with csv_path.open("w", encoding="utf-8", newline="\n") as copy:
        for number, line in enumerate(lines, 1):
            if number == 1 and (found := _SEPARATOR.fullmatch(line)):
                said = found[1]
            else:
                copy.write(line + "\n")
            length += len(line) + 1
            if number <= _MOST_READABLE_LINES and length <= _MOST_READABLE_CHARACTERS:
                first_lines.append(line)
            if line.strip():
                count = number
    first_lines = first_lines[:count]
    if not first_lines:
        raise UnreadableError("The file is empty.")
    top, *below = [*first_lines[bool(said) : 2 + bool(said)], ""]
    delimiter = said or max(",;\t|", key=top.count)
    titles, values = ([cell.strip().strip('"') for cell in line.split(delimiter)] for line in (top, below[0]))
    are_titles = len(set(titles)) == len(titles) or any(map(is_number, values))
    has_header = all(titles) and are_titles and not any(map(is_number, titles))
    heading = ", ".join(titles)[:300] if has_header else ""
    indexed = first_lines[:_MOST_INDEXED_LINES]
    parsed = Parsed(
        unit="line",
        units=count - has_header - bool(said),
        blocks=[Block(line, at, at, heading, "table") for at, line in enumerate(indexed, 1) if line.strip()],
        parts=line_parts(first_lines),
        headings=[heading] if heading else [],
    )
    parsed.sheets.append(Sheet("", str(csv_path), delimiter, has_header))
    return parsed
