"""Answer shapes in the strict dialect of both providers."""

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from activities.models.schemas import UnfitSchema, answer_schema, with_data
from activities.turn_kinds.plan import PlanAnswer, ReviewAnswer
from activities.turn_kinds.protocol import SCHEMA_BYTES
from activities.turn_kinds.registry import TASK_TYPES
from activities.turn_kinds.synthesis import OutputAnswer
from tests.unit.activities.test_json_schema import DOUBLING

ANSWERS = tuple(kind.answer_type for kind in TASK_TYPES.values())


def schemas(schema: dict[str, Any]) -> list[dict[str, Any]]:
    inner: list[dict[str, Any]] = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [schema["items"]] if "items" in schema else []
    return [schema, *(found for one in inner for found in schemas(one))]


def _of_anthropic(schema: dict[str, Any]) -> Any:
    """Return a schema as Anthropic's SDK would send it."""
    import anthropic

    return simplified(anthropic.transform_schema(json.loads(json.dumps(schema))))


def test_answer_schemas_match_their_types() -> None:
    """They equal what OpenAI's SDK generates, Anthropic's SDK leaves them as is, and none has descriptions."""
    from openai.lib._pydantic import to_strict_json_schema

    for answer in ANSWERS:
        schema = answer_schema(answer)
        assert simplified(schema) == simplified(to_strict_json_schema(answer))
        assert _of_anthropic(schema) == simplified(schema)
        assert schema["title"] == answer.__name__
        assert len(json.dumps(schema).encode()) * 2 <= SCHEMA_BYTES
        assert not [part["description"] for part in schemas(schema) if "description" in part]


def simplified(schema: dict[str, Any], outer: dict[str, Any] | None = None) -> dict[str, Any]:
    """Reduce a schema to its structure: references resolved, no titles, prose or defaults, no type beside an enum."""
    definitions: dict[str, Any] = outer or schema.get("$defs", {})
    if "$ref" in schema:
        return simplified(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    kept = {key: value for key, value in schema.items() if key not in {"title", "description", "default", "$defs"}}
    if "enum" in kept:
        kept.pop("type", None)
    if "items" in kept:
        kept["items"] = simplified(kept["items"], definitions)
    if "anyOf" in kept:
        kept["anyOf"] = [simplified(inner, definitions) for inner in kept["anyOf"]]
    if "properties" in kept:
        kept["properties"] = {name: simplified(inner, definitions) for name, inner in kept["properties"].items()}
    return kept


def test_the_plan_schema_allows_only_existing_agents() -> None:
    """A provider that enforces the schema cannot return another agent's name."""
    for answer in (PlanAnswer, ReviewAnswer):
        agents = tuple(f"agent-{number:02}-of-a-crew-with-long-names" for number in range(20))
        schema = answer_schema(answer, agents)
        [subtask] = [inner for inner in schemas(schema) if "instruction" in inner.get("properties", {})]
        assert subtask["properties"]["agent"]["enum"] == list(agents)
        assert len(json.dumps(schema).encode()) * 2 <= SCHEMA_BYTES


def test_bounds_move_into_the_description() -> None:
    """Keywords that a provider would refuse in a schema are stated in words instead."""

    class Bounded(BaseModel):
        share: float = Field(ge=0, le=1)
        kind: Literal["one"]
        either: int | None

    assert answer_schema(Bounded) == {
        "title": "Bounded",
        "type": "object",
        "properties": {
            "share": {"description": "(minimum 0, maximum 1)", "type": "number"},
            "kind": {"type": "string", "enum": ["one"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["share", "kind", "either"],
        "additionalProperties": False,
    }


class Free(BaseModel):
    by_name: dict[str, int]


class Tree(BaseModel):
    children: list["Tree"]


class Anything(BaseModel):
    value: Any


def test_types_without_a_strict_schema_are_refused() -> None:
    """Mappings, recursive types and untyped properties are refused, and the error names their place."""
    cases: list[tuple[type[BaseModel], str]] = [
        (Free, "free property names at by_name; use a list"),
        (Tree, "'Tree' contains itself at children.items"),
        (Anything, "no type at value"),
    ]
    for shape, problem in cases:
        with pytest.raises(UnfitSchema, match=problem):
            answer_schema(shape)


class Line(BaseModel):
    amount: float
    note: str = ""


class Invoice(BaseModel):
    lines: list[Line]
    currency: Literal["EUR", "USD"]
    due: str | None = None


def test_the_providers_schema_includes_the_users_output_schema() -> None:
    """If it fits the strict dialect, it is part of the answer's schema; optional fields may be null."""
    schema: Any = with_data(answer_schema(OutputAnswer), Invoice.model_json_schema())

    data, nothing = simplified(schema)["properties"]["data"]["anyOf"]
    text, null = {"type": "string"}, {"type": "null"}
    line = {"amount": {"type": "number"}, "note": {"anyOf": [text, null]}}
    assert nothing == null
    assert data["properties"] == {
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": line, "required": [*line], "additionalProperties": False},
        },
        "currency": {"enum": ["EUR", "USD"]},
        "due": {"anyOf": [{"anyOf": [text, null]}, null]},
    }
    assert _of_anthropic(schema) == simplified(schema)


def _of_two_types(levels: int) -> dict[str, Any]:
    """Nest schemas that each allow an object or a list."""
    if not levels:
        return {"type": "string"}
    inner = _of_two_types(levels - 1)
    return {"type": ["object", "array"], "properties": {"x": inner}, "required": ["x"], "items": {"type": "string"}}


def test_output_schemas_outside_the_strict_dialect_become_text() -> None:
    """The data is then a JSON string, and the prompt describes its schema."""
    cases: list[dict[str, Any]] = [
        {"$ref": "#/$defs/a0", "$defs": DOUBLING},  # each definition uses the one below twice
        _of_two_types(30),  # two types at each level
        {"$ref": "#/$defs/a/items", "$defs": {"a": {"items": {"type": "null"}}}},  # part of another
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "string", "allOf": [{"minLength": 2}]},
        {"type": "object", "properties": {f"field_{number}": {"type": "string"} for number in range(200)}},
        {},
    ]
    for schema in cases:
        written: Any = with_data(answer_schema(OutputAnswer), schema)
        data, _ = written["properties"]["data"]["anyOf"]
        assert data["type"] == "string"
