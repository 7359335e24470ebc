"""Reads XLSX, XLS and ODS workbooks: every sheet with a table becomes a CSV file."""

import datetime
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from activities.documents.formats.grid import FIGURE, row_text
from activities.documents.parsed import Block, Parsed, Part, Source, UnreadableError
from activities.documents.sheets import header_at, notes_below, write_sheet
from activities.processes.limits import Allowance

MOST_INDEXED_ROWS: Final = 5_000
_MOST_READABLE_ROWS: Final = 20_000
_PART_ROWS: Final = 100
_ROWS_A_PIECE: Final = 500
_WITH_CELLS: Final = re.compile(r"content\.xml|xl/worksheets/[^/]+\.xml")
_FORMULA: Final = re.compile(
    rb'<table:table-cell(?=[^>]*\btable:formula=)(?:(?=[^>]*\bcalcext:value-type="(error)"))?'
    rb"[^>]*?(?:\boffice:(?:\w+-)?(value=)[^>]*>|/>|>(?=(<)text:p)?)"
    rb'|<(?:\w+:)?c (?![^>]*\bt="str")[^>]*>\s*<(?:\w+:)?f\b[^>]*?(?:/>|>[^<]*<[^>]*>)\s*(?:<(?:\w+:)?v>([^<]*))?'
)
"""A formula of an ODS or XLSX file with the value stored with it; an empty text is a valid result."""
_OLD_FORMULA: Final = re.compile(rb"\x06\x00(?=(..).{6}(.{8}).{6}(..))", re.DOTALL)
"""Possible start of a FORMULA record in an XLS file: its size, its result, and the size of its formula."""
_OLD_RECORD_BYTES: Final = 22
_SAVE: Final = "Open it in a spreadsheet program and save it."

Cell = int | float | str | bool | datetime.time | datetime.date | datetime.datetime | datetime.timedelta


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Read every sheet."""
    import python_calamine

    try:
        workbook = python_calamine.CalamineWorkbook.from_path(source.path)  # pyright: ignore[reportUnknownMemberType] - its stub says PathLike of nothing
    except python_calamine.PasswordError as error:
        raise UnreadableError("It is protected by a password: save a copy without one.") from error
    except (python_calamine.CalamineError, ValueError, OSError) as error:
        raise UnreadableError("It is not a readable workbook: the file is broken or of another format.") from error
    without = _without_result(source.path)
    parsed = Parsed(unit="row", units=0, unread=f"formulas without a result: {without:,}. {_SAVE}" if without else "")
    for index, name in enumerate(workbook.sheet_names):
        try:
            sheet = workbook.get_sheet_by_name(name)
        except python_calamine.CalamineError:
            continue  # a chart or macro sheet
        if sheet.start is None:
            continue
        allowance.note()
        cells = sheet.to_python(skip_empty_area=True)
        rows = [[_text(cell) for cell in row] for row in allowance.over(cells, _ROWS_A_PIECE)]
        _repeat_merged(rows, allowance.over(sheet.merged_cell_ranges or (), _ROWS_A_PIECE), sheet.start)
        csv_path = source.tables.with_name(f"{source.tables.name}-{index}.csv")
        _add_sheet(parsed, name, rows, sheet.start[0] + 1, csv_path)
    if not parsed.units:
        raise UnreadableError("All its sheets are empty.")
    return parsed


def _without_result(path: Path) -> int:
    """Count the formulas without a result or with an error. Raises `UnreadableError` if all have 0 instead."""
    if not zipfile.is_zipfile(path):
        return _without_result_in_old(path.read_bytes())
    stored = Counter[bytes]()
    with zipfile.ZipFile(path) as archive:
        for file in filter(_WITH_CELLS.fullmatch, archive.namelist()):
            formulas = _FORMULA.finditer(archive.read(file))
            stored.update(next(filter(None, each.groups()), b"") for each in formulas)
        is_due = "xl/workbook.xml" in archive.namelist() and b'fullCalcOnLoad="1"' in archive.read("xl/workbook.xml")
    if is_due and stored[b"0"] and not stored.keys() - {b"", b"0"}:
        raise UnreadableError(f"None of its formulas has been computed. {_SAVE}")
    errors = sum(count for result, count in stored.items() if result.startswith((b"#", b"error")))
    return stored[b""] + errors + is_due * stored[b"0"]


def _without_result_in_old(content: bytes) -> int:
    """Count the formulas of an XLS if every result is empty or 0: then no program has computed them."""
    number = partial(int.from_bytes, byteorder="little")
    formulas = (each.groups() for each in _OLD_FORMULA.finditer(content))
    results = [result for size, result, inner in formulas if number(size) - number(inner) == _OLD_RECORD_BYTES]
    return 0 if {*results} - {bytes(8), b"\3\0\0\0\0\0\xff\xff"} else len(results)


def _text(cell: Cell) -> str:
    """Format a cell for a CSV file."""
    match cell:
        case bool():
            return "true" if cell else "false"
        case float():
            return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
        case datetime.datetime():
            return cell.date().isoformat() if cell.time() == datetime.time() else cell.isoformat(" ")
        case datetime.date() | datetime.time():
            return cell.isoformat()
        case _:
            return str(cell).strip()


def _repeat_merged(
    rows: list[list[str]], ranges: Iterable[tuple[tuple[int, int], tuple[int, int]]], start: tuple[int, int]
) -> None:
    """Repeat a merged cell's words in each of its rows; leave a figure in the first only, to be summed once."""
    for (first, column), (last, _) in ranges:
        at, place = first - start[0], column - start[1]
        if 0 <= at < len(rows) and 0 <= place < len(rows[at]) and not FIGURE.match(rows[at][place]):
            for row in rows[at + 1 : last - start[0] + 1]:
                row[place] = rows[at][place]


def _add_sheet(parsed: Parsed, name: str, rows: list[list[str]], first_row: int, csv_path: Path) -> None:
    numbered = [(first_row + at, row) for at, row in enumerate(rows) if any(row)]
    if not numbered:
        return
    parsed.headings.append(name)
    parsed.units += len(numbered)
    titled = header_at([row for _, row in numbered])
    header = numbered[titled][1] if titled is not None else []
    data = numbered[titled + 1 :] if titled is not None else numbered
    end = numbered[-1][0] + 1 - notes_below(rows[numbered[0][0] - first_row :], len([*filter(None, header)]))
    data = [(number, row) for number, row in data if number < end or titled is None]
    used = [column for column in range(len(numbered[0][1])) if any(row[column] for _, row in data)]
    if data and (len(used) > 1 or len(data) > 1):
        titles_row = [header[column] if header else "" for column in used]
        cells = [[row[column] for column in used] for _, row in data]
        parsed.sheets.append(write_sheet(name, titles_row, cells, csv_path))
    titles = ", ".join(header[column] for column in used if header and header[column])[:300]
    heading = f"{name} > {titles}" if titles else name
    filled = [column for column in range(len(numbered[0][1])) if any(row[column] for _, row in numbered)]
    shown = [(number, [row[column] for column in filled]) for number, row in numbered[:_MOST_READABLE_ROWS]]
    lines = [(number, row_text(row).rstrip("| ")) for number, row in shown]
    parsed.blocks.extend(
        Block(line, number, number, heading, "table", name) for number, line in lines[:MOST_INDEXED_ROWS]
    )
    for chunk in _runs(lines):
        text = "\n".join(f"{number}: {line}" for number, line in chunk)
        parsed.parts.append(Part(chunk[0][0], chunk[-1][0], text, name))


def _runs(lines: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield runs of rows without an empty row, in which each line is one row."""
    run: list[tuple[int, str]] = []
    for number, line in lines:
        if run and (number != run[-1][0] + 1 or len(run) == _PART_ROWS):
            yield run
            run = []
        run.append((number, line))
    if run:
        yield run
