"""Schemas and data from outside: checking them always ends, and reads nothing else."""

import tracemalloc
from functools import reduce
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic import JsonValue, ValidationError

from activities.json_schema import schema_problems, value_problems
from chargehand.contracts import SessionRequest
from tests.parameters import first_fast
from tests.processor_time import processor_seconds

DOUBLING: dict[str, Any] = {
    **{f"a{level}": {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(40)},
    "a40": {"type": "string"},
}


UNSUPPORTED = "is not supported; describe the shape by properties, items, anyOf and local $ref"


def nested(levels: int) -> JsonValue:
    return {"x": nested(levels - 1)} if levels else {}


def test_a_schema_with_exponential_cost_is_reported_as_a_problem() -> None:
    """Validation stops after a number of steps, and the value counts as invalid."""
    cases: list[tuple[dict[str, Any], JsonValue]] = [
        ({"$ref": "#/$defs/a0", "$defs": DOUBLING}, 1),  # each definition uses the one below twice
        ({"properties": {"x": {"anyOf": [{"$ref": "#"}] * 2}}, "required": ["y"]}, nested(30)),  # depth
        ({"not": {"$ref": "#"}}, 1),  # itself
        ({"items": {"enum": [f"{n}" for n in range(3_500)]}}, list[JsonValue](["3499"] * 500)),  # a long enum
        ({"items": {"const": [*range(3_000)]}}, list[JsonValue]([list[JsonValue](range(3_000))] * 50)),  # a long value
        ({"allOf": [{"uniqueItems": True}] * 20}, list[JsonValue](f"{n}" for n in range(40_000))),  # a long list
    ]
    for schema, value in cases:
        assert value_problems(schema, value, most_steps=5_000) == [
            "value: its schema refers to itself without end, or takes too many steps to check"
        ]


_LONG: list[Any] = [[0] * 20_000, {f"{n}": 0 for n in range(20_000)}, [{}] * 20_000, ["a" * 9_000] * 20]
_KEYWORDS = sorted({*Draft202012Validator.VALIDATORS, *Draft7Validator.VALIDATORS})
_SUPPORTED = [each for each in _KEYWORDS if UNSUPPORTED not in "".join(schema_problems({each: {}}, "s"))]


@pytest.mark.parametrize("keyword", first_fast(_SUPPORTED, 4, pytest.mark.nightly))
def test_every_keyword_is_charged_its_real_cost_in_steps(keyword: str) -> None:
    named: dict[str, JsonValue] = {f"{n}": {} for n in range(3_000)}
    values: tuple[JsonValue, ...] = (False, {}, named, [*named], "a" * 9_000)
    dialects = ("http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2020-12/schema")
    for dialect, value, instance in product(dialects, values, _LONG):
        schemas: list[dict[str, Any]] = [{"allOf": [{keyword: value}] * 1_000}, {"items": {keyword: value}}]
        for schema in schemas:
            with processor_seconds(0.3):
                value_problems({"$schema": dialect, **schema}, instance, most_steps=2_000)


def test_no_pattern_backtracks() -> None:
    schema: dict[str, Any] = {"type": "string", "pattern": "^(a+)+$"}

    assert schema_problems(schema, "s") == []
    assert value_problems(schema, "a" * 1_000) == []
    assert value_problems(schema, "a" * 100_000 + "b") == ["value: does not match the pattern '^(a+)+$'"]


DIALECTS = [
    *(f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)),
    *(f"https://json-schema.org/draft/{date}/schema" for date in ("2019-09", "2020-12")),
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_dialect_of_an_inner_schema_is_ignored(dialect: str) -> None:
    """The library would otherwise validate by that dialect, without limits and with backtracking patterns."""
    inner: dict[str, Any] = {"$schema": dialect, "pattern": "^(a+)+$"}
    schemas: list[dict[str, Any]] = [
        {"items": inner},
        {"$defs": {"a": inner}, "items": {"$ref": "#/$defs/a"}},
        inner | {"items": {"$ref": "#"}},
    ]
    for schema in schemas:
        with processor_seconds(1):
            problems = value_problems(schema, ["a" * 30 + "!"])
        assert not any("aaa" in each for each in problems)
    assert schema_problems({"items": inner}, "s")


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        st.sampled_from(["[01]", "\\w", "a", ".", "[^\\]x]", "\\{"]),
        lambda inner: (
            st.builds("(?:{})*1{{{}}}{}".format, inner, st.integers(1, 200), inner)
            | st.builds("({}){{{}}}x".format, inner, st.integers(1, 100))
        ),
    )
)
def test_matching_a_pattern_stays_within_its_step_budget(pattern: str) -> None:
    assume(not schema_problems({"pattern": pattern}, "s"))
    with processor_seconds(0.5):
        value_problems({"pattern": pattern}, "01" * 50_000)


@pytest.mark.parametrize("keyword", ["patternProperties", "unevaluatedProperties", "$dynamicRef", "$anchor"])
def test_keywords_that_bypass_the_step_limit_are_refused(keyword: str) -> None:
    """They are refused anywhere in the schema, but a property may have their name."""
    assert schema_problems({"items": {keyword: {}}}, "s") == [f"s.items.{keyword}: {UNSUPPORTED}"]
    assert schema_problems({"properties": {keyword: {"const": {keyword: 1}}}}, "s") == []


HOSTILE: list[Any] = [
    {"type": "object", "patternProperties": {"^(a+)+$": {"type": "null"}}},
    {"$ref": "file:///etc/passwd"},
    {"pattern": "(?=a)"},
]


@pytest.mark.parametrize("keyword", [*Draft202012Validator.VALIDATORS, "default", "examples", "unknown", "$defs"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_definitions_behind_references_are_checked(keyword: str, hostile: Any) -> None:
    for value, path in ((hostile, keyword), ([hostile], f"{keyword}/0"), ({"x": hostile}, f"{keyword}/x")):
        for schema in ({"$ref": f"#/{path}", keyword: value}, {"items": {"$ref": f"#/items/{path}", keyword: value}}):
            assert schema_problems(schema, "s")


@pytest.mark.parametrize("schema", [{"multipleOf": 1e-320}, {"multipleOf": 5e-324}, {"items": {"multipleOf": 1e-320}}])
def test_validator_exceptions_are_reported_as_schema_problems(schema: dict[str, Any]) -> None:
    values: list[JsonValue] = [[1.5], 1.5, 10**400]
    assert all(each.startswith("v") for value in values for each in value_problems(schema, value, "v"))


_BRANCH: dict[str, Any] = {"properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["z"]}
_DEEP = reduce(lambda inner, _: {"a": inner}, range(30), dict[str, JsonValue]())


@pytest.mark.parametrize(
    ("schema", "value", "most"),
    [
        *(
            ({"$ref": "#/$defs/a", "$defs": {"a": {each: [_BRANCH] * 3}}}, _DEEP, 1 << 19)
            for each in ("anyOf", "oneOf")
        ),
        ({"anyOf": [{"items": {"enum": ["a", "b"]}}] * 300}, [*range(30_000)], 4_000_000),
        ({"oneOf": [{"items": False}] * 300}, [*range(30_000)], 4_000_000),
    ],
)
def test_validation_errors_use_bounded_memory(schema: dict[str, Any], value: JsonValue, most: int) -> None:
    """However many branches are tried or reject items, memory per step is bounded: garbage collection would otherwise
    stall every thread.
    """
    tracemalloc.start()
    problems = value_problems(schema, value, "input", most_steps=10_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert problems
    assert peak < most


def test_values_are_validated_against_their_schema() -> None:
    cases: list[tuple[dict[str, Any], JsonValue, JsonValue]] = [
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-30"),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"a": 1}], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}, ["a", 1], [1]),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, None, 0),
    ]
    for schema, valid, invalid in cases:
        assert schema_problems(schema, "s") == []
        assert value_problems(schema, valid) == []
        assert len(value_problems(schema, invalid)) == 1


def test_an_unusable_schema_is_reported_with_its_location() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"$ref": "#/$defs/None"}, "s.$ref: must name a definition"),  # nowhere
        ({"anyOf": [{"$ref": "#"}]}, "s: its schema refers to itself without end"),  # itself
        ({"pattern": "(?=a)a"}, "s.pattern: is no regular expression"),  # a pattern that can hang
        ({"properties": {"a": {"type": 1}}}, "s.properties.a.type: 1 is not valid"),  # no schema
        ({"type": [{f"{n}": 0} for n in range(2_000)]}, "s.type: [{'0': 0}"),  # types
        ({"$schema": "https://example.com"}, "s.$schema: names another dialect"),  # another dialect
    ]
    for schema, problem in cases:
        [found] = schema_problems(schema, "s")
        assert found.startswith(problem)


@pytest.mark.parametrize("schema", [{"description": "long" * 10_000}, nested(40)])
def test_a_request_refuses_an_output_schema_that_is_too_long_or_deep(schema: JsonValue) -> None:
    """The size is measured before the schema is traversed."""
    with pytest.raises(ValidationError, match=r"has 40,018 bytes|more than 32 levels deep"):
        SessionRequest.model_validate({"goal": "a goal", "output_schema": schema})
