"""Load the tables of a session into one DuckDB file, in a limited child process."""

from pathlib import Path
from typing import Final, NamedTuple

from activities.child_process import ChildError, ChildProcess, ChildTimeoutError
from activities.documents.catalog import Column, Table

_SECONDS_A_TABLE: Final = 30


class TableSource(NamedTuple):
    """A CSV file that becomes a table."""

    table: str
    document: str
    sheet: str
    path: Path
    delimiter: str
    header: bool


class TableLoader:
    """Loads tables one after the other, by a child process that the caller starts and closes."""

    def __init__(self, child: ChildProcess, database: Path) -> None:
        self._child = child
        self._database = str(database)

    async def load(self, source: TableSource) -> Table | str:
        """Load one table; returns its problem if it cannot be loaded."""
        question = {
            "database": self._database,
            "table": source.table,
            "path": str(source.path),
            "delimiter": source.delimiter,
            "header": source.header,
            "processor_seconds": _SECONDS_A_TABLE,
        }
        try:
            answer = await self._child.ask(question, _SECONDS_A_TABLE)
        except ChildTimeoutError:
            return f"the table takes longer than {_SECONDS_A_TABLE} s to load: split it"
        except ChildError:
            return "the table needs more memory than a table may: split it"
        if problem := answer.get("problem"):
            return f"the table cannot be loaded: {problem}"
        return Table(
            name=source.table,
            document=source.document,
            sheet=source.sheet,
            rows=answer["rows"],
            columns=tuple(Column.model_validate(column) for column in answer["columns"]),
        )

    async def finish(self) -> None:
        """Close the database, so that it can be opened read-only."""
        await self._child.ask({"database": self._database, "close": True}, _SECONDS_A_TABLE)
