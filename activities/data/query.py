"""The tool `query_data`: SQL over the session's tables."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from activities.child_process import ChildError, ChildProcess, ChildTimeoutError
from activities.documents.catalog import Table
from activities.documents.library import DocumentLibrary, OpenLibrary
from activities.tools import (
    OUTPUT_CAP_CHARACTERS,
    READS_DOCUMENTS,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    failed,
    object_schema,
)
from chargehand.contracts import Source

_MOST_ROWS: Final = 50
_LONGEST_STATEMENT: Final = 10_000
_LONGEST_ERROR: Final = 600
_LONGEST_SCHEMA: Final = 1_500
_TOO_MUCH_MEMORY: Final = "The query needs more memory than it may use: select less, or filter before joining."
# Rows are returned twice, as values and as a quotation.
_LONGEST_ROWS: Final = OUTPUT_CAP_CHARACTERS * 45 // 100


class QueryData:
    """Runs one SELECT over the session's tables."""

    capabilities = READS_DOCUMENTS
    spec = ToolSpec(
        name="query_data",
        description=(
            "Ask the user's tables in SQL (DuckDB): one SELECT statement over the tables listed with the documents. "
            f"The first {_MOST_ROWS} rows come back, and `row_count` says how many there are: aggregate and sort "
            "in SQL. It calculates too: SELECT 1250 * 1.19."
        ),
        parameters=object_schema(
            sql={
                "type": "string",
                "description": "One SELECT statement. Names of tables and columns are written as listed.",
            },
        ),
    )

    def __init__(self, library: DocumentLibrary, timeout_seconds: float = 10.0) -> None:
        self._library = library
        self._timeout_seconds = timeout_seconds

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        library = await self._library.open(context.documents)
        selected = await select_rows(
            "activities.data.query_process", library, arguments.get("sql"), self._timeout_seconds
        )
        if isinstance(selected, str):
            return failed(selected)
        return ToolAnswer(output=selected.output, sources=(selected.source,))


class Selection(NamedTuple):
    """The rows of a SELECT, as tool output and as a source, and the whole answer of the child process."""

    output: dict[str, JsonValue]
    source: Source
    answer: dict[str, Any]


async def select_rows(
    module: str, library: OpenLibrary, sql: JsonValue, timeout_seconds: float, **more: JsonValue
) -> Selection | str:
    """Run one SELECT over the library's tables in a child process; returns the error for the agent if it fails."""
    if not isinstance(sql, str) or not sql.strip() or len(sql) > _LONGEST_STATEMENT:
        return f"`sql` must be one SELECT statement of at most {_LONGEST_STATEMENT:,} characters."
    if library.database is None:
        return "This session has no tables: none of its documents is a CSV file or a workbook."
    question: dict[str, Any] = {
        "database": str(library.database),
        "sql": sql,
        "most_rows": _MOST_ROWS,
        "processor_seconds": int(timeout_seconds * 2) + 1,
        **more,
    }
    try:
        async with ChildProcess(module) as child:
            answer = await child.ask(question, timeout_seconds)
    except ChildTimeoutError:
        answer = {"error": f"The query took longer than {timeout_seconds:g} s: select less, or filter before joining."}
    except ChildError:
        answer = {"error": _TOO_MUCH_MEMORY}
    if error := answer.get("error"):
        return f"{_shortened(str(error))}\nThe tables are: {_schemas(library.catalog.tables)}"
    output, source = _present(sql, answer)
    return Selection(output, source, answer)


def _present(sql: str, answer: dict[str, Any]) -> tuple[dict[str, JsonValue], Source]:
    """Return the rows as tool output and as a source."""
    columns: list[str] = answer["columns"]
    rows, lines = _fit(columns, answer["rows"])
    output: dict[str, JsonValue] = {"columns": list(columns), "rows": list(rows), "row_count": answer["row_count"]}
    if not answer["is_exact"]:
        output["note"] = "There are more rows than `row_count`; they were not counted to the end."
    if len(rows) < answer["row_count"]:
        lines.append(f"… {answer['row_count']:,} rows")
    ref = f"sql:{hashlib.sha256(sql.encode()).hexdigest()[:8]}"
    return output, Source(ref=ref, title=sql, quote="\n".join(lines))


def _fit(columns: list[str], rows: list[list[JsonValue]]) -> tuple[list[list[JsonValue]], list[str]]:
    """As many rows as the output may have, and the same as a compact text table."""
    lines = [" | ".join(columns)]
    values_length = text_length = len(lines[0])
    fitting: list[list[JsonValue]] = []
    for row in rows:
        line = " | ".join("" if cell is None else str(cell) for cell in row)
        values_length += len(json.dumps(row, ensure_ascii=False)) + 2
        text_length += len(line) + 1
        if max(values_length, text_length) > _LONGEST_ROWS:
            break
        fitting.append(row)
        lines.append(line)
    return fitting, lines


def _shortened(error: str) -> str:
    """DuckDB's message without the picture of the statement and without advice that only its operator can follow."""
    if error.startswith("Out of Memory"):
        return _TOO_MUCH_MEMORY
    return error.split("\n\n", 1)[0].strip()[:_LONGEST_ERROR]


def _schemas(tables: tuple[Table, ...]) -> str:
    text = "; ".join(
        f"{table.name}({', '.join(f'{column.name} {column.type}' for column in table.columns)})" for table in tables
    )
    return text if len(text) <= _LONGEST_SCHEMA else text[:_LONGEST_SCHEMA] + "…"
