"""Runs one SELECT over a session's tables, in a child process that is used only once.

Started by `activities.tools.data.query`. DuckDB is locked down, but some of its functions exceed their memory limit or
ignore interrupts. Therefore the process has its own limit, and its parent kills it when time is up.
"""

import datetime
import decimal
import json
import math
import re
import time
from collections.abc import Iterator
from typing import Any, Final

try:
    # The compiled half of duckdb loads in a quarter of the time of the whole package, and every query pays for it.
    import _duckdb as duckdb
except ImportError:
    import duckdb

from activities.documents.sql_names import LOCKED, quoted_name
from activities.processes import limits
from activities.tools.data.query_words import query_words

_MEMORY_BYTES: Final = 1 << 30
_COUNTED_ROWS: Final = 1_000_000
_LONGEST_CELL: Final = 500
"""Maximum characters of a cell that are passed to a model."""
_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    **LOCKED,
    "memory_limit": "512MB",
    "enable_external_access": "false",
}
_LITERAL: Final = re.compile(r"'((?:[^']|''){2,200})'")
_MOST_LITERALS: Final = 10
_MOST_COLUMNS: Final = 40
_MOST_HINTS: Final = 5
_HINT_SECONDS: Final = 1.0
_COLUMNS: Final = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE data_type = 'VARCHAR' AND contains(lower(?), lower(table_name)) LIMIT ?"
)


def query(question: dict[str, Any]) -> dict[str, Any]:
    """Answer one SELECT with its first rows and the row count, or with the error."""
    try:
        selected = select(question["database"], question["sql"], question["most_rows"])
    except RefusedError as error:
        return {"error": str(error)}
    longest = question.get("longest_cell", _LONGEST_CELL)
    return selected | {"rows": [[json_value(cell, longest) for cell in row] for row in selected["rows"]]}


class RefusedError(Exception):
    """The statement is not allowed, or it failed; the message is for the agent."""


def select(database: str, sql: str, most_rows: int) -> dict[str, Any]:
    """Run one SELECT: `columns`, the first `rows` as DuckDB gives them, `row_count`, `is_exact`, `hints`."""
    try:
        return _select(database, sql, most_rows)
    except duckdb.Error as error:
        raise RefusedError(str(error)) from error
    except MemoryError as error:
        raise RefusedError("Out of Memory Error: the query needs more memory than it may use") from error


def _select(database: str, sql: str, most_rows: int) -> dict[str, Any]:
    connection = duckdb.connect(database, read_only=True, config=_CONFIG)
    connection.execute("SET lock_configuration = true")
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise RefusedError(f"Write exactly one statement; there are {len(statements)}.")
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = str(statements[0].type).rpartition(".")[2]
        raise RefusedError(f"Only SELECT is allowed, not {kind}. For a pivot use CASE WHEN or FILTER.")
    cursor = connection.execute(statements[0])
    columns = [str(column[0]) for column in cursor.description or ()]
    rows = cursor.fetchmany(most_rows)
    count = len(rows)
    if count == most_rows:
        while count < _COUNTED_ROWS and (more := cursor.fetchmany(10_000)):
            count += len(more)
    return {
        "columns": columns,
        "rows": rows,
        "row_count": count,
        "is_exact": count < _COUNTED_ROWS,
        "hints": _hints(connection, sql) if _says_nothing(rows) else [],
        "about": _about(connection, sql),
    }


def _hints(connection: Any, sql: str) -> list[str]:
    try:
        return _similar_values(connection, sql)
    except duckdb.Error:
        return []


def _similar_values(connection: Any, sql: str) -> list[str]:
    """List similar values for a statement that finds nothing, such as `city 'Zürich' instead of 'zurich'`."""
    literals = list(dict.fromkeys(text.replace("''", "'") for text in _LITERAL.findall(sql)))[:_MOST_LITERALS]
    if not literals:
        return []
    columns = connection.execute(_COLUMNS, [sql, _MOST_COLUMNS]).fetchall()
    until = time.process_time() + _HINT_SECONDS
    hints: list[str] = []
    for literal in literals:
        for table, column in columns:
            if len(hints) >= _MOST_HINTS or time.process_time() > until:
                return hints
            hints += [
                f"{column} '{value}' instead of '{literal}'" for value in _matches(connection, table, column, literal)
            ]
    return hints


def _matches(connection: Any, table: str, column: str, literal: str) -> Iterator[str]:
    named, source = quoted_name(column), quoted_name(table)
    like = "LIKE" if "%" in literal else "="
    rows = connection.execute(
        f"SELECT DISTINCT {named} FROM {source} WHERE lower(strip_accents(trim({named}))) {like}"  # noqa: S608  # quoted
        f" lower(strip_accents(trim(?))) AND NOT {named} {like} ? LIMIT 2",
        [literal, literal],
    )
    yield from (str(value)[:100] for (value,) in rows.fetchall())


def _about(connection: Any, sql: str) -> tuple[list[str], str]:
    try:
        return query_words(connection, sql)
    except (duckdb.Error, LookupError, TypeError, ValueError, RecursionError):
        return [], ""  # this form of statement has no description


def _says_nothing(rows: list[tuple[object, ...]]) -> bool:
    """Whether there are no rows, or a single row of zeros and missing values, such as a sum over no rows."""
    return not rows or (len(rows) == 1 and all(cell is None or cell == 0 for cell in rows[0]))


def json_value(cell: object, longest: int = _LONGEST_CELL) -> Any:  # noqa: PLR0911 - a table of types
    """Convert a cell to JSON."""
    match cell:
        case None | bool() | int():
            return cell
        case float():
            # The sixteenth digit of a sum of amounts is noise: readers expect 0.1 + 0.2 to be 0.3.
            return float(f"{cell:.15g}") if math.isfinite(cell) else str(cell)
        case decimal.Decimal():
            return int(cell) if cell == cell.to_integral_value() and cell.as_tuple().exponent == 0 else float(cell)
        case datetime.datetime():
            return cell.isoformat(" ")
        case datetime.date() | datetime.time():
            return cell.isoformat()
        case bytes():
            return cell[:longest].hex()
        case str():
            return cell if len(cell) <= longest else cell[:longest] + "…"
        case list() | tuple() | dict():
            text = json.dumps(cell, default=str, ensure_ascii=False)
            return text if len(text) <= longest else text[:longest] + "…"
        case _:
            return str(cell)[:longest]


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, 0)
    limits.serve(query)
