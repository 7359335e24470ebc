"""A query's result in words: the figure first, then what it was computed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from activities.contracts import ToolResult
from activities.models.extractive.sql import Figure, Query
from activities.models.extractive.wording import listed

_SHOWN_ROWS = 12
_SAID_GROUPS = 5

Row = Mapping[str, JsonValue]


@dataclass(frozen=True)
class Computed:
    """What a result says."""

    headline: str
    """One or two sentences with the numbers."""
    table: str = ""
    """A Markdown table, where there is more than fits a sentence."""
    is_empty: bool = False


def rows_of(result: ToolResult) -> list[Row]:
    """Read the rows of a result, whether they come as lists or by name."""
    columns = result.output.get("columns")
    rows = result.output.get("rows")
    if not isinstance(rows, list) or not isinstance(columns, list):
        return []
    names = [str(column) for column in columns]
    read: list[Row] = []
    for row in rows:
        if isinstance(row, list):
            read.append(dict(zip(names, row, strict=False)))
        elif isinstance(row, dict):
            read.append(row)
    return read


def put_in_words(query: Query, result: ToolResult) -> Computed:
    """Say what a query found, and over which rows."""
    rows = rows_of(result)
    over = _over(query, rows)
    figures = query.figures
    is_none_found = bool(query.looked_for) and bool(rows) and rows[0].get(figures[0].alias) == 0
    if not rows or is_none_found or (query.form in {"scalar", "share"} and rows[0].get(figures[0].alias) is None):
        return Computed(f"No row of {query.title} matches{_where(query)}.", is_empty=True)
    match query.form:
        case "scalar":
            said = [
                f"**{_capitalised(_name(figure))}: {written(rows[0].get(figure.alias), figure)}**"
                for figure in figures[:1]
            ]
            said += [f"{_name(figure)}: {written(rows[0].get(figure.alias), figure)}" for figure in figures[1:]]
            return Computed(f"{', '.join(said)}{over}.")
        case "share":
            row = rows[0]
            share, part, whole = (written(row.get(figure.alias), figure) for figure in figures)
            return Computed(f"**{share}** is the share of {figures[0].label}: {part} of {whole}{_where(query)}.")
        case "groups":
            return _groups(query, rows, over, result)
        case "rows":
            return _rows(query, rows, result)


def written(value: JsonValue, figure: Figure | None = None) -> str:
    """Write a value for people; a number with its unit."""
    unit = figure.unit if figure else ""
    suffix = f" {unit}" if unit else ""
    match value:
        case bool() | None:
            return {None: "none", True: "yes", False: "no"}[value]
        case int():
            return f"{value:,}{suffix}"
        case float():
            return f"{_amount(value, unit)}{suffix}"
        case _:
            return str(value)


def _amount(value: float, unit: str) -> str:
    if value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if unit == "%":
        return f"{value:.1f}"
    return f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def _name(figure: Figure) -> str:
    return figure.label


def _label(query: Query, row: Row) -> str:
    return " / ".join(plain(row.get(name)) for name in query.dimensions)


def plain(value: JsonValue) -> str:
    """Write a value as it stands in the table."""
    if value is None:
        return "(empty)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}" if not value.is_integer() else str(int(value))
    text = str(value)
    return text.removesuffix(" 00:00:00")


def _where(query: Query, *parts: str) -> str:
    """Say in brackets what restricts the rows, and how many there were."""
    said = [condition for condition in query.conditions if condition not in query.inside]
    inside = "; ".join([*said, *(part for part in parts if part)])
    return f" ({inside})" if inside else ""


def _over(query: Query, rows: Sequence[Row]) -> str:
    counts = [count for row in rows if isinstance(count := row.get("rows"), int)]
    total = sum(counts)
    if not counts and query.figures[0].label.startswith("number of ") and "different" not in query.figures[0].label:
        return _where(query, f"counting rows of {query.title}")
    place = f"{total:,} row{'' if total == 1 else 's'} of {query.title}" if counts and len(rows) < 50 else query.title
    return _where(query, place)


def _groups(query: Query, rows: list[Row], over: str, result: ToolResult) -> Computed:
    figure = query.figures[0]
    names = listed(_spaced(name) for name in query.dimensions)
    if query.order in {"highest", "lowest"}:
        return _ranked(query, rows, figure, _where(query))
    counts = {str(row.get(figure.alias)) for row in rows}
    if figure.label == "number of rows" and not query.has_count and counts == {"1"}:
        shown = [_label(query, row) for row in rows]
        more = _more(result, len(rows))
        return Computed(f"**{listed(shown)}**{more} ({'; '.join([names, *query.conditions])}).")
    said = "; ".join(f"{_label(query, row)} {written(row.get(figure.alias), figure)}" for row in rows[:_SAID_GROUPS])
    left = _total(result, rows) - min(len(rows), _SAID_GROUPS)
    more = f"; and {left} more" if left > 0 else ""
    headline = f"**{_capitalised(_name(figure))} by {names}**{over}: {said}{more}."
    is_all_said = len(rows) <= _SAID_GROUPS and len(query.figures) == 1 and len(query.dimensions) == 1
    return Computed(headline, "" if is_all_said else _table(query, rows))


def _ranked(query: Query, rows: list[Row], figure: Figure, where: str) -> Computed:
    asked = query.limit or 1
    rows = [row for row in rows if row.get(figure.alias) is not None]
    if not rows:
        return Computed(f"No row of {query.title} matches{where}.", is_empty=True)
    edge = rows[min(asked, len(rows)) - 1].get(figure.alias)
    first = [row for i, row in enumerate(rows) if i < asked or row.get(figure.alias) == edge]
    values = [f"**{_label(query, row)}** ({written(row.get(figure.alias), figure)})" for row in first]
    adjective = "lowest" if query.order == "lowest" else "highest"
    base = figure.label.removeprefix("highest ").removeprefix("lowest ")
    if asked > 1:
        tie = " (the last ones share their place)" if len(first) > asked else ""
        headline = f"The {len(first)} {adjective} by {base}{where}: {listed(values)}{tie}."
    elif len(first) > 1:
        headline = f"{listed(f'**{_label(query, row)}**' for row in first)} share the {adjective} {base}{where}: "
        headline += f"{written(edge, figure)} each."
    else:
        headline = f"**{_label(query, first[0])}** has the {adjective} {base}{where}: **{written(edge, figure)}**."
        following = [f"{_label(query, row)} {written(row.get(figure.alias), figure)}" for row in rows[1:4]]
        headline += f" Next: {', '.join(following)}." if following else ""
    return Computed(headline)


def _rows(query: Query, rows: list[Row], result: ToolResult) -> Computed:
    columns = list(rows[0])
    table = _markdown(
        [_spaced(column) for column in columns], [[plain(row.get(column)) for column in columns] for row in rows]
    )
    figure = query.figures[0]
    if query.order:
        first = rows[0].get(figure.alias)
        others = [
            f"{_spaced(name)} {plain(rows[0].get(name))}"
            for name in columns
            if name != figure.alias and rows[0].get(name) is not None
        ]
        name = figure.label if query.order in {"highest", "lowest"} else f"{query.order} {figure.label}"
        value = written(first, figure) if query.order in {"highest", "lowest"} else plain(first)
        ties = sum(1 for row in rows if row.get(figure.alias) == first)
        tie = f" {ties} rows share it." if ties > 1 else ""
        named = " / ".join(plain(rows[0].get(name)) for name in query.names if rows[0].get(name) is not None)
        if named:
            others = [
                f"{_spaced(key)} {plain(cell)}"
                for key, cell in rows[0].items()
                if key not in {figure.alias, *query.names} and cell is not None
            ]
            more = f" Its row: {', '.join(others)}." if others else ""
            return Computed(
                f"**{named}**: {name} **{value}**{_where(query, query.title)}.{tie}{more}",
                table if query.limit > 1 else "",
            )
        return Computed(
            f"**{_capitalised(name)}{_where(query)}: {value}** — {', '.join(others)}.{tie}",
            table if query.limit > 1 else "",
        )
    total = _total(result, rows)
    if len(query.figures) < len(columns) and len(rows) <= 3:
        said = "; ".join(
            ", ".join(
                f"{item.label} **{written(row.get(item.alias), item)}**"
                if _is_amount(row, item)
                else f"{item.label} **{plain(row.get(item.alias))}**"
                for item in query.figures
            )
            for row in rows
        )
        return Computed(f"{said[:1].upper()}{said[1:]}{_where(query, query.title)}.", table if len(rows) > 1 else "")
    return Computed(f"**{total:,} row{'' if total == 1 else 's'}** of {query.title}{_where(query)}.", table)


def _is_amount(row: Row, figure: Figure) -> bool:
    value = row.get(figure.alias)
    return bool(figure.unit) or isinstance(value, float) or (isinstance(value, int) and abs(value) >= 10_000)


def _table(query: Query, rows: list[Row]) -> str:
    heads = [*(_spaced(name) for name in query.dimensions), *(_name(figure) for figure in query.figures)]
    cells = [
        [
            *(plain(row.get(name)) for name in query.dimensions),
            *(written(row.get(figure.alias), figure) for figure in query.figures),
        ]
        for row in rows
    ]
    return _markdown(heads, cells)


def _markdown(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [
        f"| {' | '.join(cell.replace('|', '¦').replace(chr(10), ' ') for cell in row)} |" for row in cells[:_SHOWN_ROWS]
    ]
    if len(cells) > _SHOWN_ROWS:
        lines.append(f"\n… and {len(cells) - _SHOWN_ROWS} more rows.")
    return "\n".join(lines)


def _total(result: ToolResult, rows: Sequence[Row]) -> int:
    count = result.output.get("row_count")
    return count if isinstance(count, int) and not isinstance(count, bool) else len(rows)


def _more(result: ToolResult, shown: int) -> str:
    left = _total(result, []) - shown
    return f" and {left} more" if left > 0 else ""


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
