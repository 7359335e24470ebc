"""The tool `query_data`: SQL over the session's tables."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import to_json

from activities.contracts.tool import (
    OUTPUT_CAP_CHARACTERS,
    READS_DOCUMENTS,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    object_schema,
)
from activities.documents.catalog import Table
from activities.documents.library import DocumentLibrary, OpenLibrary
from activities.processes.child import ChildError, ChildProcess, ChildTimeoutError
from chargehand.contracts import Source
from chargehand.tools import failed

_MOST_ROWS: Final = 50
_LONGEST_STATEMENT: Final = 10_000
_LONGEST_ERROR: Final = 600
_LONGEST_SCHEMA: Final = 1_500
_TOO_MUCH_MEMORY: Final = "The query needs more memory than it may use: select less, or filter before joining."
_LONGEST_ROWS: Final = OUTPUT_CAP_CHARACTERS - 1_000
_MOST_PROGRAM_ROWS: Final = 10_000
_LONGEST_PROGRAM_CELL: Final = 100_000
_MOST_PROGRAM_BYTES: Final = 4_000_000
_PROGRAM_QUERY_SECONDS: Final = 15.0


class QueryData:
    """Runs one SELECT over the session's tables."""

    capabilities = READS_DOCUMENTS
    spec = ToolSpec(
        name="query_data",
        needs_documents=True,
        description=(
            "Ask the user's tables in SQL (DuckDB): one SELECT over the tables listed with the documents, names as "
            f"listed. You get {_MOST_ROWS} rows at most under a ref to cite, and `row_count`: aggregate and sort in "
            "SQL. `did_you_mean` names values that are yours but for case or accents. It calculates too: SELECT "
            "1250 * 1.19."
        ),
        parameters=object_schema(sql={"type": "string"}),
    )

    def __init__(self, library: DocumentLibrary, timeout_seconds: float = 10.0) -> None:
        self._library = library
        self._timeout_seconds = timeout_seconds

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        library = await self._library.open(context.documents)
        selected = await select_rows(
            f"{__package__}.query_process", library, arguments.get("sql"), self._timeout_seconds
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
    """Run one SELECT over the library's tables in a child process; return an error for the agent if it fails."""
    answer = await _ask(module, library, sql, timeout_seconds, most_rows=_MOST_ROWS, **more)
    if isinstance(answer, str):
        return answer
    output, source = _present(str(sql), answer)
    return Selection(output, source.replace(about=_about(library.catalog.tables, answer)), answer)


async def rows_for_program(library: OpenLibrary, sql: str) -> list[dict[str, JsonValue]] | str:
    """Return all rows of a SELECT, each with its column names, or the error for the agent."""
    answer = await _ask(
        f"{__package__}.query_process",
        library,
        sql,
        _PROGRAM_QUERY_SECONDS,
        most_rows=_MOST_PROGRAM_ROWS + 1,
        longest_cell=_LONGEST_PROGRAM_CELL,
    )
    if isinstance(answer, str):
        return answer
    columns: list[str] = answer["columns"]
    if repeated := next((name for name in columns if columns.count(name) > 1), None):
        return f"The query gives two columns '{repeated[:100]}': name them apart with AS."
    if answer["row_count"] > _MOST_PROGRAM_ROWS:
        return f"The query gives more than {_MOST_PROGRAM_ROWS:,} rows for the program: aggregate or filter in SQL."
    rows: list[dict[str, JsonValue]] = [dict(zip(columns, row, strict=True)) for row in answer["rows"]]
    if len(to_json(rows)) > _MOST_PROGRAM_BYTES:
        return f"The rows are larger than {_MOST_PROGRAM_BYTES / 1e6:g} MB: select fewer columns or rows."
    if not rows:
        return " ".join(["The query gives no rows, so the program was not run.", *_hint_sentence(answer)])
    return rows


async def _ask(
    module: str, library: OpenLibrary, sql: JsonValue, timeout_seconds: float, **more: JsonValue
) -> dict[str, Any] | str:
    if not isinstance(sql, str) or not sql.strip() or len(sql) > _LONGEST_STATEMENT:
        return f"`sql` must be one SELECT statement of at most {_LONGEST_STATEMENT:,} characters."
    if library.database is None:
        return "This session has no tables: none of its documents is a CSV file or a workbook."
    question: dict[str, Any] = {
        "database": str(library.database),
        "sql": sql,
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
        parts = [_shorten(str(error)), *_hint_sentence(answer)]
        return f"{' '.join(parts)}\nThe tables are: {_schemas(library.catalog.tables)}"
    return answer


def _hint_sentence(answer: dict[str, Any]) -> list[str]:
    hints: list[str] = answer.get("hints", [])
    return [f"Did you mean {' or '.join(hints)}?"] if hints else []


def _present(sql: str, answer: dict[str, Any]) -> tuple[dict[str, JsonValue], Source]:
    """Return facts about the rows as tool output, and the rows themselves as a source."""
    lines = _fit(answer["columns"], answer["rows"])
    shown, count = len(lines) - 1, answer["row_count"]
    output: dict[str, JsonValue] = {"row_count": count}
    if shown < count:
        more = "" if answer["is_exact"] else " or more, not counted to the end"
        output["note"] = f"These are the first {shown} of {count:,} rows{more}. Aggregate, filter, or use OFFSET."
    if hints := answer.get("hints"):
        output["did_you_mean"] = hints
    ref = f"sql:{hashlib.sha256(sql.encode()).hexdigest()[:8]}"
    return output, Source(ref=ref, title=sql, quote="\n".join(lines))


def _about(tables: Sequence[Table], answer: dict[str, Any]) -> str:
    """Describe what was computed from which documents; empty if there is no short description."""
    named, words = cast("tuple[list[str], str]", answer.get("about", ([], "")))
    documents = {table.name.casefold(): f"{table.document} · {table.sheet}".removesuffix(" · ") for table in tables}
    of: dict[str, None] = dict.fromkeys(documents.get(name.casefold(), name) for name in named)
    return f"{', '.join(of)}: {words}" if of and words else ""


def _fit(columns: list[str], rows: list[list[JsonValue]]) -> list[str]:
    """Render as many rows as fit, as a text table below the column names."""
    lines = [_line(columns)[:_LONGEST_ROWS]]
    length = len(lines[0])
    for row in rows:
        line = _line(row)
        length += len(line) + 1
        if length > _LONGEST_ROWS:
            break
        lines.append(line)
    return lines


def _line(cells: Sequence[JsonValue]) -> str:
    return " | ".join("NULL" if cell is None else " ".join(str(cell).split("\n")) for cell in cells)


def _shorten(error: str) -> str:
    """Drop the excerpt of the statement from DuckDB's message, and advice that only the operator can follow."""
    if error.startswith("Out of Memory"):
        return _TOO_MUCH_MEMORY
    return error.split("\n\n", 1)[0].strip()[:_LONGEST_ERROR]


def _schemas(tables: tuple[Table, ...]) -> str:
    text = "; ".join(
        f"{table.name}({', '.join(f'{column.name} {column.type}' for column in table.columns)})" for table in tables
    )
    return text if len(text) <= _LONGEST_SCHEMA else text[:_LONGEST_SCHEMA] + "…"
