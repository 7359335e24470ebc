"""Describe in words what a query computes, from DuckDB's parse tree. Runs in the query's child process."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, cast

Tree = Mapping[str, Any]

_AGGREGATES: Final = {
    "sum": "sum of",
    "avg": "average of",
    "mean": "average of",
    "median": "median of",
    "min": "smallest",
    "max": "largest",
    "count": "number of",
    "count_star": "number of rows",
}
_FORMATS: Final = {"%Y": "year", "%m": "month", "%Y-%m": "month", "%Y-%m-%d": "day"}
_PARTS: Final = {part: part for part in ("year", "quarter", "month", "week", "day")} | _FORMATS
"""Functions and formats that take a part of a date."""
_TRANSPARENT: Final = frozenset(
    {"lower", "upper", "trim", "strip_accents", "round", "replace", "regexp_replace", "try_strptime", "any_value"}
)
"""Functions that do not change what a person would call the value."""
_OPERATORS: Final = {"~~": "like", "~~*": "like", "!~~": "not like", "!~~*": "not like", "regexp_matches": "matches"}
_COMPARISONS: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "≠",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": "≥",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "≤",
    "COMPARE_IN": "=",
    "COMPARE_NOT_IN": "≠",
}
_EMPTY: Final = {"OPERATOR_IS_NULL": "is empty", "OPERATOR_IS_NOT_NULL": "is not empty"}
_UNNAMED: Final = "…"
"""Replaces a part of the statement that has no short description, so that no part is omitted silently."""
_NAMED_PARTS: Final = frozenset(
    {"type", "cte_map", "select_list", "from_table", "where_clause", "having", "modifiers", "aggregate_handling"}
    | {"group_expressions", "group_sets"}
)
_PARSE: Final = "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true, skip_default := true)"
_MONTH: Final = re.compile(r"(\d{4})-(\d\d)")
_YEAR: Final = re.compile(r"(\d{4})-01(?:-01)?")
_MOST_VALUES: Final = 3
_LONGEST: Final = 240


def query_words(connection: Any, sql: str) -> tuple[list[str], str]:
    """Return the tables of a SELECT, and what it computes from them; empty if there is no short description."""
    parsed = json.loads(connection.execute(_PARSE, [sql]).fetchone()[0])
    node: Tree = parsed["statements"][0]["node"] if not parsed["error"] else {}
    tables = list(_tables(node.get("from_table", {})))
    if node.get("type") != "SELECT_NODE" or node["cte_map"] or "" in tables:
        return [], ""
    text = ", ".join(part for part in _parts(node) if part)
    return list(dict.fromkeys(tables)), text if len(text) <= _LONGEST else ""


def _parts(node: Tree) -> Iterator[str]:
    selected = node.get("select_list", ())
    names = {str(position): each for position, each in enumerate(selected, start=1)}
    names |= {each["alias"]: each for each in selected if each.get("alias")}
    grouped = [names.get(_words(each), each) for each in node.get("group_expressions", ())]
    groups = [*map(_words, grouped)]
    modifiers = {each["type"]: each for each in node.get("modifiers", ())}
    distinct = "different " if "DISTINCT_MODIFIER" in modifiers else ""
    yield distinct + _headline(selected, grouped) + (f" by {', '.join(groups)}" if groups else "")
    for condition in ("where_clause", "having"):
        words = _words(node[condition]) if condition in node else ""
        yield words if words != "true" else ""
    limit = modifiers.get("LIMIT_MODIFIER", {})
    yield f"at most {_words(limit['limit'])} rows" if "limit" in limit else ""
    is_grouped_once = len(node.get("group_sets", ())) <= 1 and node["aggregate_handling"] == "STANDARD_HANDLING"
    yield "" if node.keys() <= _NAMED_PARTS and "offset" not in limit and is_grouped_once else _UNNAMED


def _headline(selected: Sequence[Tree], grouped: Sequence[Tree]) -> str:
    """Name the first figure of a selection, or else its first columns."""
    keys = set(chain.from_iterable(map(_columns, grouped)))
    is_aggregated = grouped or any(map(_is_figure, selected))
    # Anything selected besides groups and known figures is a figure too, by a function without words here.
    figures = [each for each in selected if _is_figure(each) or (is_aggregated and not keys.issuperset(_columns(each)))]
    return _words(figures[0]) if figures else ", ".join(map(_words, selected[:_MOST_VALUES]))


def _columns(tree: Any) -> Iterator[str]:
    """Yield the names of the columns below a part of a statement."""
    if isinstance(tree, dict):
        parts = cast("Tree", tree)
        yield from parts["column_names"][-1:] if parts.get("class") == "COLUMN_REF" else _columns([*parts.values()])
    elif isinstance(tree, list):
        yield from chain.from_iterable(map(_columns, cast("list[Any]", tree)))


def _is_figure(tree: Tree) -> bool:
    operands = [each["expression"] for each in tree.get("arguments", ())]
    return tree.get("function_name") in _AGGREGATES or any(map(_is_figure, operands))


def _tables(tree: Tree) -> Iterator[str]:
    """Yield the names of the tables; an empty name for a source that is not a base table."""
    match tree.get("type"):
        case "JOIN":
            yield from _tables(tree["left"])
            yield from _tables(tree["right"])
        case "EMPTY" | None:
            pass
        case kind:
            yield tree["table_name"] if kind == "BASE_TABLE" and "sample" not in tree else ""


def _words(tree: Tree) -> str:  # noqa: PLR0911 - a table of classes
    match tree["class"]:
        case "COLUMN_REF":
            return str(tree["column_names"][-1])
        case "CONSTANT":
            return str(tree.get("literal", {}).get("text", ""))
        case "STAR":
            return "all columns"
        case "CAST":
            return _words(tree["child"])
        case "FUNCTION":
            return _function(tree)
        case "COMPARISON":
            return f"{_words(tree['left'])} {_COMPARISONS.get(tree['type'], _UNNAMED)} {_words(tree['right'])}"
        case "BETWEEN":
            return _period(_words(tree["input"]), _words(tree["lower"]), _words(tree["upper"]))
        case "CONJUNCTION":
            return _conjunction(tree)
        case "OPERATOR":
            return _operator(tree)
        case _:
            return _UNNAMED


def _conjunction(tree: Tree) -> str:
    if tree["type"] == "CONJUNCTION_AND":
        return ", ".join(map(_words, tree["children"]))
    # In a list of alternatives a comma would be ambiguous.
    parts = [_words(each) for each in tree["children"]]
    joint = [each["class"] == "CONJUNCTION" for each in tree["children"]]
    return " or ".join(f"({part})" if is_joint else part for part, is_joint in zip(parts, joint, strict=True))


def _operator(tree: Tree) -> str:
    kind, (of, *values) = tree["type"], [_words(each) for each in tree["children"]]
    if kind in _COMPARISONS:
        return _one_of(of, _COMPARISONS[kind], values)
    if kind in _EMPTY:
        return f"{of} {_EMPTY[kind]}"
    return f"not ({of})" if kind == "OPERATOR_NOT" and of != _UNNAMED else _UNNAMED


def _function(tree: Tree) -> str:
    name, arguments = tree["function_name"], [_words(each["expression"]) for each in tree.get("arguments", ())]
    if name in _TRANSPARENT:
        return arguments[0]
    if name in _AGGREGATES:
        different = ["different"] if tree.get("distinct") else []
        only = ["where", _words(tree["filter"])] if "filter" in tree else []
        return " ".join([_AGGREGATES[name], *different, *arguments, *only])
    if name in _PARTS and len(arguments) == 1:
        return f"{_PARTS[name]} of {arguments[0]}"
    if name in ("strftime", "date_trunc"):
        part, of = sorted(tree["arguments"], key=lambda each: each["expression"]["class"] != "CONSTANT")
        named = f"{_PARTS.get(_words(part['expression']), _UNNAMED)} of {_words(of['expression'])}"
        return re.sub(r"^(\w+) of \1$", r"\1", named)
    if tree.get("is_operator") or name in _OPERATORS:
        return f" {_OPERATORS.get(name, name)} ".join(arguments)
    return f"{name}({', '.join(arguments)})"


def _one_of(of: str, comparison: str, values: list[str]) -> str:
    """List the values; describe consecutive months as a period."""
    months = [int(match[1]) * 12 + int(match[2]) for match in map(_MONTH.fullmatch, values) if match]
    if comparison == "=" and len(months) == len(values) > 1 and months == [*range(months[0], months[0] + len(months))]:
        return _period(of, values[0], values[-1])
    named, rest = values[:_MOST_VALUES], len(values) - _MOST_VALUES
    *most, last = [*named, f"{rest} more"] if rest > 0 else named
    return f"{of} {comparison} {' or '.join(part for part in (', '.join(most), last) if part)}"


def _period(of: str, first: str, last: str) -> str:
    """Describe a range: a whole year by its number, a single value by itself."""
    year = _YEAR.fullmatch(first)
    is_whole = year and last in (f"{year[1]}-12", f"{year[1]}-12-31")
    if year and is_whole:
        return year[1]
    return f"{of} = {first}" if first == last else f"{of} {first} to {last}"
