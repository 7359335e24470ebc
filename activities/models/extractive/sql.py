"""From a question to one SQL query that says no more than the question does."""

from collections.abc import Sequence
from dataclasses import dataclass

from activities.documents.catalog import Catalog, Table
from activities.models.extractive.amounts import (
    find_asked_fields,
    find_counted,
    find_measures,
    find_ratio,
    with_compared_periods,
)
from activities.models.extractive.conditions import find_conditions, leftover_conditions
from activities.models.extractive.forms import (
    AGGREGATE_NAMES,
    Asked,
    Draft,
    Figure,
    Form,
    alias_of,
    draft_of,
    is_listing,
)
from activities.models.extractive.intent import Dimension, find_dimensions, read_intent
from activities.models.extractive.reading import Condition, Reading
from activities.models.extractive.tables import (
    Field,
    View,
    quoted,
    view_of,
    views,
    with_columns_spelled_out,
    with_initials_joined,
)
from activities.models.extractive.wording import stems


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
    is_computed: bool = False
    """Whether a figure is asked for, rather than a list."""
    has_count: bool = False
    """Whether it was asked how many there are."""
    order: str = ""
    limit: int = 0
    inside: tuple[str, ...] = ()
    """Those of `conditions` that a share is about, and that do not restrict the rows."""
    names: tuple[str, ...] = ()
    """Result columns that the question asks for by `which`, in a list of rows."""


def best_query(question: str, catalog: Catalog, *, look_for_text: bool = True) -> Query | None:
    """Write the query that accounts for most of a question, or None if no table has anything to do with it.

    `look_for_text` searches the texts for words that nothing answers to; without it they are left aside and named.
    """
    question = with_initials_joined(with_columns_spelled_out(question, catalog), catalog)
    said = set(stems(question))
    best: tuple[float, Query] | None = None
    for view in views(catalog, question):
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
        alias = alias_of(column.column.name)
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
            for aggregate in ("avg" if column.is_rate else "sum", "min", "max"):
                name = AGGREGATE_NAMES[aggregate]
                selects.append(f"{aggregate}({column.sql}) AS {quoted(f'{name}_{alias}')}")
                figures.append(Figure(f"{name}_{alias}", f"{name} {column.label}", column.unit))
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
    ratio = find_ratio(reading)
    dimensions = find_dimensions(reading, intent)
    dimensions = with_compared_periods(reading, conditions, dimensions, intent)
    counted = find_counted(reading, intent)
    measures = (ratio[0],) if ratio else find_measures(reading, intent, counted)
    asked = find_asked_fields(reading)
    _use_names(reading, conditions, dimensions, measures)
    is_anchored = bool(measures or asked or dimensions or any(not condition.is_period for condition in conditions))
    is_anchored = is_anchored or counted.sql.startswith("count(DISTINCT")
    is_about_rows = bool(view.subject & {word.stem for word in reading.words})
    wants_figure = bool(intent.aggregate or intent.order or intent.is_share)
    if not is_anchored and not (is_about_rows and (wants_figure or is_listing(question))):
        return None
    is_unknown = intent.aggregate == "count" and not counted.noun and not measures
    if is_unknown and not any(condition.position >= 0 for condition in conditions):
        return None
    explained = reading.explained
    looked_for = leftover_conditions(reading) if look_for_text else ()
    left = tuple(i for i in reading.left_over if i not in {condition.position for condition in looked_for})
    draft = draft_of(Asked(reading, intent, conditions, dimensions, measures, counted, asked, ratio))
    if draft is None:
        return None
    has_operator = wants_figure or bool(dimensions) or bool(ratio)
    return Query(
        sql=_written(view, draft, (*conditions, *looked_for)),
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
        is_computed=wants_figure or bool(ratio),
        has_count=intent.aggregate in {"count", "distinct"} or bool(intent.order),
        order=intent.order,
        limit=intent.limit,
        inside=tuple(condition.said for condition in conditions if condition.sql in draft.inside),
        names=draft.names,
    )


def _use_names(
    reading: Reading, conditions: Sequence[Condition], dimensions: Sequence[Dimension], measures: Sequence[Field]
) -> None:
    """Note the words that name a column in use: `affect` of `how many passengers did fog affect`."""
    names = {condition.field for condition in conditions} | {dimension.alias for dimension in dimensions}
    fields = [*measures, *(field for field in reading.view.fields if field.column.name in names)]
    reading.use(i for i in reading.left_over if any(field.likeness(reading.words[i].stem) > 0 for field in fields))


def _written(view: View, draft: Draft, conditions: Sequence[Condition]) -> str:
    where = [condition.sql for condition in conditions if condition.sql not in draft.inside] + draft.extra_where
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
