"""Reads JSON as text; an array of flat objects, or a file with one object per line, is also a table."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, cast

from activities.documents.formats.plain_text import parse_text, read_text
from activities.documents.parsed import Parsed, Source
from activities.documents.sheets import write_sheet
from activities.processes.limits import Allowance

_ROWS_A_PIECE: Final = 1_000


def parse(source: Source, allowance: Allowance) -> Parsed:
    text, doubt = read_text(source.path)
    parsed = parse_text(text, source.name)
    parsed.unread = doubt
    with suppress(ValueError, RecursionError, MemoryError):
        rows = [dict(_values(row)) for row in allowance.over(_objects(text), _ROWS_A_PIECE)]
        titles = [*dict.fromkeys(title for row in rows for title in row)]
        if titles:
            cells = [[row.get(title, "") for title in titles] for row in rows]
            parsed.sheets.append(write_sheet("", titles, cells, source.tables.with_name(f"{source.tables.name}-0.csv")))
    return parsed


def _objects(text: str) -> list[Any]:
    """List the objects of a file, or those in its only list. Raises `ValueError`."""
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    values = [*cast("dict[str, Any]", whole).values()] if isinstance(whole, dict) else [whole]
    lists = [cast("list[Any]", value) for value in values if isinstance(value, list)]
    return lists[0] if len(lists) == 1 else []


def _values(row: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield titles, prefixed with those of enclosing objects, and values. Raises `ValueError` for a list."""
    if not isinstance(row, dict):
        raise ValueError(row)
    for title, value in cast("dict[str, Any]", row).items():
        if isinstance(value, dict):
            yield from _values(value, f"{above}{title} ")
        elif isinstance(value, list) and value:
            raise ValueError(title)
        else:
            is_blank = value is None or isinstance(value, list)
            yield f"{above}{title}", "" if is_blank else value if isinstance(value, str) else json.dumps(value)
