"""A figure's SQL, and the sentence that states it with everything that it rests on."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from activities.contracts import AgentAnswer, FindingDraft, ToolResult
from activities.documents.catalog import Column
from activities.models.extractive.grammar import Figure
from activities.models.extractive.lexicon import TOTALS, unit_forms
from activities.models.extractive.periods import quoted
from activities.models.extractive.vocabulary import title_of
from activities.models.extractive.wording import number, sentence, stems

_CONFIDENCE: Final = 90
_MOST_GROUPS: Final = 50
_LISTED: Final = 5
_VALUES: Final = {"mean": "avg({})", "max": "max({})", "min": "min({})", "count": "count(*)"}


def sql_of(figure: Figure) -> str:
    """Write the query: the value, and beside it what tells whether it can be trusted."""
    measure = f'"{figure.measure.name}"' if figure.measure else "*"
    is_sum = not figure.is_single and figure.operation in {"sum", "value", "per", "top"}
    value = "sum({})" if is_sum else _VALUES.get(figure.operation, "any_value({})")
    where = [
        f'lower(CAST("{column.name}" AS VARCHAR)) IN ({", ".join(quoted(value.lower()) for value in values)})'
        for column, values in figure.conditions
    ]
    where += [figure.period_sql] if figure.period_sql else []
    group = f'"{figure.group.name}"' if isinstance(figure.group, Column) else figure.group_sql
    texts = [f'"{column.name}"' for column in figure.table.columns if column.type == "VARCHAR"]
    totals = f"count(*) FILTER (WHERE list_has_any([{', '.join(f'lower({text})' for text in texts)}], {list(TOTALS)}))"
    return (
        f"SELECT {group or 'NULL'} AS name, {value.format(measure)} AS value, count(*) AS rows,"
        f" count({measure}) AS filled, min({figure.year_sql}) AS first_year, max({figure.year_sql}) AS last_year,"
        f" {totals if texts else 0} AS totals"
        f' FROM "{figure.table.name}"{" WHERE " if where else ""}{" AND ".join(where)}{" GROUP BY ALL" if group else ""}'
        f" ORDER BY {'name' if figure.operation == 'per' else 'value'}"
        f"{' DESC NULLS LAST' if figure.operation == 'top' else ''}"
    )


class _Row(NamedTuple):
    name: JsonValue
    value: JsonValue
    rows: int
    filled: int
    first_year: int | None
    last_year: int | None
    totals: int


def state(figure: Figure, result: ToolResult) -> AgentAnswer | None:
    """State the figure; None if the rows leave any doubt."""
    rows = _rows(figure, result.output)
    if not rows or not result.sources:
        return None
    ref = result.sources[0].ref
    claim = f"{_what(figure, rows)} ({_basis(figure, rows)}) [{ref}]"
    best = rows[0]
    value = _amount(figure, best.value)
    if figure.operation == "per":
        content = "\n".join([claim, "", *_lines(figure, rows)])
    elif figure.operation == "top":
        content = "\n".join([f"**{best.name}**, **{value}**: {claim}", "", *_lines(figure, rows[:_LISTED])])
    else:
        content = f"**{value}**: {claim}"
    found = FindingDraft(
        claim=content.split("\n", 1)[0].replace("**", "").replace(f" [{ref}]", ""),
        source_refs=[ref],
        quote="",
        confidence=_CONFIDENCE,
    )
    return AgentAnswer(status="success", content=content, findings=[found], confidence=_CONFIDENCE, gaps=[], message="")


def _rows(figure: Figure, output: Mapping[str, JsonValue]) -> list[_Row]:
    """Read the rows of a result; none if they show that it could mislead."""
    given = output.get("rows")
    rows = [_Row(*row) for row in given if isinstance(row, list)] if isinstance(given, list) else []  # pyright: ignore[reportArgumentType] - as `sql_of` selects them
    if not rows or len(rows) != output.get("row_count") or len(rows) > _MOST_GROUPS:
        return []
    years = {year for row in rows for year in (row.first_year, row.last_year) if year is not None}
    is_vague = figure.period is not None and figure.period.first.year is None and len(years) > 1
    is_tied = figure.operation == "top" and len(rows) > 1 and rows[0].value == rows[1].value
    is_mixed = any(row.totals or not row.rows for row in rows)
    is_several = figure.is_single and any(row.rows > 1 for row in rows)
    is_empty = any(row.value is None or (figure.group and row.name is None) for row in rows)
    return [] if is_vague or is_tied or is_mixed or is_several or is_empty else rows


def _amount(figure: Figure, value: JsonValue) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    units = stems(title_of(figure.measure), figure.language) if figure.measure else ()
    currency = next((word.upper() for word in units if len(word) == 3 and len(unit_forms(word)) > 1), "")
    is_year = figure.operation == "value" and isinstance(value, int) and 1900 <= value <= 2100 and not currency
    return f"{value if is_year else number(value, figure.language)} {currency}".rstrip()


def _what(figure: Figure, rows: Sequence[_Row]) -> str:
    title = title_of(figure.measure) if figure.measure else ""
    is_sum = figure.operation not in {"mean", "max", "min", "count"} and any(row.rows > 1 for row in rows)
    inner = "sum" if is_sum else "value"
    measured = sentence(inner, figure.language).format(title)
    if figure.operation in {"per", "top"}:
        group = title_of(figure.group) if isinstance(figure.group, Column) else figure.group
        return sentence(figure.operation, figure.language).format(measured, group)
    return (
        measured if figure.operation in {"sum", "value"} else sentence(figure.operation, figure.language).format(title)
    )


def _basis(figure: Figure, rows: Sequence[_Row]) -> str:
    """State the conditions in full, the number of rows and where they stand."""
    language = figure.language
    conditions = [f"{title_of(column)} = {values[0]}" for column, values in figure.conditions]
    conditions += [figure.period_text] if figure.period_text else []
    count = sum(row.rows for row in rows)
    place = " · ".join(filter(None, (figure.table.document, figure.table.sheet)))
    missing = count - sum(row.filled for row in rows)
    parts = [
        "; ".join(conditions) or sentence("all rows", language),
        f"{number(count, language)} {sentence('rows', language)}, {place}",
    ]
    parts += [sentence("empty", language).format(missing)] if missing else []
    return "; ".join(parts)


def _lines(figure: Figure, rows: Sequence[_Row]) -> list[str]:
    return [f"- {row.name}: {_amount(figure, row.value)}" for row in rows]
