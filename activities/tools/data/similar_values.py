"""Values that a query's literals match but for case, accents or blanks around them. Runs in the child of a query."""

import re
import time
from collections.abc import Iterator
from typing import Any, Final

from activities.documents.sql_names import quoted_name

_LITERAL: Final = re.compile(r"'((?:[^']|''){2,200})'")
_MOST_LITERALS: Final = 10
_MOST_COLUMNS: Final = 40
_MOST_HINTS: Final = 5
_SECONDS: Final = 1.0
_COLUMNS: Final = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE data_type = 'VARCHAR' AND contains(lower(?), lower(table_name)) LIMIT ?"
)


def similar_values(connection: Any, sql: str) -> list[str]:
    """Describe values of the tables of a statement that finds nothing, such as `city 'Zürich' instead of 'zurich'`."""
    literals = list(dict.fromkeys(text.replace("''", "'") for text in _LITERAL.findall(sql)))[:_MOST_LITERALS]
    if not literals:
        return []
    columns = connection.execute(_COLUMNS, [sql, _MOST_COLUMNS]).fetchall()
    until = time.process_time() + _SECONDS
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
    found = connection.execute(
        f"SELECT DISTINCT {named} FROM {source} WHERE lower(strip_accents(trim({named}))) {like}"  # noqa: S608  # quoted
        f" lower(strip_accents(trim(?))) AND NOT {named} {like} ? LIMIT 2",
        [literal, literal],
    )
    yield from (str(value)[:100] for (value,) in found.fetchall())
