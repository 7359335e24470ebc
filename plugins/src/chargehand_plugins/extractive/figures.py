"""A figure's SQL, and the sentence that states it with everything that it rests on."""

# ruff: noqa: S608 - names are the catalog's, made of letters, digits and `_`; values are quoted

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from activities.contracts.rounds import ToolResult
from activities.turn_kinds.work import FindingDraft, WorkAnswer
from chargehand_plugins.extractive.grammar import Figure
from chargehand_plugins.extractive.lexicon import is_currency, number, sentence, totals

_CONFIDENCE: Final = 90
_LISTED: Final = 5
_NO_GROUP: Final = "''"
_ORDERS: Final = {"most": "2 DESC NULLS FIRST, 1", "least": "2 ASC NULLS FIRST, 1"}


def sql_of(figure: Figure) -> str:
    """Write the query: for each group the value, how many rows it rests on, and whether there is doubt about it."""
    held = figure.measure and figure.measure.calendar
    measure = held.sql if held else f'"{figure.measure.name}"' if figure.measure else "*"
    part = [condition.sql for condition in figure.conditions if condition.is_value]
    counted = ""
    match figure.operation, figure.function:
        case "share", _:
            amount = f"sum({measure})" if figure.measure else "count(*)"
            counted = f" FILTER ({' AND '.join(part)})"
            value = f"100.0 * {amount}{counted} / {amount}"
        case _, "count":
            value = "count(*)"
        case _, "distinct":
            value = f"count(DISTINCT {measure})"
        case _, "rate":
            value = f"sum({measure}) / count(DISTINCT {figure.group.sql if figure.group else measure})"
        case _, function:
            value = f"{function}({measure})"
    is_total = _total_sql(figure)
    where = [condition.sql for condition in figure.conditions if not (counted and condition.is_value)]
    rows = " AND ".join([*(f"({each})" for each in where), *([f"NOT {is_total}"] if is_total else [])]) or "true"
    group = _group_sql(figure)
    table = f'"{figure.table.name}"'
    return (
        f"SELECT {group} AS name, {value} AS value, count(*){counted} AS rows, count({measure}){counted} AS filled,"
        f" {f'(SELECT count(*) FROM {table} WHERE {is_total})' if is_total else 0} AS totals,"
        f" {' OR '.join(_doubts(figure, value, group, rows))} AS doubt FROM {table} WHERE {rows}"
        f"{f' GROUP BY {group}' if group != _NO_GROUP else ''} ORDER BY {_ORDERS.get(figure.operation, '1')}"
    )


def _group_sql(figure: Figure) -> str:
    if figure.group and figure.operation != "mean":
        return figure.group.sql
    is_apart = figure.currency and figure.operation != "share"
    return f'CAST("{figure.currency.name}" AS VARCHAR)' if figure.currency and is_apart else _NO_GROUP


def _doubts(figure: Figure, value: str, group: str, rows: str) -> list[str]:
    table = f'"{figure.table.name}"'
    found = [f"{value} IS NULL", *([f"{group} IS NULL"] if group != _NO_GROUP else [])]
    found += [f"min({value[10:-1]}) IS DISTINCT FROM max({value[10:-1]})"] if figure.function == "any_value" else []
    found += figure.doubts
    for moment, first in (each.moment for each in figure.conditions if each.moment[0]):
        # None in a time of which there are no rows at all is not known to be none.
        ends = (f"(SELECT {end}({moment}) FROM {table})" for end in ("min", "max"))
        found.append(f"(count(*) = 0 AND NOT coalesce('{first}' BETWEEN {' AND '.join(ends)}, false))")
    if figure.currency and (figure.group or figure.operation == "share"):
        found.append(f'(SELECT count(DISTINCT "{figure.currency.name}") FROM {table} WHERE {rows}) > 1')
    if figure.operation == "least" and figure.group and figure.conditions and figure.function in {"count", "sum"}:
        # A group without any row that counts has the least of all, and is not among the results.
        everything = f"SELECT count(DISTINCT {group}) FROM {table} WHERE NOT {_total_sql(figure) or 'false'}"
        found.append(f"(SELECT count(DISTINCT {group}) FROM {table} WHERE {rows}) < ({everything})")
    return found


def _total_sql(figure: Figure) -> str:
    """Write what holds for rows that add up the others; empty if the table has no such row."""
    texts = [column for column in figure.table.columns if column.type == "VARCHAR"]
    names = [name for name in totals() if any(name in map(str.lower, column.examples) for column in texts)]
    if any(column.distinct > len(column.examples) for column in texts):
        names = list(totals())
    listed = ", ".join(f'lower("{column.name}")' for column in texts)
    return f"coalesce(list_has_any([{listed}], {names}), false)" if names else ""


class _Row(NamedTuple):
    name: str
    value: str | float
    rows: int
    filled: int
    totals: int
    doubt: bool


def state(figure: Figure, result: ToolResult) -> WorkAnswer:
    """State the figure, or say why the rows do not give it."""
    rows = [_read_row(line) for line in result.sources[0].quote.split("\n")[1:]]
    is_whole = len(rows) == result.output.get("row_count")
    is_doubtful = figure.operation != "count" or any(row.doubt for row in rows)
    if not sum(row.rows for row in rows) and is_whole and is_doubtful:
        conditions = "; ".join(condition.text for condition in figure.conditions)
        return unanswered(figure.language, "no_rows", conditions, figure.table.document)
    if not is_whole or any(row.doubt for row in rows):
        return declined(figure.language, "doubt", "", figure.table.document)
    ref = result.sources[0].ref
    leaders = [row for row in rows if row.value == rows[0].value] if figure.operation in _ORDERS else rows
    said = f"{_head(figure, leaders)}{_what(figure, rows)} ({_basis(figure, rows)})"
    is_listed = figure.group is not None and figure.operation != "list"
    listed = [
        f"- {row.name}: {_amount(figure, row)} [{ref}]"
        for row in rows[: None if figure.operation == "per" else _LISTED if is_listed else 0]
    ]
    content = "\n".join([f"{said} [{ref}]", *(["", *listed] if listed else [])])
    found = FindingDraft(claim=said.replace("**", ""), source_refs=[ref], quote="", confidence=_CONFIDENCE)
    return WorkAnswer(status="success", content=content, findings=[found], confidence=_CONFIDENCE, gaps=[], message="")


def declined(language: str, key: str, *words: str) -> WorkAnswer:
    """Answer that there is no answer, and why."""
    said = sentence(key, language).format(*words)
    return WorkAnswer(status="no_answer", content=said, findings=[], confidence=0, gaps=[], message=said)


def unanswered(language: str, key: str, *words: str) -> WorkAnswer:
    """Decline where another agent knows no more of the tables and the words of the documents."""
    said = declined(language, key, *words)
    return said.model_copy(update={"status": "partial", "gaps": [said.content]})


def _read_row(line: str) -> _Row:
    """Read a row as `sql_of` selects it; a name may hold what parts the columns."""
    name, value, *counts, doubt = line.rsplit(" | ", 5)
    return _Row(name, _number(value), *map(int, counts), doubt=doubt == "True")


def _number(text: str) -> str | float:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _head(figure: Figure, leaders: Sequence[_Row]) -> str:
    """Write what answers, in bold: names, names with the value that they share, or amounts."""
    names = ", ".join(f"**{row.name}**" for row in leaders)
    amounts = ", ".join(f"**{_amount(figure, row)}**" for row in leaders)
    if figure.operation in _ORDERS:
        return f"{names}, **{_amount(figure, leaders[0])}**: "
    return {"per": "", "list": f"{names}: "}.get(figure.operation, f"{amounts}: ")


def _amount(figure: Figure, row: _Row) -> str:
    if isinstance(row.value, str):
        return row.value.removesuffix(":00") if row.value.count(":") == 2 else row.value
    if figure.operation == "share":
        return f"{number(float(row.value), figure.language)} %"
    title = figure.measure.label.replace("_", " ").replace("(", " ").replace(")", " ") if figure.measure else ""
    unit = next((word.upper() for word in title.split() if len(word) == len("eur") and is_currency(word)), "")
    unit = row.name if figure.currency and not figure.group else unit
    is_whole = isinstance(row.value, float) and row.value.is_integer() and not unit
    is_year = (
        figure.function in {"any_value", "max", "min"} and isinstance(row.value, int) and 1900 <= row.value <= 2100
    )
    value = int(row.value) if is_whole else row.value
    return f"{value if is_year else number(value, figure.language)} {unit}".rstrip()


def _what(figure: Figure, rows: Sequence[_Row]) -> str:
    title = figure.measure.label if figure.measure else ""
    if figure.operation == "list" and figure.group:
        return figure.group.field.label
    is_plain = figure.function in {"any_value", "sum"} and figure.operation != "sum" and all(r.rows < 2 for r in rows)
    is_ranked = figure.function == "any_value" or (figure.operation in _ORDERS and figure.function in {"max", "min"})
    function = {"avg": "mean", "rate": "mean"}.get(figure.function, figure.function)
    of_rows = "share" if figure.operation == "share" else "value" if is_plain or is_ranked else function
    measured = sentence(of_rows, figure.language).format(title or sentence("rows", figure.language))
    if figure.function == "rate":
        measured = title
    shape = (
        sentence("rate" if figure.function == "rate" else figure.operation, figure.language) if figure.group else "{}"
    )
    return shape.format(measured, figure.group.field.label if figure.group else "")


def _basis(figure: Figure, rows: Sequence[_Row]) -> str:
    """State the conditions in full, the number of rows and where they stand, and what was left out."""
    say = figure.language
    count, left_out = sum(row.rows for row in rows), max((row.totals for row in rows), default=0)
    missing = count - sum(row.filled for row in rows)
    parts = ["; ".join(condition.text for condition in figure.conditions) or sentence("all_rows", say)]
    parts.append(f"{sentence('rows', say)}: {number(count, say)}, {figure.place}")
    parts += [sentence("totals", say).format(left_out)] if left_out else []
    parts += [sentence("blank", say).format(missing)] if missing else []
    return "; ".join(parts)
