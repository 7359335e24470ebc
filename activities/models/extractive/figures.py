"""A figure's SQL, and the sentence that states it with everything that it rests on."""

# ruff: noqa: S608 - names are the catalog's, made of letters, digits and `_`; values are quoted

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from activities.contracts.rounds import ToolResult
from activities.models.extractive.grammar import Figure
from activities.models.extractive.lexicon import TOTALS, unit_forms
from activities.models.extractive.periods import quoted
from activities.models.extractive.vocabulary import title_of
from activities.models.extractive.wording import number, sentence, stems
from activities.turn_kinds.work import FindingDraft, WorkAnswer

_CONFIDENCE: Final = 90
_LISTED: Final = 5
_VALUES: Final = {"mean": "avg({})", "max": "max({})", "min": "min({})", "count": "count(*)"}


def sql_of(figure: Figure) -> str:
    """Write the query: for each group the value, how many rows it rests on, and whether there is doubt about it."""
    measure = f'"{figure.measure.name}"' if figure.measure else "*"
    is_sum = not figure.is_single and figure.operation in {"sum", "value", "per", "top"}
    value = ("sum({})" if is_sum else _VALUES.get(figure.operation, "any_value({})")).format(measure)
    where = [
        f'lower("{column.name}") IN ({", ".join(quoted(text.lower()) for text in values)})'
        for column, values in figure.conditions
    ]
    where += [figure.period_sql] if figure.period_sql else []
    group = f'"{figure.group.name}"' if figure.group else "''"
    doubts = [f"{value} IS NULL", f"{group} IS NULL", "count(*) = 0", *(["count(*) > 1"] if figure.is_single else [])]
    doubts += [f"count(DISTINCT {figure.year_sql}) > 1"] if figure.year_sql else []
    texts = ", ".join(f'lower("{column.name}")' for column in figure.table.columns if column.type == "VARCHAR")
    doubts += [f"bool_or(list_has_any([{texts}], {list(TOTALS)}))"] if texts else []
    order = "value DESC NULLS FIRST" if figure.operation == "top" else "name"
    return (
        f"SELECT {group} AS name, {value} AS value, count(*) AS rows, count({measure}) AS filled,"
        f' {" OR ".join(doubts)} AS doubt FROM "{figure.table.name}"{" WHERE " if where else ""}{" AND ".join(where)}'
        f"{' GROUP BY name' if figure.group else ''} ORDER BY {order}"
    )


class _Row(NamedTuple):
    name: str
    value: str | float
    rows: int
    filled: int
    doubt: bool


def state(figure: Figure, result: ToolResult) -> WorkAnswer | None:
    """State the figure; None if the rows leave any doubt."""
    is_text = figure.measure is not None and figure.measure.type == "VARCHAR" and figure.operation != "count"
    lines = result.sources[0].quote.split("\n")[1:]
    rows = [_read_row(line, is_text=is_text) for line in lines]
    is_whole = bool(rows) and len(rows) == result.output.get("row_count")
    is_tied = figure.operation == "top" and len(rows) > 1 and rows[0].value == rows[1].value
    if not is_whole or is_tied or any(row.doubt for row in rows):
        return None
    ref = result.sources[0].ref
    best, value = rows[0].name, _amount(figure, rows[0].value)
    head = {"per": "", "top": f"**{best}**, **{value}**: "}.get(figure.operation, f"**{value}**: ")
    said = f"{head}{_what(figure, rows)} ({_basis(figure, rows)})"
    listed = [
        f"- {row.name}: {_amount(figure, row.value)} [{ref}]"
        for row in rows[: None if figure.operation == "per" else _LISTED]
    ]
    content = "\n".join([f"{said} [{ref}]", *(["", *listed] if figure.group else [])])
    found = FindingDraft(claim=said.replace("**", ""), source_refs=[ref], quote="", confidence=_CONFIDENCE)
    return WorkAnswer(status="success", content=content, findings=[found], confidence=_CONFIDENCE, gaps=[], message="")


def _read_row(line: str, *, is_text: bool) -> _Row:
    """Read a row as `sql_of` selects it; the columns after the name hold no separator unless the value is a text."""
    *name, value, rows, filled, doubt = line.split(" | ")
    if len(name) > 1 and is_text:
        return _Row("", "", 0, 0, doubt=True)
    amount = value if is_text else _number(value)
    return _Row(" | ".join(name), amount, int(rows), int(filled), doubt == "True")


def _number(text: str) -> str | float:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _amount(figure: Figure, value: str | float) -> str:
    if isinstance(value, str):
        return value
    units = stems(title_of(figure.measure), figure.language) if figure.measure else ()
    currency = next((word.upper() for word in units if len(word) == 3 and len(unit_forms(word)) > 1), "")
    is_year = figure.is_single and isinstance(value, int) and 1900 <= value <= 2100
    return f"{value if is_year else number(value, figure.language)} {currency}".rstrip()


def _what(figure: Figure, rows: Sequence[_Row]) -> str:
    title = title_of(figure.measure) if figure.measure else ""
    is_sum = figure.operation == "sum" or (not figure.is_single and any(row.rows > 1 for row in rows))
    operation = figure.operation if figure.operation in _VALUES else "sum" if is_sum else "value"
    measured = sentence(operation, figure.language).format(title)
    return (
        sentence(figure.operation, figure.language).format(measured, title_of(figure.group))
        if figure.group
        else measured
    )


def _basis(figure: Figure, rows: Sequence[_Row]) -> str:
    """State the conditions in full, the number of rows and where they stand."""
    conditions = [f"{title_of(column)} = {values[0]}" for column, values in figure.conditions]
    conditions += [" – ".join(figure.period.days or (figure.period_text,))] if figure.period else []
    count = sum(row.rows for row in rows)
    missing = count - sum(row.filled for row in rows)
    place = " · ".join(filter(None, (figure.table.document, figure.table.sheet)))
    parts = ["; ".join(conditions) or sentence("all rows", figure.language)]
    parts.append(f"{sentence('rows', figure.language)}: {number(count, figure.language)}, {place}")
    parts += [sentence("empty", figure.language).format(missing)] if missing else []
    return "; ".join(parts)
