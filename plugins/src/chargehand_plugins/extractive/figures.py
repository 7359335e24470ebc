"""The sentence that states a query's result with its basis, or that there is none."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from activities.contracts.rounds import ToolResult
from activities.turn_kinds.work import FindingDraft, WorkAnswer
from chargehand_plugins.extractive.lexicon import is_currency, number, sentence
from chargehand_plugins.extractive.query import Query

_CONFIDENCE: Final = 90
_UNSURE_CONFIDENCE: Final = 60
"""Confidence if two groups lead, each by another measure."""


class _Row(NamedTuple):
    name: str
    value: str | float
    rows: int
    filled: int
    totals: int
    doubt: bool
    other: str | float


def state(query: Query, result: ToolResult) -> WorkAnswer:
    """State the figure, or say why the rows do not determine it."""
    language, document = query.fields.language, query.fields.table.document
    rows = [_read_row(line) for line in result.sources[0].quote.split("\n")[1:]]
    if not any(row.rows for row in rows):
        return declined(language, "no_rows", "; ".join(each.text for each in query.conditions), document, is_final=True)
    if len(rows) != result.output.get("row_count") or any(row.doubt for row in rows):
        return declined(language, "doubt", "", document)
    ref = result.sources[0].ref
    statements = [_write_answer(query, rows)]
    if query.other:
        others = [row._replace(value=row.other) for row in rows]
        best = (max if query.shape == "most" else min)(float(row.value) for row in others)
        others = [row for row in others if row.value == best]
        if others[0].value != rows[0].value:
            statements.append(_write_answer(query._replace(function=query.other), others))
    stated = f"{'; '.join(statements)} ({_basis(query, rows)})"
    listed = [f"- {row.name}: {_amount(query, row)} [{ref}]" for row in rows if query.shape == "per"]
    content = "\n".join([f"{stated} [{ref}]", *(["", *listed] if listed else [])])
    confidence = _CONFIDENCE if len(statements) == 1 else _UNSURE_CONFIDENCE
    finding = FindingDraft(claim=stated.replace("**", ""), source_refs=[ref], quote="", confidence=confidence)
    return WorkAnswer(status="success", content=content, findings=[finding], confidence=confidence, gaps=[], message="")


def declined(language: str, key: str, *words: str, is_final: bool = False) -> WorkAnswer:
    """Answer that there is no answer, and why; finally, if another agent could not answer either."""
    text, status = sentence(key, language).format(*words), "partial" if is_final else "no_answer"
    return WorkAnswer(status=status, content=text, findings=[], confidence=0, gaps=[text] * is_final, message=text)


def _read_row(line: str) -> _Row:
    """Read a row of a query's result; the row's name may contain the column separator."""
    name, value, *counts, doubt, other = line.rsplit(" | ", 6)
    return _Row(name, _number(value), *map(int, counts), doubt=doubt == "True", other=_number(other))


def _number(text: str) -> str | float:
    with suppress(ValueError):
        return int(text) if text.lstrip("-").isdigit() else float(text)
    return text


def _write_answer(query: Query, rows: Sequence[_Row]) -> str:
    """Write the answer in bold, and its meaning: names, names with their common value, or amounts."""
    is_ranked = query.shape in {"most", "least"}
    leaders = [row for row in rows if row.value == rows[0].value] if is_ranked else rows
    names = ", ".join(f"**{row.name}**" for row in leaders)
    amounts = ", ".join(f"**{_amount(query, row)}**" for row in leaders)
    if is_ranked:
        names = f"{names}, **{_amount(query, leaders[0])}**"
    head = {"per": "", "one": f"{amounts}: "}.get(query.shape, f"{names}: ")
    return head + _what(query, rows)


def _amount(query: Query, row: _Row) -> str:
    if isinstance(row.value, str) or (query.measure and query.measure.is_time):
        text = str(row.value)
        return text.removesuffix(":00") if text.count(":") == 2 else text
    language = query.fields.language
    if query.function == "share":
        return f"{number(float(row.value), language)} %"
    units = query.measure.units if query.measure else ()
    unit = next((form.upper() for form in units if len(form) == len("eur") and is_currency(form)), "")
    unit = row.name if query.currency and not query.group else unit
    is_whole = isinstance(row.value, float) and row.value.is_integer() and not unit
    return f"{number(int(row.value) if is_whole else row.value, language)} {unit}".rstrip()


def _what(query: Query, rows: Sequence[_Row]) -> str:
    """Name the function, its column and its group."""
    language = query.fields.language
    if query.shape == "list" and query.group:
        return query.group.label
    is_single = query.function == "any_value" or (query.function == "sum" and all(row.rows < 2 for row in rows))
    is_extreme = query.shape in {"most", "least"} and query.function in {"max", "min"}
    key = "value" if is_single or is_extreme else query.function
    measured = sentence(key, language).format(
        query.measure.label if query.measure else sentence("rows", language), query.group and query.group.label
    )
    if query.shape == "one" or not query.group:
        return measured
    return sentence(query.shape, language).format(measured, query.group.label)


def _basis(query: Query, rows: Sequence[_Row]) -> str:
    """State the conditions in full, the number and place of the rows, and what was left out."""
    say = query.fields.language
    count, left_out = sum(row.rows for row in rows), max((row.totals for row in rows), default=0)
    missing = count - sum(row.filled for row in rows)
    parts = ["; ".join(condition.text for condition in query.conditions) or sentence("all_rows", say)]
    parts.append(f"{sentence('rows', say)}: {number(count, say)}, {query.place}")
    parts += [sentence("totals", say).format(left_out)] if left_out else []
    parts += [sentence("blank", say).format(missing)] if missing else []
    return "; ".join(parts)
