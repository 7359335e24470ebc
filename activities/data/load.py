"""Load a session's tables into one DuckDB file, by a limited child process."""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from activities.documents.catalog import Column, Table
from activities.child_process import ChildError, ChildProcess, ChildTimeoutError

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
    """Loads tables one after the other. Use as an async context manager: entering starts the child."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._child: ChildProcess | None = None

    async def __aenter__(self) -> Self:
        self._child = await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            await self._child.__aexit__(kind, error, trace)

    async def load(self, source: TableSource) -> Table | str:
        """Load one table; its problem if it cannot be loaded."""
        if self._child is None:
            self._child = await self._start()
        question = {
            "database": str(self._database),
            "table": source.table,
            "path": str(source.path),
            "delimiter": source.delimiter,
            "header": source.header,
            "processor_seconds": _SECONDS_A_TABLE,
        }
        try:
            answer = await self._child.ask(question, _SECONDS_A_TABLE)
        except ChildTimeoutError:
            self._child = None
            return f"the table takes longer than {_SECONDS_A_TABLE} s to load: split it"
        except ChildError:
            self._child = None
            return "the table needs more memory than a table may: split it"
        if problem := answer.get("problem"):
            return f"the table cannot be loaded: {problem}"
        return _table(source, answer)

    async def finish(self) -> None:
        """Close the database, so that it can be opened read-only."""
        if self._child is None:
            self._child = await self._start()
        await self._child.ask({"database": str(self._database), "close": True}, _SECONDS_A_TABLE)

    async def _start(self) -> ChildProcess:
        return await ChildProcess("activities.data.load_process").__aenter__()


def _table(source: TableSource, answer: dict[str, Any]) -> Table:
    return Table(
        name=source.table,
        document=source.document,
        sheet=source.sheet,
        rows=answer["rows"],
        columns=tuple(Column.model_validate(column) for column in answer["columns"]),
    )
