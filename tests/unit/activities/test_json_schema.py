"""Schemas and data from outside: checking them always ends, and reads nothing else."""

from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from activities.json_schema import schema_problems, value_problems
from chargehand.contracts import SessionRequest

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
        pytest.param({"items": {"enum": [f"{n}" for n in range(3_500)]}}, ["3499"] * 500, id="a long enum"),
        pytest.param({"allOf": [{"uniqueItems": True}] * 20}, [f"{n}" for n in range(40_000)], id="a long list"),
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


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param({"$ref": "#/$defs/None"}, "s.$ref: must name a definition", id="nowhere"),
        pytest.param({"anyOf": [{"$ref": "#"}]}, "s: its schema refers to itself without end", id="itself"),
        pytest.param({"pattern": "(?=a)a"}, "s.pattern: is no regular expression", id="a pattern that can hang"),
        pytest.param({"properties": {"a": {"type": 1}}}, "s.properties.a.type: 1 is not valid", id="no schema"),
        pytest.param({"type": [{f"{n}": 0} for n in range(2_000)]}, "s.type: must be a type or a list", id="types"),
        pytest.param({"$schema": "https://example.com"}, "s.$schema: names another dialect", id="another dialect"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named_by_its_place(schema: dict[str, Any], problem: str) -> None:
    """Each problem says where it stands, and what is wrong."""
    [found] = schema_problems(schema, "s")

    assert found.startswith(problem)


@pytest.mark.parametrize("schema", [{"description": "long" * 10_000}, nested(40)])
def test_a_schema_is_measured_before_it_is_walked(schema: JsonValue) -> None:
    """A request refuses one that is too long or too deep."""
    with pytest.raises(ValidationError, match=r"has 40,018 bytes|more than 32 levels deep"):
        SessionRequest.model_validate({"goal": "a goal", "output_schema": schema})
