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


def test_a_schema_that_multiplies_ends_in_a_problem() -> None:
    """What would take for ever is given up after a number of steps, and is no valid value."""
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


@pytest.mark.parametrize(
    "keyword",
    first_fast(
        [
            keyword
            for keyword in sorted({*Draft202012Validator.VALIDATORS, *Draft7Validator.VALIDATORS})
            if UNSUPPORTED not in "".join(schema_problems({keyword: {}}, "s"))
        ],
        4,
        pytest.mark.nightly,
    ),
)
def test_no_keyword_is_cheaper_than_its_steps(keyword: str) -> None:
    """Long values, applied often to what is long, are given up in a moment, whatever the inner schemas are."""
    named: dict[str, JsonValue] = {f"{n}": {} for n in range(3_000)}
    values: tuple[JsonValue, ...] = (False, {}, named, [*named], "a" * 9_000)
    dialects = ("http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2020-12/schema")
    for dialect, value, instance in product(dialects, values, _LONG):
        schemas: list[dict[str, Any]] = [{"allOf": [{keyword: value}] * 1_000}, {"items": {keyword: value}}]
        for schema in schemas:
            with processor_seconds(0.3):
                value_problems({"$schema": dialect, **schema}, instance, most_steps=2_000)


def test_no_pattern_backtracks() -> None:
    """A pattern that hangs other engines takes linear time."""
    schema: dict[str, Any] = {"type": "string", "pattern": "^(a+)+$"}

    assert schema_problems(schema, "s") == []
    assert value_problems(schema, "a" * 1_000) == []
    assert value_problems(schema, "a" * 100_000 + "b") == ["value: does not match the pattern '^(a+)+$'"]


DIALECTS = [
    *(f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)),
    *(f"https://json-schema.org/draft/{date}/schema" for date in ("2019-09", "2020-12")),
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_dialect_of_an_inner_schema_counts(dialect: str) -> None:
    """The library would check what names a dialect by that one, without bounds, and with patterns that backtrack."""
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
def test_a_pattern_costs_no_more_than_its_steps(pattern: str) -> None:
    """However large the automaton is, matching a long text takes a moment, or is refused."""
    assume(not schema_problems({"pattern": pattern}, "s"))
    with processor_seconds(0.5):
        value_problems({"pattern": pattern}, "01" * 50_000)


@pytest.mark.parametrize("keyword", ["patternProperties", "unevaluatedProperties", "$dynamicRef", "$anchor"])
def test_keywords_that_escape_the_bounds_are_refused(keyword: str) -> None:
    """Wherever they stand; but a property may have their name."""
    assert schema_problems({"items": {keyword: {}}}, "s") == [f"s.items.{keyword}: {UNSUPPORTED}"]
    assert schema_problems({"properties": {keyword: {"const": {keyword: 1}}}}, "s") == []


HOSTILE: list[Any] = [
    {"type": "object", "patternProperties": {"^(a+)+$": {"type": "null"}}},
    {"$ref": "file:///etc/passwd"},
    {"pattern": "(?=a)"},
]


@pytest.mark.parametrize("keyword", [*Draft202012Validator.VALIDATORS, "default", "examples", "unknown", "$defs"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_hides_behind_a_reference(keyword: str, hostile: Any) -> None:
    """A reference leads to a definition, which is checked: whatever keyword holds what it names, as value or list."""
    for value, path in ((hostile, keyword), ([hostile], f"{keyword}/0"), ({"x": hostile}, f"{keyword}/x")):
        for schema in ({"$ref": f"#/{path}", keyword: value}, {"items": {"$ref": f"#/items/{path}", keyword: value}}):
            assert schema_problems(schema, "s")


@pytest.mark.parametrize("schema", [{"multipleOf": 1e-320}, {"multipleOf": 5e-324}, {"items": {"multipleOf": 1e-320}}])
def test_what_a_schema_makes_fail_is_its_problem(schema: dict[str, Any]) -> None:
    """Whatever the library raises is a problem that names the field."""
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
def test_the_problems_of_a_value_take_little_memory(schema: dict[str, Any], value: JsonValue, most: int) -> None:
    """However many branches are tried, or refuse however many items, what the library keeps of it has a bound for each
    step: the collector of garbage would hold every thread."""
    tracemalloc.start()
    problems = value_problems(schema, value, "input", most_steps=10_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert problems
    assert peak < most


def test_values_are_checked_by_their_schema() -> None:
    """Formats, uniqueness, both dialects and references within the schema count."""
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


def test_a_schema_that_cannot_be_used_is_named_by_its_place() -> None:
    """Each problem says where it stands, and what is wrong."""
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
def test_a_schema_is_measured_before_it_is_walked(schema: JsonValue) -> None:
    """A request refuses one that is too long or too deep."""
    with pytest.raises(ValidationError, match=r"has 40,018 bytes|more than 32 levels deep"):
        SessionRequest.model_validate({"goal": "a goal", "output_schema": schema})
