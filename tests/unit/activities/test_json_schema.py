"""Schemas and data from outside: checking them always ends, and reads nothing else."""

from typing import Any

import pytest
from pydantic import JsonValue

from activities.json_schema import schema_problems, value_problems

DOUBLING: dict[str, Any] = {
    **{f"a{level}": {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(40)},
    "a40": {"type": "string"},
}


def nested(levels: int) -> JsonValue:
    """Nest objects."""
    return {"x": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"$ref": "#/$defs/a0", "$defs": DOUBLING}, 1, id="each definition twice the one below"),
        pytest.param({"properties": {"x": {"anyOf": [{"$ref": "#"}] * 2}}, "required": ["y"]}, nested(30), id="depth"),
        pytest.param({"not": {"$ref": "#"}}, 1, id="itself"),
    ],
)
def test_a_schema_that_multiplies_ends_in_a_problem(schema: dict[str, Any], value: JsonValue) -> None:
    """What would take for ever is given up after a number of steps, and is no valid value."""
    assert value_problems(schema, value, most_steps=5_000) == [
        "value: its schema refers to itself without end, or takes too many steps to check"
    ]


def test_no_pattern_backtracks() -> None:
    """A pattern that hangs other engines takes linear time."""
    schema: dict[str, Any] = {"type": "string", "pattern": "^(a+)+$"}

    assert schema_problems(schema, "s") == []
    assert value_problems(schema, "a" * 1_000) == []
    assert value_problems(schema, "a" * 100_000 + "b") == ["value: does not match the pattern '^(a+)+$'"]


@pytest.mark.parametrize("keyword", ["patternProperties", "unevaluatedProperties", "$dynamicRef", "$anchor"])
def test_keywords_that_escape_the_bounds_are_refused(keyword: str) -> None:
    """Wherever they stand; but a property may have their name."""
    problem = "is not supported; describe the shape by properties, items, anyOf and local $ref"

    assert schema_problems({"items": {keyword: {}}}, "s") == [f"s.items.{keyword}: {problem}"]
    assert schema_problems({"properties": {keyword: {"const": {keyword: 1}}}}, "s") == []


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-30"),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"a": 1}], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}, ["a", 1], [1]),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, None, 0),
    ],
)
def test_values_are_checked_by_their_schema(schema: dict[str, Any], valid: JsonValue, invalid: JsonValue) -> None:
    """Formats, uniqueness, both dialects and references within the schema count."""
    assert schema_problems(schema, "s") == []
    assert value_problems(schema, valid) == []
    assert len(value_problems(schema, invalid)) == 1
