"""Load the tables of a session into one DuckDB file, in a limited child process."""

from pathlib import Path
from typing import Final, NamedTuple

from activities.documents.catalog import Column, Table
from activities.processes.child import ChildError, ChildProcess, ChildTimeoutError

_SECONDS_A_TABLE: Final = 30
"""Processor time for one table."""
_BUSY: Final = 4
"""Wall-clock time allowed for each second of processor time: a table lost on a busy machine stays lost."""


class TableSource(NamedTuple):
    """A CSV file that becomes a table."""

    table: str
    document: str
    sheet: str
    path: Path
    delimiter: str
    header: bool


async def load_table(child: ChildProcess, database: Path, source: TableSource) -> Table | str:
    """Load one table; returns its problem if it cannot be loaded."""
    question = {
        "database": str(database),
        "table": source.table,
        "path": str(source.path),
        "delimiter": source.delimiter,
        "header": source.header,
        "processor_seconds": _SECONDS_A_TABLE,
    }
    try:
        answer = await child.ask(question, _BUSY * _SECONDS_A_TABLE)
    except ChildTimeoutError:
        return f"the table takes longer than {_BUSY * _SECONDS_A_TABLE} s to load: split it"
    except ChildError:
        return "the table needs more memory or time than a table may: split it"
    if problem := answer.get("problem"):
        return f"the table cannot be loaded: {problem}"
    return Table(
        name=source.table,
        document=source.document,
        sheet=source.sheet,
        rows=answer["rows"],
        columns=tuple(Column.model_validate(column) for column in answer["columns"]),
    )


async def close_database(child: ChildProcess, database: Path) -> None:
    """Close the database, so that it can be opened read-only."""
    await child.ask({"database": str(database), "close": True}, _BUSY * _SECONDS_A_TABLE)
