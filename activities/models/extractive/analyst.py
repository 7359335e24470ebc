"""The agent that computes: one SQL query from the question, a simpler one if it finds nothing, then the figure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from activities.contracts import ToolCall, ToolResult
from activities.documents.catalog import Catalog, Table
from activities.models.extractive.answers import no_answer
from activities.models.extractive.figures import Computed, put_in_words
from activities.models.extractive.instructions import Assignment, Lead
from activities.models.extractive.questions import points_back
from activities.models.extractive.sql import Query, best_query, profile_query
from activities.models.extractive.wording import listed, one_line, shortened
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask

_EXAMPLES: Final = 3


def compute(
    task: WorkTask, assignment: Assignment, question: str, catalog: Catalog, tools: frozenset[str]
) -> tuple[ToolCall, ...] | WorkAnswer:
    """Ask the tables, and answer with what they say."""
    queries = _queries(assignment, question, catalog)
    if not queries:
        return _unanswerable(question, catalog)
    asked = [
        (query, result)
        for past in task.rounds
        for call, result in zip(past.calls, past.results, strict=False)
        for query in queries
        if call.tool == "query_data" and call.arguments.get("sql") == query.sql
    ]
    useful = [(query, result, put_in_words(query, result)) for query, result in asked if result.ok]
    answered = next(((query, result, said) for query, result, said in useful if not said.is_empty), None)
    if answered is None and len(asked) < len(queries) and not task.must_answer and "query_data" in tools:
        sql = queries[len(asked)].sql
        return (ToolCall(id=f"query-{len(asked) + 1}", tool="query_data", arguments={"sql": sql}),)
    if answered is not None:
        query, result, said = answered
        if profiled := _profiled(assignment, catalog):
            said = replace(said, table=_columns_of(profiled))
        return _answer(question, query, result, said)
    return _nothing(question, useful, [result for _, result in asked if not result.ok])


def _queries(assignment: Assignment, question: str, catalog: Catalog) -> list[Query]:
    if assignment.lead is Lead.PROFILE:
        table = _profiled(assignment, catalog)
        return [profile_query(table)] if table else []
    tries = [best_query(question, catalog), best_query(question, catalog, look_for_text=False)]
    return list({query.sql: query for query in tries if query is not None}.values())


def _profiled(assignment: Assignment, catalog: Catalog) -> Table | None:
    if assignment.lead is not Lead.PROFILE:
        return None
    names = (assignment.place.split(",")[0], assignment.question)
    return next((table for table in catalog.tables if table.name in names), None)


def _columns_of(table: Table) -> str:
    """List the columns: what they hold, how varied they are, and what they hold most often."""
    lines = ["| column | type | different values | most frequent |", "|---|---|---|---|"]
    for column in table.columns:
        examples = listed(shortened(one_line(value).replace("|", "¦"), 30) for value in column.examples[:_EXAMPLES])
        lines.append(f"| {column.title or column.name} | {column.type.lower()} | {column.distinct:,} | {examples} |")
    return "\n".join(lines)


def _answer(question: str, query: Query, result: ToolResult, said: Computed) -> WorkAnswer:
    source = result.sources[0] if result.sources else None
    cited = f"{said.headline} [{source.ref}]" if source else said.headline
    gaps = [_ignored(query)] if query.ignored else []
    if points_back(question):
        gaps.append("What the question points back to is not known here, so the figure is not narrowed down to it.")
    notes = (
        [f"Looked for as text, not as a known value: {listed(f'“{word}”' for word in query.looked_for)}."]
        if query.looked_for
        else []
    )
    confidence = max(20, min(95, round(95 * query.explained) - 10 * len(query.looked_for)))
    if gaps:
        confidence = min(confidence, 50)
    finding = FindingDraft(
        claim=one_line(said.headline.replace("**", "")),
        source_refs=[source.ref] if source else [],
        quote=_quotable(source.quote) if source else "",
        confidence=confidence,
    )
    return WorkAnswer(
        status="partial" if gaps else "success",
        content="\n\n".join(part for part in (cited, *gaps, *notes, said.table) if part),
        findings=[finding],
        confidence=confidence,
        gaps=[f"“{shortened(question, 120)}”: {gap}" for gap in gaps],
        message=gaps[0] if gaps else "",
    )


def _ignored(query: Query) -> str:
    words = listed(f"“{word}”" for word in query.ignored)
    return f"Not taken into account: {words}, which no column or known value of {query.title} answers to."


def _quotable(text: str) -> str:
    """Copy as many whole lines as a quotation may have."""
    if len(text) <= 600:
        return text
    return text[:600].rsplit("\n", 1)[0]


def _unanswerable(question: str, catalog: Catalog) -> WorkAnswer:
    tables = _described(catalog.tables)
    there_are = f"The tables are: {tables}." if tables else "There are no tables."
    return no_answer(f"No table has a column for “{shortened(question, 200)}”. {there_are}")


def _described(tables: Sequence[Table]) -> str:
    return "; ".join(
        f"{table.name} ({', '.join(column.name for column in table.columns[:12])})" for table in tables[:6]
    )


def _nothing(
    question: str, empty: Sequence[tuple[Query, ToolResult, Computed]], failed: Sequence[ToolResult]
) -> WorkAnswer:
    if empty:
        message = empty[-1][2].headline
    elif failed:
        reason = one_line(str(failed[-1].output.get("error", "no reason given")))
        message = f"The tables could not be asked: {shortened(reason, 300)}"
    else:
        message = "The tables were not asked: no more tools could be used."
    return no_answer(f"“{shortened(question, 160)}”: {message}", content=message)
