"""From a question to one SQL query that says no more than the question does."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from activities.documents.catalog import Catalog, Table
from activities.models.extractive.conditions import find_conditions, leftover_conditions
from activities.models.extractive.intent import Dimension, Intent, find_dimensions, read_intent
from activities.models.extractive.reading import Condition, Reading
from activities.models.extractive.tables import Field, View, quoted, view_of, views
from activities.models.extractive.wording import listed, stem, stems

Form = Literal["scalar", "groups", "rows", "share"]

_LISTED_GROUPS: Final = 50
_LISTED_ROWS: Final = 20
_NAMES: Final = {
    "sum": "total", "avg": "average", "median": "median", "min": "lowest", "max": "highest", "stddev": "standard deviation of",
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A computed column of a result."""

    alias: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Query:
    """A query and what it means in words."""

    sql: str
    view: str
    title: str
    """What people know the table by."""
    documents: tuple[str, ...]
    form: Form
    dimensions: tuple[str, ...]
    """Result columns that name a row of the result."""
    figures: tuple[Figure, ...]
    conditions: tuple[str, ...]
    looked_for: tuple[str, ...]
    """Words that were looked for as text, because no known column or value answers to them."""
    ignored: tuple[str, ...]
    """Words of the question that the query does not take into account."""
    explained: float
    """Share of the question's words that the query takes into account."""
    has_operator: bool
    """Whether the question asks for a computation, rather than only naming a column."""
    has_count: bool = False
    """Whether it was asked how many there are."""
    order: str = ""
    limit: int = 0
    names: tuple[str, ...] = ()
    """Result columns that the question asks for by `which`, in a list of rows."""


@dataclass
class _Draft:
    form: Form
    selects: list[str]
    dimensions: list[Dimension] = field(default_factory=list[Dimension])
    figures: list[Figure] = field(default_factory=list[Figure])
    order_by: str = ""
    limit: int = 0
    extra_where: list[str] = field(default_factory=list[str])
    names: tuple[str, ...] = ()


def best_query(question: str, catalog: Catalog, *, look_for_text: bool = True) -> Query | None:
    """Write the query that accounts for most of a question, or None if no table has anything to do with it.

    `look_for_text` searches the texts for words that nothing answers to; without it they are left aside and named.
    """
    said = set(stems(question))
    best: tuple[float, Query] | None = None
    for view in views(catalog):
        query = _compile(question, view, look_for_text=look_for_text)
        if query is None:
            continue
        # What a table is called decides between tables that account for the same words.
        fit = query.explained + 0.01 * len(said & view.subject) / max(1, len(view.subject))
        if best is None or fit > best[0] + 1e-6:
            best = fit, query
    return best[1] if best else None


def profile_query(table: Table) -> Query:
    """Write the query that says how large a table is, what time it spans and what its figures add up to."""
    view = view_of(table)
    selects = ['count(*) AS "rows_in_all"']
    figures = [Figure("rows_in_all", f"rows in {table.name}")]
    for column in view.fields:
        alias = _alias(column.column.name)
        if column.kind == "date":
            selects += [
                f"min({column.sql}) AS {quoted(f'first_{alias}')}",
                f"max({column.sql}) AS {quoted(f'last_{alias}')}",
            ]
            figures += [
                Figure(f"first_{alias}", f"first {column.label}"),
                Figure(f"last_{alias}", f"last {column.label}"),
            ]
        elif column.is_measure:
            aggregate = "avg" if column.is_rate else "sum"
            selects.append(f"{aggregate}({column.sql}) AS {quoted(f'{_NAMES[aggregate]}_{alias}')}")
            figures.append(Figure(f"{_NAMES[aggregate]}_{alias}", f"{_NAMES[aggregate]} {column.label}", column.unit))
        elif column.kind == "text" and 1 < column.column.distinct < table.rows:
            selects.append(f"count(DISTINCT {column.sql}) AS {quoted(f'different_{alias}')}")
            figures.append(Figure(f"different_{alias}", f"different values of {column.label}"))
    return Query(
        sql=f"SELECT {', '.join(selects)}\nFROM {view.source_sql}",
        view=view.name,
        title=view.title,
        documents=(table.document,),
        form="scalar",
        dimensions=(),
        figures=tuple(figures),
        conditions=(),
        looked_for=(),
        ignored=(),
        explained=1.0,
        has_operator=True,
    )


def _compile(question: str, view: View, *, look_for_text: bool) -> Query | None:
    reading = Reading(question, view)
    conditions = find_conditions(reading)
    intent = read_intent(reading)
    ratio = _find_ratio(reading)
    dimensions = find_dimensions(reading, intent)
    dimensions = _with_compared_periods(reading, conditions, dimensions, intent)
    counted = _counted(reading, intent)
    measures = (ratio[0],) if ratio else _measures(reading, intent, counted)
    asked = _asked_fields(reading)
    _use_names(reading, conditions, dimensions, measures)
    is_anchored = bool(measures or asked or dimensions or any(not condition.is_period for condition in conditions))
    is_anchored = is_anchored or counted.sql.startswith("count(DISTINCT")
    is_about_rows = bool(view.subject & {word.stem for word in reading.words})
    wants_figure = bool(intent.aggregate or intent.order or intent.is_share)
    if not is_anchored and not (is_about_rows and (wants_figure or _is_listing(question))):
        return None
    explained = reading.explained
    looked_for = leftover_conditions(reading) if look_for_text else ()
    left = tuple(i for i in reading.left_over if i not in {condition.position for condition in looked_for})
    draft = _draft(reading, intent, conditions, dimensions, measures, counted, asked, ratio)
    if draft is None:
        return None
    has_operator = wants_figure or bool(dimensions) or bool(ratio)
    return Query(
        sql=_written(view, draft, (*conditions, *looked_for), intent),
        view=view.name,
        title=view.title,
        documents=tuple(dict.fromkeys(table.document for table in view.tables)),
        form=draft.form,
        dimensions=tuple(dimension.alias for dimension in draft.dimensions),
        figures=tuple(draft.figures),
        conditions=tuple(condition.said for condition in (*conditions, *looked_for)),
        looked_for=tuple(reading.words[condition.position].text for condition in looked_for),
        ignored=(*reading.unplaced, *(reading.words[i].text for i in left)),
        explained=explained,
        has_operator=has_operator,
        has_count=intent.aggregate in {"count", "distinct"} or bool(intent.order),
        order=intent.order,
        limit=intent.limit,
        names=draft.names,
    )


def _use_names(
    reading: Reading, conditions: Sequence[Condition], dimensions: Sequence[Dimension], measures: Sequence[Field]
) -> None:
    """Note the words that name a column in use: `affect` of `how many passengers did fog affect`."""
    names = {condition.field for condition in conditions} | {dimension.alias for dimension in dimensions}
    fields = [*measures, *(field for field in reading.view.fields if field.column.name in names)]
    reading.use(i for i in reading.left_over if any(reading.words[i].stem in field.tokens for field in fields))


def _is_listing(question: str) -> bool:
    return bool(re.match(r"\s*(?:please\s+)?(?:list|show|which|what are|display|name)\b", question, re.IGNORECASE))


def _find_ratio(reading: Reading) -> tuple[Field, Field] | None:
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


def _with_compared_periods(
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
class _Counted:
    """What `how many` counts: rows, different values of a column, or a column of numbers to add up."""

    sql: str
    label: str
    measure: Field | None = None


def _counted(reading: Reading, intent: Intent) -> _Counted:
    rows = _Counted("count(*)", "number of rows")
    position = intent.counted_at if intent.counted_at >= 0 else intent.ordered_at
    skipped = {"of", "the", "times", "separate", "individual", "our", "all"}
    while 0 <= position < len(reading.words) and (position in reading.used or reading.lower[position] in skipped):
        position += 1
    if not reading.is_free(position) or (intent.counted_at < 0 and not intent.is_many):
        return rows
    word = reading.words[position]
    measure = reading.field_at(position, lambda field: field.is_measure)
    if (
        measure
        and measure[0].likeness(word.stem) == 1.0
        and not reading.is_subject(position)
        and intent.aggregate != "distinct"
    ):
        return _Counted("", "", measure[0]) if intent.counted_at >= 0 else rows
    may_measure = intent.aggregate not in {"count", "distinct"} and measure is not None
    if may_measure:
        return rows
    if reading.is_subject(position) and intent.aggregate != "distinct":
        reading.use([position])
        return _Counted("count(*)", f"number of {word.lower}")
    named = reading.field_at(position, lambda field: field.is_groupable or field.is_key)
    if named and named[0].likeness(word.stem) == 1.0:
        reading.use(named[1])
        if named[0].column.distinct == reading.view.rows and intent.aggregate != "distinct":
            return _Counted("count(*)", f"number of {word.lower}")
        return _Counted(f"count(DISTINCT {named[0].sql})", f"number of different {word.lower}")
    return rows


def _measures(reading: Reading, intent: Intent, counted: _Counted) -> tuple[Field, ...]:
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
                for twin in _twins(reading, named[0], named[1]):
                    found.setdefault(twin.sql, twin)
                reading.use(named[1])
        if found:
            return tuple(found.values())[:3]
    if intent.hint:
        hinted = [field for field in reading.view.fields if field.is_measure and field.likeness(stem(intent.hint)) > 0]
        return tuple(hinted[:1])
    sole = [field for field in reading.view.fields if field.is_measure]
    return tuple(sole) if len(sole) == 1 and intent.aggregate in {"sum", "avg", "median", "stddev"} else ()


def _twins(reading: Reading, named: Field, positions: Sequence[int]) -> Iterator[Field]:
    """All columns that the same words name equally well: which one is meant cannot be known, so all are shown."""
    said = frozenset(reading.words[i].stem for i in positions)
    yield named
    for other in reading.view.fields:
        if other.is_measure and other != named and said <= set(other.tokens) and other.score(said) >= named.score(said):
            yield other


def _asked_fields(reading: Reading) -> tuple[Field, ...]:
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


def _draft(
    reading: Reading,
    intent: Intent,
    conditions: Sequence[Condition],
    dimensions: tuple[Dimension, ...],
    measures: tuple[Field, ...],
    counted: _Counted,
    asked: tuple[Field, ...],
    ratio: tuple[Field, Field] | None,
) -> _Draft | None:
    if ratio:
        return _ratio(ratio, dimensions, intent)
    if intent.order in {"latest", "earliest"}:
        return _dated_rows(reading, intent, dimensions, asked)
    if intent.is_share:
        return _share(reading, conditions, dimensions, measures, counted)
    if intent.aggregate == "avg" and intent.counted_at >= 0 and dimensions and not measures:
        return _average_count(dimensions, counted)
    figures = [_figure(measure, intent, has_dimensions=bool(dimensions)) for measure in measures]
    if intent.order and not dimensions:
        return _extreme_rows(reading, intent, measures, asked)
    wants_rows = not dimensions and not intent.aggregate
    unique = {field.column.name for field in reading.view.fields if field.column.distinct == reading.view.rows}
    is_lookup = any(condition.field in unique for condition in conditions)
    if wants_rows and (not measures or all(measure.is_rate for measure in measures) or asked or is_lookup):
        return _listed_rows(reading, measures, asked, conditions)
    if not figures:
        figures = [(counted.sql, Figure(_alias(counted.label), counted.label))]
    selects = [f"{sql} AS {quoted(figure.alias)}" for sql, figure in figures]
    if measures:
        selects.append(f'count({measures[0].sql}) AS "rows"')
    draft = _Draft("groups" if dimensions else "scalar", selects, list(dimensions), [figure for _, figure in figures])
    if dimensions:
        _order_groups(draft, intent)
    return draft


def _order_groups(draft: _Draft, intent: Intent) -> None:
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
    name = _NAMES[aggregate]
    label = measure.label if aggregate == "sum" and measure.label.startswith("total") else f"{name} {measure.label}"
    alias = measure.column.name if label == measure.label else f"{_alias(name)}_{measure.column.name}"
    return f"{aggregate}({measure.sql})", Figure(alias, label, measure.unit)


def _alias(label: str) -> str:
    return re.sub(r"\W+", "_", label.lower()).strip("_")


def _ratio(ratio: tuple[Field, Field], dimensions: tuple[Dimension, ...], intent: Intent) -> _Draft:
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
    draft = _Draft("groups" if dimensions else "scalar", selects, list(dimensions), figures)
    if dimensions:
        _order_groups(draft, intent)
    return draft


def _average_count(dimensions: tuple[Dimension, ...], counted: _Counted) -> _Draft:
    last = dimensions[-1]
    label = f"average {counted.label} per {last.label}"
    selects = [
        f"{counted.sql} / nullif(count(DISTINCT {last.sql}), 0) AS {quoted(_alias(label))}",
        f"{counted.sql} AS {quoted(_alias(counted.label))}",
        f"count(DISTINCT {last.sql}) AS {quoted(_alias(last.label) + '_count')}",
    ]
    figures = [
        Figure(_alias(label), label),
        Figure(_alias(counted.label), counted.label),
        Figure(_alias(last.label) + "_count", f"different {last.label} values that have rows"),
    ]
    others = list(dimensions[:-1])
    return _Draft("groups" if others else "scalar", selects, others, figures, limit=_LISTED_GROUPS if others else 0)


def _share(
    reading: Reading,
    conditions: Sequence[Condition],
    dimensions: tuple[Dimension, ...],
    measures: tuple[Field, ...],
    counted: _Counted,
) -> _Draft | None:
    amount = f"sum({measures[0].sql})" if measures else "count(*)"
    base = f"total {measures[0].label}" if measures else (counted.label if counted.label else "number of rows")
    unit = measures[0].unit if measures else ""
    share = Figure("share_percent", f"share of {base}", "%")
    if dimensions:
        selects = [
            f"100.0 * {amount} / nullif(sum({amount}) OVER (), 0) AS share_percent",
            f"{amount} AS {quoted(_alias(base))}",
        ]
        draft = _Draft("groups", selects, list(dimensions), [share, Figure(_alias(base), base, unit)])
        draft.order_by = (
            f"share_percent DESC NULLS LAST, {', '.join(quoted(dimension.alias) for dimension in dimensions)}"
        )
        draft.limit = _LISTED_GROUPS
        return draft
    values = [condition for condition in conditions if not condition.is_period]
    parts = _numerator(reading, values)
    if not parts:
        return None
    part = " AND ".join(condition.sql for condition in parts)
    selects = [
        f"100.0 * {amount} FILTER (WHERE {part}) / nullif({amount}, 0) AS share_percent",
        f"{amount} FILTER (WHERE {part}) AS part",
        f"{amount} AS whole",
    ]
    label = f"{base} where {listed(condition.said for condition in parts)}"
    figures = [Figure("share_percent", label, "%"), Figure("part", "part", unit), Figure("whole", "whole", unit)]
    return _Draft("share", selects, figures=figures)


def _numerator(reading: Reading, values: list[Condition]) -> list[Condition]:
    """Tell the part from the whole: what stands behind the verb is the part, unless everything stands before it."""
    verbs = {
        "is",
        "was",
        "are",
        "were",
        "come",
        "came",
        "comes",
        "goes",
        "went",
        "go",
        "has",
        "had",
        "does",
        "did",
        "do",
    }
    verb = next(
        (i for i, word in enumerate(reading.lower) if word in verbs and i > 1),
        len(reading.words),
    )
    behind = [condition for condition in values if condition.position > verb]
    return behind or values


_BORN: Final = frozenset(
    stem(word)
    for word in [
        "built",
        "born",
        "birth",
        "founded",
        "established",
        "launched",
        "commissioned",
        "age",
        "opened",
        "hired",
        "joined",
    ]
)


def _dated_rows(
    reading: Reading, intent: Intent, dimensions: tuple[Dimension, ...], asked: tuple[Field, ...]
) -> _Draft | None:
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
    named = _by_alias(reading, dimensions) or [field for field in asked if field.kind == "text"]
    draft = _rows_of(reading, [date, *asked, *named])
    draft.names = tuple(field.column.name for field in named)
    draft.order_by = f"{date.sql} {'DESC' if is_last else 'ASC'}"
    draft.limit = intent.limit or 3
    draft.extra_where = [f"{date.sql} IS NOT NULL"]
    return draft


def _by_alias(reading: Reading, dimensions: tuple[Dimension, ...]) -> list[Field]:
    aliases = {dimension.alias for dimension in dimensions}
    return [field for field in reading.view.fields if field.column.name in aliases]


def _extreme_rows(
    reading: Reading, intent: Intent, measures: tuple[Field, ...], asked: tuple[Field, ...]
) -> _Draft | None:
    if not measures:
        return None
    measure = measures[0]
    if intent.aggregate not in {"", "max", "min"}:
        return None
    draft = _rows_of(reading, [measure, *asked])
    draft.names = tuple(field.column.name for field in asked if field.kind == "text")
    draft.figures = [Figure(measure.column.name, f"{intent.order} {measure.label}", measure.unit)]
    draft.order_by = f"{measure.sql} {'ASC' if intent.order == 'lowest' else 'DESC'}"
    draft.limit = max(intent.limit + 1, 3)
    draft.extra_where = [f"{measure.sql} IS NOT NULL"]
    return draft


def _listed_rows(
    reading: Reading, measures: tuple[Field, ...], asked: tuple[Field, ...], conditions: Sequence[Condition]
) -> _Draft | None:
    if not (asked or measures or conditions or _is_listing(reading.text)):
        return None
    draft = _rows_of(reading, [*asked, *measures])
    draft.limit = _LISTED_ROWS
    return draft


def _rows_of(reading: Reading, first: Sequence[Field]) -> _Draft:
    """Show the columns that were asked for, and enough others to know a row by."""
    fields = list(dict.fromkeys([*first, *reading.view.fields]))[: max(7, len(first))]
    selects = [
        (field.sql if field.sql == quoted(field.column.name) else f"{field.sql} AS {quoted(field.column.name)}")
        for field in fields
    ]
    figures = [Figure(field.column.name, field.label, field.unit) for field in dict.fromkeys(first)]
    return _Draft(
        "rows", selects, figures=figures or [Figure(field.column.name, field.label, field.unit) for field in fields]
    )


def _written(view: View, draft: _Draft, conditions: Sequence[Condition], intent: Intent) -> str:
    where = [*(condition.sql for condition in conditions), *draft.extra_where]
    if draft.form == "share":
        part = draft.selects[0]
        where = [sql for sql in where if sql not in part]
    dimensions = [
        dimension.sql if dimension.sql == quoted(dimension.alias) else f"{dimension.sql} AS {quoted(dimension.alias)}"
        for dimension in draft.dimensions
    ]
    lines = [f"SELECT {', '.join([*dimensions, *draft.selects])}", f"FROM {view.source_sql}"]
    if where:
        lines.append(f"WHERE {' AND '.join(where)}")
    if draft.dimensions:
        lines.append("GROUP BY " + ", ".join(str(i) for i in range(1, len(draft.dimensions) + 1)))
    if draft.order_by:
        lines.append(f"ORDER BY {draft.order_by}")
    if draft.limit:
        lines.append(f"LIMIT {draft.limit}")
    return "\n".join(lines)
