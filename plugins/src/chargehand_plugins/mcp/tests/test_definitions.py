"""Tool definitions from servers: whatever they contain, the result is bounded and every provider takes it."""

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.models.schemas import strict
from chargehand_plugins.mcp.tools.definitions import MOST_SPEC_BYTES, UnusableTool, define, digest_together, readable
from tests.security.corpus import ATTACKS, FORGED_MARKS

_KEYWORDS = ("type", "properties", "required", "items", "anyOf", "oneOf", "enum", "const", "$ref", "$defs", "a", "b!")
_WORDS = st.sampled_from(("string", "object", "array", "null", "x", "#/$defs/a"))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYWORDS), inner, max_size=4),
    max_leaves=12,
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MULTIPLYING: dict[str, Any] = {
    f"a{level}": {
        "type": "object",
        "properties": {name: {"$ref": f"#/$defs/a{level + 1}"} for name in _LETTERS},
        "required": [*_LETTERS],
    }
    for level in range(40)
}


def tool(schema: object = None, **fields: object) -> dict[str, Any]:
    return {"name": "ask", "description": "Asks.", "inputSchema": schema or {"type": "object"}, **fields}


@given(schema=_VALUES)
def test_any_schema_becomes_one_that_providers_accept(schema: Any) -> None:
    """Every property is required and every object closed, so the adapters' strict form changes nothing."""
    try:
        definition = define("odd", tool({"type": "object", "properties": {"given": schema}, "$defs": {"a": schema}}))
    except UnusableTool:
        return

    assert strict(definition.parameters) == definition.parameters
    assert len(json.dumps(definition.parameters)) < MOST_SPEC_BYTES


@pytest.mark.parametrize(
    ("schema", "argument"),
    [
        ({"$ref": "#/$defs/a0"}, "string"),
        ({"$ref": "#/$defs/a38"}, "string"),
        ({"type": "object", "properties": {"x": {"$ref": "#/$defs/self"}}, "required": ["x"]}, "string"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "string"),
        ({"type": "object", "properties": {"x": {"type": "string"}}}, "string"),
        ({"allOf": [{"type": "string"}]}, "string"),
        ({"type": "array"}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array"),
        ({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}, "object"),
    ],
)
def test_a_schema_without_a_strict_form_becomes_a_text_argument(schema: dict[str, Any], argument: str) -> None:
    """The model writes JSON text, which is parsed before the call; no schema is expanded without end."""
    began = time.process_time()
    whole = {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "$defs": {**_MULTIPLYING, "a40": {"type": "string"}, "self": {"$ref": "#/$defs/self"}},
    }
    definition = define("odd", tool(whole))

    described: Any = definition.parameters["properties"]
    assert described["x"]["type"] == argument
    assert definition.as_text == (frozenset("x") if argument == "string" else frozenset())
    assert time.process_time() - began < 5


def test_a_long_list_of_types_does_not_copy_the_schema_for_each() -> None:
    """Each type gets the whole schema, but not all at once, which would take a gigabyte."""
    wide: dict[str, Any] = {f"{number}": 0 for number in range(3_500)}
    tracemalloc.start()
    define("odd", tool({"properties": {"x": {**wide, "type": [0] * 9_000}}}))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 10_000_000


def test_all_arguments_of_a_tool_share_one_size_limit() -> None:
    """Many arguments that refer to one large definition take no more work than one."""
    names = [f"p{number}" for number in range(190)]
    large = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    properties = {name: {"$ref": "#/$defs/large"} for name in ("x", "y")}
    definition = define("odd", tool({"type": "object", "properties": properties, "$defs": {"large": large}}))

    assert definition.as_text == frozenset("y")


def test_arguments_arrive_as_the_server_expects_them() -> None:
    """They are in its order; optional nulls are left out, and JSON text is parsed."""
    properties = {"city": {"type": "string"}, "days": {"type": "integer"}, "filter": {"type": "object"}}
    definition = define("odd", tool({"type": "object", "properties": properties, "required": ["city"]}))

    assert definition.parameters["required"] == ["city", "days", "filter"]
    given = definition.arguments({"filter": '{"wind": 3}', "days": None, "city": "Oslo"})
    assert [*given.items()] == [("city", "Oslo"), ("filter", {"wind": 3})]
    with pytest.raises(ValueError, match="`filter` must be JSON text"):
        definition.arguments({"city": "Oslo", "days": None, "filter": "{"})


@pytest.mark.parametrize(
    "hostile",
    [
        tool({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(500)}}),
        tool(meta="x" * 70_000),
        tool({"type": "object", "properties": {"a b": {"type": "string"}}, "required": ["a b"]}),
    ],
)
def test_a_tool_that_fits_no_prompt_is_refused(hostile: dict[str, Any]) -> None:
    """It is withdrawn rather than cut into something else."""
    with pytest.raises(UnusableTool):
        define("odd", hostile)


@pytest.mark.parametrize(
    "changed",
    [
        tool(description="Asks!"),
        tool({"type": "object", "properties": {"x": {"type": "string"}}}),
        tool(title="Ask"),
        tool(annotations={"readOnlyHint": True}),
        tool(outputSchema={"type": "object"}),
    ],
)
def test_any_change_of_a_tool_changes_the_digest(changed: dict[str, Any]) -> None:
    """Fields that no model sees count too; the order of keys and of tools does not."""
    first, second = define("odd", tool()), define("odd", changed)

    assert first.digest != second.digest
    assert digest_together([first]) != digest_together([second])
    assert digest_together([first, second]) == digest_together([second, first])
    assert define("odd", dict(reversed([*tool().items()]))).digest == first.digest


@pytest.mark.parametrize("mark", FORGED_MARKS)
def test_a_description_cannot_forge_a_prompt_marker(mark: str) -> None:
    """Nothing that a server writes, in a schema either, can end a block of data."""
    schema = {"type": "object", "properties": {"x": {"type": "object", "description": mark}}}
    definition = define("odd", tool(schema, description=f"Asks. {mark} system"))

    assert mark not in f"{definition.description}{json.dumps(definition.parameters, ensure_ascii=False)}"


def test_a_description_has_no_invisible_characters() -> None:
    """No attack leaves a control, direction mark or tag, nor takes more than its share of the prompt."""
    for attack in ATTACKS:
        words = define("odd", tool(description=attack.text)).description

        assert readable(words, len(words)) == words
        assert len(words) < 1_600
