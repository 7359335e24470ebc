"""Which columns a data question measures, counts, divides or merely names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from activities.models.extractive.intent import Dimension, Intent
from activities.models.extractive.reading import Condition, Reading
from activities.models.extractive.tables import Field
from activities.models.extractive.wording import stem


def find_ratio(reading: Reading) -> tuple[Field, Field] | None:
    """Read `cost per passenger`, where both are columns of numbers."""
    for i, word in enumerate(reading.lower):
        if word != "per" or i == 0 or not reading.is_free(i + 1):
            continue
        below = reading.field_at(i + 1, lambda field: field.is_measure)
        above = next(
            (named for j in range(max(0, i - 3), i) if (named := reading.field_at(j, lambda field: field.is_measure))),
            None,
        )
        if not below or not above or below[0] == above[0] or reading.is_subject(i + 1):
            continue
        if below[0].likeness(reading.words[i + 1].stem) == 1.0:
            reading.use((*above[1], *below[1]))
            return above[0], below[0]
    return None


def with_compared_periods(
    reading: Reading, conditions: Sequence[Condition], dimensions: tuple[Dimension, ...], intent: Intent
) -> tuple[Dimension, ...]:
    """Break down by what is compared: `compare 2024 and 2025`, `Northgate versus Eastport`."""
    compares = re.search(r"\b(?:compar\w+|versus|vs|differ\w*|against)\b", reading.text, re.IGNORECASE)
    if not compares or dimensions or intent.is_share:
        return dimensions
    reading.use(
        i
        for i, word in enumerate(reading.words)
        if word.lower.startswith(("compar", "versus", "vs", "differ", "against"))
    )
    for condition in conditions:
        if condition.is_period and " OR " in condition.sql and reading.view.date_field:
            date = reading.view.date_field.sql
            unit = "year" if re.fullmatch(r"(?:in )?\d{4}(?:(?:,| or) \d{4})+", condition.said) else "month"
            if re.search(r"(?i)\bq[1-4]\b|quarter", condition.said):
                return (
                    Dimension(f"strftime({date}, '%Y') || '-Q' || quarter({date})", "quarter", "quarter", is_time=True),
                )
            sql = f"year({date})" if unit == "year" else f"strftime({date}, '%Y-%m')"
            return (Dimension(sql, unit, unit, is_time=True),)
        named = next((field for field in reading.view.fields if field.column.name == condition.field), None)
        if named and "', '" in condition.sql:
            return (Dimension(named.sql, named.column.name, named.label),)
    return dimensions


@dataclass(frozen=True)
class Counted:
    """What `how many` counts: rows, different values of a column, or a column of numbers to add up."""

    sql: str
    label: str
    measure: Field | None = None
    noun: str = ""
    """The word that says what is counted; empty if none of the table's does."""


def find_counted(reading: Reading, intent: Intent) -> Counted:
    """Find the noun after `how many` and what it stands for in the table."""
    rows = Counted("count(*)", "number of rows")
    quantity = next((field for field in reading.view.fields if field.is_quantity), None)
    if quantity is not None and intent.aggregate == "count" and intent.counted_at in reading.values:
        return Counted("", "", quantity)
    position = intent.counted_at if intent.counted_at >= 0 else intent.ordered_at
    skipped = {"of", "the", "times", "separate", "individual", "our", "all"}
    while 0 <= position < len(reading.words) and (position in reading.used or reading.lower[position] in skipped):
        position += 1
    if not reading.is_free(position) or (intent.counted_at < 0 and not intent.is_many):
        return rows
    return _counted_at(reading, intent, position) or rows


_VAGUE_AMOUNTS: Final = frozenset(
    stem(word) for word in ["count", "number", "total", "value", "amount", "quantity", "qty", "n"]
)


def _counted_at(reading: Reading, intent: Intent, position: int) -> Counted | None:
    word = reading.words[position]
    is_distinct = intent.aggregate == "distinct"
    measure = reading.field_at(position, lambda field: field.is_measure)
    is_measure = measure is not None and measure[0].likeness(word.stem) == 1.0 and not reading.is_subject(position)
    if measure and is_measure and not is_distinct and intent.counted_at >= 0:
        return Counted("", "", measure[0])
    if measure and not is_distinct and (is_measure or intent.aggregate != "count"):
        return None
    if reading.is_subject(position) and not is_distinct:
        reading.use([position])
        amount = next((field for field in reading.view.fields if set(field.tokens) <= _VAGUE_AMOUNTS), None)
        if amount is not None and amount.is_measure:
            return Counted("", "", amount)
        return Counted("count(*)", f"number of {word.lower}", noun=word.lower)
    return _counted_values(reading, position, is_distinct=is_distinct)


def _counted_values(reading: Reading, position: int, *, is_distinct: bool) -> Counted | None:
    """Count the different values of the column that is named there, or the rows if each of them has its own."""
    word = reading.words[position]
    named = reading.field_at(position, lambda field: field.is_groupable or field.is_key)
    if named is None or named[0].likeness(word.stem) < 1.0:
        return None
    if named[0].kind == "number" and not named[0].is_key and not is_distinct:
        return None
    reading.use(named[1])
    if named[0].column.distinct == reading.view.rows and not is_distinct:
        return Counted("count(*)", f"number of {word.lower}", noun=word.lower)
    return Counted(f"count(DISTINCT {named[0].sql})", f"number of different {word.lower}", noun=word.lower)


def find_measures(reading: Reading, intent: Intent, counted: Counted) -> tuple[Field, ...]:
    if counted.measure:
        named = reading.field_at(max(intent.counted_at, 0), lambda field: field == counted.measure)
        reading.use(
            named[1]
            if named
            else [i for i in range(len(reading.words)) if counted.measure.likeness(reading.words[i].stem) == 1.0]
        )
        return (counted.measure,)
    is_count = intent.aggregate in {"count", "distinct"} or intent.is_counted
    if is_count or (intent.aggregate == "avg" and intent.counted_at >= 0) or counted.sql.startswith("count(D"):
        return ()
    found: dict[str, Field] = {}
    for least in (1.0, 0.5):
        for i in range(len(reading.words)):
            named = reading.field_at(i, lambda field: field.is_measure) if reading.is_free(i) else None
            if named and named[0].likeness(reading.words[i].stem) >= least:
                if named[0].likeness(reading.words[i].stem) <= 0.5:
                    reading.weak.add(i)
                for twin in _duplicates(reading, named[0], named[1]):
                    found.setdefault(twin.sql, twin)
                reading.use(named[1])
        if found:
            return tuple(found.values())[:3]
    if intent.hint:
        hinted = [field for field in reading.view.fields if field.is_measure and field.likeness(stem(intent.hint)) > 0]
        return tuple(hinted[:1])
    sole = [field for field in reading.view.fields if field.is_measure]
    return tuple(sole) if len(sole) == 1 and intent.aggregate in {"sum", "avg", "median", "stddev"} else ()


def _duplicates(reading: Reading, named: Field, positions: Sequence[int]) -> Iterator[Field]:
    """All columns that the same words name equally well: which one is meant cannot be known, so all are shown."""
    said = frozenset(reading.words[i].stem for i in positions)
    yield named
    for other in reading.view.fields:
        if other.is_measure and other != named and said <= set(other.tokens) and other.score(said) >= named.score(said):
            yield other


def find_asked_fields(reading: Reading) -> tuple[Field, ...]:
    """Columns that are named without being measured or grouped by."""
    found: dict[str, Field] = {}
    for i, word in enumerate(reading.words):
        if word.lower == "when" and reading.view.date_field:
            found.setdefault(reading.view.date_field.sql, reading.view.date_field)
        named = (
            reading.field_at(i, lambda field: not field.is_measure) if reading.is_free(i) and word.is_content else None
        )
        if named and named[0].likeness(word.stem) == 1.0:
            reading.use(named[1])
            found.setdefault(named[0].sql, named[0])
    return tuple(found.values())
