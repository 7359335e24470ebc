"""What a query computes, in words for people: from DuckDB's own parse of it. Runs in the child of a query."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

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
_TRANSPARENT: Final = frozenset({"lower", "upper", "trim", "strip_accents"})
"""Functions that do not change what a person would call the value."""
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
_PARSE: Final = "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true, skip_default := true)"
_YEAR: Final = re.compile(r"(\d{4})-01(?:-01)?")
_MOST_VALUES: Final = 3
_LONGEST: Final = 240


def query_words(connection: Any, sql: str) -> tuple[list[str], str]:
    """Return the names of the tables of a SELECT, and what it computes of them; empty if that has no short words."""
    parsed = json.loads(connection.execute(_PARSE, [sql]).fetchone()[0])
    node: Tree = parsed["statements"][0]["node"] if not parsed["error"] else {}
    if node.get("type") != "SELECT_NODE" or node["cte_map"]:
        return [], ""
    selected = node.get("select_list", ())
    names = {str(position): each for position, each in enumerate(selected, start=1)}
    names |= {each["alias"]: each for each in selected if each.get("alias")}
    groups = [_words(names.get(_words(each), each)) for each in node.get("group_expressions", ())]
    words = _computed(selected) + (f" by {', '.join(groups)}" if groups else "")
    condition = _words(node["where_clause"]) if "where_clause" in node else ""
    text = ", ".join(part for part in (words, condition) if part)
    return list(dict.fromkeys(_tables(node.get("from_table", {})))), text if len(text) <= _LONGEST else ""


def _computed(selected: Any) -> str:
    """Name the first figure of a selection, or else its first columns."""
    figures = [_words(each) for each in selected if each.get("function_name") in _AGGREGATES]
    return figures[0] if figures else ", ".join(_words(each) for each in selected[:_MOST_VALUES])


def _tables(tree: Tree) -> Iterator[str]:
    if tree.get("type") == "BASE_TABLE":
        yield tree["table_name"]
    for side in ("left", "right") if tree.get("type") == "JOIN" else ():
        yield from _tables(tree[side])


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
            return f"{_words(tree['left'])} {_COMPARISONS.get(tree['type'], '…')} {_words(tree['right'])}"
        case "BETWEEN":
            return _period(_words(tree["input"]), _words(tree["lower"]), _words(tree["upper"]))
        case "CONJUNCTION":
            joint = ", " if tree["type"] == "CONJUNCTION_AND" else " or "
            return joint.join(map(_words, tree["children"]))
        case "OPERATOR" if tree["type"] in _COMPARISONS:
            of, *values = map(_words, tree["children"])
            return _one_of(of, _COMPARISONS[tree["type"]], values)
        case _:
            return "…"


def _function(tree: Tree) -> str:
    name, arguments = tree["function_name"], [_words(each["expression"]) for each in tree.get("arguments", ())]
    if name in _TRANSPARENT:
        return arguments[0]
    if name in _AGGREGATES:
        return " ".join([_AGGREGATES[name], *arguments])
    if tree.get("is_operator"):
        return f" {'like' if name == '~~' else name} ".join(arguments)
    return f"{name}({', '.join(arguments)})"


def _one_of(of: str, comparison: str, values: list[str]) -> str:
    if len(values) > _MOST_VALUES:
        return _period(of, values[0], values[-1]) if comparison == "=" else f"{of} ≠ {values[0]} … {values[-1]}"
    return f"{of} {comparison} {' or '.join(values)}"


def _period(of: str, first: str, last: str) -> str:
    """Name a range, and a whole year by its number."""
    year = _YEAR.fullmatch(first)
    is_whole = year and last in (f"{year[1]}-12", f"{year[1]}-12-31")
    return year[1] if year and is_whole else f"{of} {first} to {last}"
