"""The forms of an answer from a table, as parts of an SQL statement."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from activities.models.extractive.amounts import Counted
from activities.models.extractive.intent import Dimension, Intent
from activities.models.extractive.reading import Condition, Reading
from activities.models.extractive.tables import Field, quoted
from activities.models.extractive.wording import listed, stem, word_set

Form = Literal["scalar", "groups", "rows", "share"]

_LISTED_GROUPS: Final = 50
_LISTED_ROWS: Final = 20
AGGREGATE_NAMES: Final = {
    "sum": "total",
    "avg": "average",
    "median": "median",
    "min": "lowest",
    "max": "highest",
    "stddev": "standard deviation of",
}
"""What an aggregate is called in an answer."""


@dataclass(frozen=True)
class Figure:
    """A computed column of a result."""

    alias: str
    label: str
    unit: str = ""


@dataclass
class Draft:
    """The parts of a statement."""

    form: Form
    selects: list[str]
    dimensions: list[Dimension] = field(default_factory=list[Dimension])
    figures: list[Figure] = field(default_factory=list[Figure])
    order_by: str = ""
    limit: int = 0
    extra_where: list[str] = field(default_factory=list[str])
    names: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    """Conditions that a figure holds itself, and that must not restrict the rows."""


@dataclass(frozen=True)
class Asked:
    """A question as far as it was understood."""

    reading: Reading
    intent: Intent
    conditions: tuple[Condition, ...]
    dimensions: tuple[Dimension, ...]
    measures: tuple[Field, ...]
    counted: Counted
    fields: tuple[Field, ...]
    """Columns that are named without being measured or grouped by."""
    ratio: tuple[Field, Field] | None


def draft_of(asked: Asked) -> Draft | None:
    """Choose the form of the answer: figures, groups, rows or a share; None if the question fits none."""
    special = _special(asked)
    if special is not None:
        return special[0]
    intent, measures, dimensions = asked.intent, asked.measures, asked.dimensions
    if intent.order and not dimensions:
        return _extreme_rows(asked)
    if not dimensions and not intent.aggregate and (not measures or _is_lookup(asked)):
        return _listed_rows(asked)
    figures = [_figure(measure, intent, has_dimensions=bool(dimensions)) for measure in measures]
    if not figures:
        figures = [(asked.counted.sql, Figure(alias_of(asked.counted.label), asked.counted.label))]
    selects = [f"{sql} AS {quoted(figure.alias)}" for sql, figure in figures]
    if measures:
        selects.append(f'count({measures[0].sql}) AS "rows"')
    draft = Draft("groups" if dimensions else "scalar", selects, list(dimensions), [figure for _, figure in figures])
    if dimensions:
        is_unfounded = intent.order and not measures and not intent.is_counted and not asked.counted.noun
        if is_unfounded and intent.aggregate not in {"count", "distinct"}:
            return None
        _order_groups(draft, intent)
    return draft


def _special(asked: Asked) -> tuple[Draft | None] | None:
    """Take the forms that a single word decides."""
    if asked.ratio:
        return (_ratio(asked.ratio, asked.dimensions, asked.intent),)
    if asked.intent.order in {"latest", "earliest"}:
        return (_dated_rows(asked),)
    if asked.intent.is_share:
        return (_share(asked),)
    is_counted = asked.intent.aggregate == "avg" and asked.intent.counted_at >= 0
    if is_counted and asked.dimensions and not asked.measures:
        return (_average_count(asked.dimensions, asked.counted),)
    return None


def _is_lookup(asked: Asked) -> bool:
    """Whether values are asked for as they stand, rather than added up."""
    view = asked.reading.view
    unique = {field.column.name for field in view.fields if field.column.distinct == view.rows}
    return (
        all(measure.is_rate for measure in asked.measures)
        or bool(asked.fields)
        or any(condition.field in unique for condition in asked.conditions)
    )


def _order_groups(draft: Draft, intent: Intent) -> None:
    first = quoted(draft.figures[0].alias)
    names = ", ".join(quoted(dimension.alias) for dimension in draft.dimensions)
    if intent.order:
        draft.order_by = f"{first} {'ASC' if intent.order == 'lowest' else 'DESC'} NULLS LAST, {names}"
        draft.limit = max(intent.limit + 2, 5)
    else:
        is_time = draft.dimensions[0].is_time
        draft.order_by = names if is_time or len(draft.dimensions) > 1 else f"{first} DESC NULLS LAST, {names}"
        draft.limit = _LISTED_GROUPS


def _figure(measure: Field, intent: Intent, *, has_dimensions: bool) -> tuple[str, Figure]:
    aggregate = intent.aggregate
    if aggregate in {"", "count", "distinct"}:
        aggregate = "sum"
        if intent.is_single:
            aggregate = "min" if intent.order == "lowest" else "max"
        elif measure.is_rate:
            aggregate = ("min" if intent.order == "lowest" else "max") if intent.order and has_dimensions else "avg"
    name = AGGREGATE_NAMES[aggregate]
    label = measure.label if aggregate == "sum" and measure.label.startswith("total") else f"{name} {measure.label}"
    alias = measure.column.name if label == measure.label else f"{alias_of(name)}_{measure.column.name}"
    return f"{aggregate}({measure.sql})", Figure(alias, label, measure.unit)


def alias_of(label: str) -> str:
    return re.sub(r"\W+", "_", label.lower()).strip("_")


def _ratio(ratio: tuple[Field, Field], dimensions: tuple[Dimension, ...], intent: Intent) -> Draft:
    above, below = ratio
    alias = f"{above.column.name}_per_{below.column.name}"
    selects = [
        f"sum({above.sql}) / nullif(sum({below.sql}), 0) AS {quoted(alias)}",
        f"sum({above.sql}) AS {quoted(f'total_{above.column.name}')}",
        f"sum({below.sql}) AS {quoted(f'total_{below.column.name}')}",
    ]
    figures = [
        Figure(alias, f"total {above.label} divided by total {below.label}", above.unit),
        Figure(f"total_{above.column.name}", f"total {above.label}", above.unit),
        Figure(f"total_{below.column.name}", f"total {below.label}", below.unit),
    ]
    draft = Draft("groups" if dimensions else "scalar", selects, list(dimensions), figures)
    if dimensions:
        _order_groups(draft, intent)
    return draft


def _average_count(dimensions: tuple[Dimension, ...], counted: Counted) -> Draft:
    last = dimensions[-1]
    label = f"average {counted.label} per {last.label}"
    selects = [
        f"{counted.sql} / nullif(count(DISTINCT {last.sql}), 0) AS {quoted(alias_of(label))}",
        f"{counted.sql} AS {quoted(alias_of(counted.label))}",
        f"count(DISTINCT {last.sql}) AS {quoted(alias_of(last.label) + '_count')}",
    ]
    figures = [
        Figure(alias_of(label), label),
        Figure(alias_of(counted.label), counted.label),
        Figure(alias_of(last.label) + "_count", f"different {last.label} values that have rows"),
    ]
    others = list(dimensions[:-1])
    return Draft("groups" if others else "scalar", selects, others, figures, limit=_LISTED_GROUPS if others else 0)


def _share(asked: Asked) -> Draft | None:
    measures, dimensions, counted = asked.measures, asked.dimensions, asked.counted
    amount = f"sum({measures[0].sql})" if measures else "count(*)"
    base = f"total {measures[0].label}" if measures else (counted.label or "number of rows")
    unit = measures[0].unit if measures else ""
    values = [condition for condition in asked.conditions if not condition.is_period]
    parts = _numerator(asked.reading, values, needs_verb=bool(dimensions))
    if dimensions and not parts:
        return _distribution(dimensions, amount, Figure(alias_of(base), base, unit))
    if not parts:
        return None
    part = " AND ".join(condition.sql for condition in parts)
    selects = [
        f"100.0 * {amount} FILTER (WHERE {part}) / nullif({amount}, 0) AS share_percent",
        f"{amount} FILTER (WHERE {part}) AS part",
        f"{amount} AS whole",
    ]
    label = f"{base} where {listed(condition.said for condition in parts)}"
    if dimensions:
        label = f"share of {label}"
    figures = [Figure("share_percent", label, "%"), Figure("part", "part", unit), Figure("whole", "whole", unit)]
    draft = Draft("groups" if dimensions else "share", selects, list(dimensions), figures)
    draft.inside = tuple(condition.sql for condition in parts)
    if dimensions:
        _order_groups(draft, asked.intent)
    return draft


def _distribution(dimensions: tuple[Dimension, ...], amount: str, base: Figure) -> Draft:
    """Divide a whole among the groups."""
    selects = [
        f"100.0 * {amount} / nullif(sum({amount}) OVER (), 0) AS share_percent",
        f"{amount} AS {quoted(base.alias)}",
    ]
    figures = [Figure("share_percent", f"share of {base.label}", "%"), base]
    draft = Draft("groups", selects, list(dimensions), figures)
    names = ", ".join(quoted(dimension.alias) for dimension in dimensions)
    draft.order_by = f"share_percent DESC NULLS LAST, {names}"
    draft.limit = _LISTED_GROUPS
    return draft


_VERBS: Final = word_set("is was are were come came comes goes went go has had does did do lasted took")


def _numerator(reading: Reading, values: list[Condition], *, needs_verb: bool) -> list[Condition]:
    """Tell the part from the whole: what stands behind the verb is the part, unless everything stands before it."""
    verb = next((i for i, word in enumerate(reading.lower) if word in _VERBS and i > 1), len(reading.words))
    behind = [condition for condition in values if condition.position > verb]
    return behind if behind or needs_verb else values


_BORN: Final = frozenset(
    stem(word)
    for word in word_set("built born birth founded established launched commissioned age opened hired joined")
)


def _dated_rows(asked: Asked) -> Draft | None:
    reading, intent = asked.reading, asked.intent
    said = frozenset(word.stem for word in reading.words)
    dates = [field for field in reading.view.fields if field.kind == "date"]
    date: Field | None
    if intent.word in {"oldest", "newest", "youngest"}:
        born = [
            field for field in reading.view.fields if _BORN & set(field.tokens) and field.kind in {"date", "number"}
        ]
        date = next(iter(born), dates[0] if dates and reading.is_subject(intent.ordered_at) else None)
    else:
        date = next((field for field in dates if field.score(said) >= 0.5), dates[0] if dates else None)
    if date is None:
        return None
    is_last = (intent.order == "latest") != ("age" in date.tokens)
    named = _by_alias(reading, asked.dimensions) or [field for field in asked.fields if field.kind == "text"]
    draft = _rows_of(reading, [date, *asked.fields, *named])
    draft.names = tuple(field.column.name for field in named)
    draft.order_by = f"{date.sql} {'DESC' if is_last else 'ASC'}"
    draft.limit = intent.limit or 3
    draft.extra_where = [f"{date.sql} IS NOT NULL"]
    return draft


def _by_alias(reading: Reading, dimensions: tuple[Dimension, ...]) -> list[Field]:
    aliases = {dimension.alias for dimension in dimensions}
    return [field for field in reading.view.fields if field.column.name in aliases]


def _extreme_rows(asked: Asked) -> Draft | None:
    intent = asked.intent
    if not asked.measures or intent.aggregate not in {"", "max", "min"}:
        return None
    measure = asked.measures[0]
    draft = _rows_of(asked.reading, [measure, *asked.fields])
    draft.names = tuple(field.column.name for field in asked.fields if field.kind == "text")
    draft.figures = [Figure(measure.column.name, f"{intent.order} {measure.label}", measure.unit)]
    draft.order_by = f"{measure.sql} {'ASC' if intent.order == 'lowest' else 'DESC'}"
    draft.limit = max(intent.limit + 1, 3)
    draft.extra_where = [f"{measure.sql} IS NOT NULL"]
    return draft


def _listed_rows(asked: Asked) -> Draft | None:
    if not (asked.fields or asked.measures or asked.conditions or is_listing(asked.reading.text)):
        return None
    draft = _rows_of(asked.reading, [*asked.fields, *asked.measures])
    draft.limit = _LISTED_ROWS
    return draft


def _rows_of(reading: Reading, first: Sequence[Field]) -> Draft:
    """Show the columns that were asked for, and enough others to know a row by."""
    fields = list(dict.fromkeys([*first, *reading.view.fields]))[: max(7, len(first))]
    selects = [
        field.raw if field.raw == quoted(field.column.name) else f"{field.raw} AS {quoted(field.column.name)}"
        for field in fields
    ]
    figures = [Figure(field.column.name, field.label, field.unit) for field in dict.fromkeys(first)]
    return Draft(
        "rows", selects, figures=figures or [Figure(field.column.name, field.label, field.unit) for field in fields]
    )


def is_listing(question: str) -> bool:
    return bool(re.match(r"\s*(?:please\s+)?(?:list|show|which|what are|display|name)\b", question, re.IGNORECASE))
