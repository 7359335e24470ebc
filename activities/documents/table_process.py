"""Loads CSV files into a DuckDB file and describes them, in a limited child process.

Started by `activities.documents.index_build`. Later queries open the file read-only, which makes them start as fast
over large tables as over small ones.
"""

# ruff: noqa: S608 - names are made of letters, digits and `_` or quoted here; values are literals quoted here

from collections.abc import Collection, Sequence
from typing import Any, Final

import duckdb

from activities.documents.sql_names import LOCKED, quoted_name, quoted_text, sql_name
from activities.processes import limits

_MEMORY_BYTES: Final = 2 << 30
_FILE_BYTES: Final = 2 << 30
_MOST_EXAMPLES: Final = 20
_LONGEST_EXAMPLE: Final = 100
_MOST_COLUMNS: Final = 300
_EMPTY: Final = "['', 'N/A', 'n/a', 'NULL', 'null', '#N/A', '-']"
_CURRENCY: Final = "[$€£¥]|EUR|USD|GBP|CHF"
_SIGNED: Final = rf"\s*\(?[-+]?\s*({_CURRENCY})?\s*[-+]?"
_MONEY: Final = rf"{_SIGNED}(\d{{1,3}}([,'’]\d{{3}})+|\d+)(\.\d+)?\s*({_CURRENCY})?\)?\s*"
_COMMA_MONEY: Final = rf"{_SIGNED}([1-9]\d{{0,2}}([.\x{{a0}}\x{{202f}} ]\d{{3}})+|\d+)(,\d+)?\s*({_CURRENCY})?\)?\s*"
"""As written in French, German and Spanish; an ambiguous value is read like the rest of the table."""
_GROUPED: Final = rf"{_SIGNED}[1-9]\d{{0,2}}(\.\d{{3}})+\s*({_CURRENCY})?\)?\s*"
"""Either whole thousands or a number with three decimals."""
_WHOLE: Final = r"[1-9]\d{0,2}"
"""A value without decimals, which indicates that `1.240` in the same column has none either."""
_DECIMAL: Final = r"[-+]?(\d+\.\d{1,2}|0\.\d+)"


_connection: duckdb.DuckDBPyConnection | None = None


def load(question: dict[str, Any]) -> dict[str, Any]:
    """Load one CSV file as a table and return its rows and columns, or the problem."""
    global _connection  # noqa: PLW0603 - one child process loads all tables of one library
    if _connection is None:
        _connection = duckdb.connect(question["database"], config={**LOCKED, "memory_limit": "1GB"})
    if question.get("close"):
        _connection.close()
        return {}
    try:
        return _load(_connection, question)
    except (duckdb.Error, MemoryError) as error:
        _connection.execute(f'DROP TABLE IF EXISTS "{question["table"]}"')
        return {"problem": str(error).split("\n", 1)[0][:200]}


def _load(connection: duckdb.DuckDBPyConnection, question: dict[str, Any]) -> dict[str, Any]:
    table, path = question["table"], quoted_text(question["path"])
    header = f"header={str(question['header']).lower()}, nullstr={_EMPTY}, max_line_size=4000000, sample_size=-1"
    delimiter = f"{header}, delim={quoted_text(question['delimiter'])}"
    # Keep the cells of ragged lines, or else every value as text: dropping rows would give wrong sums.
    ragged = f"{delimiter}, null_padding=true, strict_mode=false"
    last = f"{ragged}, all_varchar=true"
    for options in (header, ragged, last):
        try:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE raw AS SELECT * FROM read_csv({path}, {options})")
        except duckdb.Error:
            if options == last:
                raise
            continue
        if options != header or not _is_undivided(connection, question["delimiter"]):
            break
    points = [title for title, kind in _kinds(connection) if kind == "DOUBLE"]
    if points:
        # `1.420` may mean 1,420.
        types = ", ".join(f"{quoted_text(title)}: 'VARCHAR'" for title in points)
        source = f"read_csv({path}, {options}, types={{{types}}})"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE raw AS SELECT * FROM {source}")
    try:
        described = connection.execute("DESCRIBE raw").fetchall()[:_MOST_COLUMNS]
        used_names: set[str] = set()
        named = [(title, sql_name(title, used_names, "column"), kind) for title, kind, *_ in described]
        selected, titles = _select(connection, named, used_names, points)
        connection.execute(f'CREATE TABLE "{table}" AS SELECT {selected} FROM raw')
    finally:
        connection.execute("DROP TABLE raw")
    return {
        "rows": _scalar(connection, f'SELECT count(*) FROM "{table}"'),
        "columns": _columns(connection, table, titles),
    }


def _select(
    connection: duckdb.DuckDBPyConnection, named: Sequence[tuple[str, str, str]], taken: set[str], points: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """Write columns and list titles with their currency; several currencies go into an additional column."""
    selected: list[str] = []
    titles: dict[str, str] = {}
    grouped = {title for title, _, kind in named if kind == "VARCHAR" and _is_grouped(connection, title)}
    has_commas = _has_decimal_commas(connection, [*grouped, *points])
    has_points = not has_commas and any(_count(connection, title, _DECIMAL) for title in points if title not in grouped)
    for title, name, kind in named:
        column, coins = quoted_name(title), list[str]()
        is_grouped = title in grouped and not has_points
        if title in points and not is_grouped:
            column = f"CAST({column} AS DOUBLE)"
        elif kind == "VARCHAR" and (not is_grouped or has_commas or _count(connection, title, _WHOLE)):
            column, coins = _expression(connection, title, has_commas=has_commas or is_grouped)
        selected.append(f'{column} AS "{name}"')
        is_named = len(coins) != 1 or coins[0].casefold() in title.casefold()
        titles[name] = title if is_named else f"{title} ({coins[0]})"
        if len(coins) > 1:
            beside = sql_name(f"{name} currency", taken, "column")
            selected.append(f'regexp_extract({quoted_name(title)}, {quoted_text(_CURRENCY)}) AS "{beside}"')
            titles[beside] = f"{title} currency"
    return ", ".join(selected), titles


def _is_undivided(connection: duckdb.DuckDBPyConnection, delimiter: str) -> bool:
    """Whether lines were not split into cells, which happens if their numbers of cells differ."""
    columns = connection.execute("DESCRIBE raw").fetchall()
    if len(columns) != 1:
        return False
    title = str(columns[0][0])
    result = connection.execute(
        f"SELECT count(*) FROM raw WHERE contains(CAST({quoted_name(title)} AS VARCHAR), $1)", [delimiter]
    )
    return delimiter in title or bool(result.fetchall()[0][0])


def _kinds(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    return [(str(title), str(kind)) for title, kind, *_ in connection.execute("DESCRIBE raw").fetchall()]


def _count(connection: duckdb.DuckDBPyConnection, title: str, form: str) -> int:
    return _scalar(
        connection, f"SELECT count(*) FILTER (regexp_full_match({quoted_name(title)}, {quoted_text(form)})) FROM raw"
    )


def _is_grouped(connection: duckdb.DuckDBPyConnection, title: str) -> bool:
    """Whether every point in a text column may be a thousands separator."""
    return 0 < _count(connection, title, _GROUPED) == _count(connection, title, "(?s).*\\..*")


def _has_decimal_commas(connection: duckdb.DuckDBPyConnection, others: Collection[str]) -> bool:
    """Whether some text column can only be read as amounts with decimal commas."""
    texts = [title for title, kind in _kinds(connection) if kind == "VARCHAR" and title not in others]
    for column in map(quoted_name, texts):
        matched = f"count(*) FILTER (regexp_full_match({column}, $1))"
        counted = f"SELECT count({column}), {matched}, {matched.replace('$1', '$2')} FROM raw"
        values, with_commas, with_points = connection.execute(counted, [_COMMA_MONEY, _MONEY]).fetchall()[0]
        if with_points < values == with_commas:
            return True
    return False


def _expression(connection: duckdb.DuckDBPyConnection, title: str, *, has_commas: bool) -> tuple[str, list[str]]:
    """Write a column as a number if all its values are numbers or amounts, and list its currencies."""
    column = quoted_name(title)
    forms = (_COMMA_MONEY, _MONEY) if has_commas else (_MONEY, _COMMA_MONEY)
    point = f"regexp_replace({column}, '[^0-9.]', '', 'g')"
    comma = f"replace(regexp_replace({column}, '[^0-9,]', '', 'g'), ',', '.')"
    currency = f"nullif(regexp_extract({column}, $2), '')"
    for form in forms:
        digits = point if form == _MONEY else comma
        amounts, values, plain, currencies, priced = connection.execute(
            f"SELECT count(*) FILTER (regexp_full_match({column}, $1)), count({column}),"
            f" count(*) FILTER (regexp_full_match({column}, '0\\d+')),"
            f" list(DISTINCT {currency}) FILTER ({currency} IS NOT NULL), count({currency}) FROM raw",
            [form, _CURRENCY],
        ).fetchall()[0]
        if 0 < values == amounts and not plain and (not currencies or len(currencies) == 1 or priced == values):
            sign = f"CASE WHEN {column} SIMILAR TO '.*[-(].*' THEN -1 ELSE 1 END"
            return f"{sign} * CAST({digits} AS DOUBLE)", currencies or []
    return column, []


def _columns(connection: duckdb.DuckDBPyConnection, table: str, titles: dict[str, str]) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    for name, kind, *_ in connection.execute(f'DESCRIBE "{table}"').fetchall():
        examples = connection.execute(
            f'SELECT left(CAST("{name}" AS VARCHAR), {_LONGEST_EXAMPLE}) FROM "{table}" WHERE "{name}" IS NOT NULL'
            f' GROUP BY "{name}" ORDER BY count(*) DESC, "{name}" LIMIT {_MOST_EXAMPLES}'
        ).fetchall()
        distinct = _scalar(connection, f'SELECT count(DISTINCT "{name}") FROM "{table}"')
        columns.append(
            {
                "name": name,
                "type": str(kind),
                "title": titles[name],
                "examples": [value for (value,) in examples],
                "distinct": distinct,
            }
        )
    return columns


def _scalar(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, _FILE_BYTES)
    limits.serve(load)
