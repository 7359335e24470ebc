"""JSON Schemas in the strict dialect that every provider accepts: a pure translation.

Strict means: each object closed, each property required, no defaults, no references. Bounds that a provider would
refuse move into the description, and are checked when the reply is read.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_json

from activities.contracts.crew import SubtaskField
from activities.turn_kinds.protocol import SCHEMA_BYTES, SubtaskDraft
from chargehand.contracts import JsonSchema, Tier

Schema = dict[str, JsonValue]

_BOUNDS: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
)


_SUBTASK_FIELDS: Final[Mapping[SubtaskField, Mapping[str, object]]] = {
    "input": {"type": "string"},
    "tier": {"type": "string", "enum": ["", *Tier]},
    "deadline": {"type": "integer"},
    "max_output_tokens": {"type": "integer"},
}
_BEYOND: Final = frozenset(
    (
        "allOf",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "prefixItems",
        "propertyNames",
        "then",
    )
)
"""Keywords without an equivalent in the strict dialect."""
_PARTS: Final = frozenset({"items", "properties", "required"})
_TYPES: Final[Mapping[str, str]] = {"bool": "boolean", "int": "integer", "float": "number"}
_MOST_PARTS: Final = 5_000
"""Far more than providers accept; references can multiply a small schema."""
_MOST_UNIONS: Final = 12
"""Maximum unions, which multiply the grammar that providers compile from a schema."""


class UnfitSchema(ValueError):  # noqa: N818  # reads as a statement of fact
    """A schema uses a feature that strict structured output lacks; the message says which and where."""


@lru_cache(maxsize=256)
def answer_schema(
    answer_type: type[BaseModel], agents: tuple[str, ...] = (), fields: tuple[SubtaskField, ...] = ()
) -> Schema:
    """Build the schema of a model's final reply; its `title` is the name of the type. Do not modify the result.

    Args:
        agents: the agents that a subtask in the reply may name; any name if empty.
        fields: additional fields of subtasks in this crew.
    """
    written = _without_prose(answer_type.model_json_schema())
    subtask = written.get("$defs", {}).get(SubtaskDraft.__name__)
    if subtask and agents:
        subtask["properties"]["agent"]["enum"] = list(agents)
    if subtask:
        subtask["properties"] |= {name: _SUBTASK_FIELDS[name] for name in fields}
    return {"title": answer_type.__name__, **strict(written)}


def _without_prose(schema: Any) -> Any:
    """Drop the docstrings of our types, since a turn's instructions already explain its answer."""
    if isinstance(schema, list):
        return [_without_prose(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    named = cast("dict[str, Any]", schema)
    # A property may be called `description` too.
    return {
        name: _without_prose(each) for name, each in named.items() if name != "description" or not isinstance(each, str)
    }


def with_data(schema: Schema, data: JsonSchema) -> Schema:
    """Add the property `data` with a custom schema: in the strict dialect if possible, as JSON text otherwise.

    Args:
        schema: the schema of an answer, as built by `answer_schema`.
        data: the custom schema, which the prompt also describes; data may also be null.
    """
    text: Schema = {"type": "string", "description": "data as JSON text"}
    for shape in filter(None, (_native(data), text)):
        part: Schema = {"anyOf": [shape, {"type": "null"}]}
        properties: Schema = {**cast("Schema", schema["properties"]), "data": part}
        written: Schema = {**schema, "properties": properties, "required": [*properties]}
        # One provider's prompt has it twice.
        if len(to_json(written)) * 2 <= SCHEMA_BYTES:
            return written
    raise AssertionError("JSON text fits every answer")


def _native(schema: JsonSchema) -> Schema | None:
    """Translate a custom schema, with null for optional properties; None if the dialect cannot express it."""
    try:
        translated = strict({**cast("dict[str, Any]", _with_nulls(schema)), "$defs": _with_nulls_each(schema)})
    except (UnfitSchema, RecursionError):
        return None
    return translated if to_json(translated).count(b'"anyOf"') <= _MOST_UNIONS else None


def _with_nulls_each(schema: JsonSchema) -> dict[str, JsonValue]:
    definitions = schema.get("$defs")
    return {name: _with_nulls(each) for name, each in definitions.items()} if isinstance(definitions, dict) else {}


def _with_nulls(schema: JsonValue) -> JsonValue:
    """Allow null for each optional property, since the strict dialect requires every property."""
    if not isinstance(schema, dict) or _BEYOND.intersection(schema):
        raise UnfitSchema("it uses more than the strict dialect has")
    written = dict(schema)
    if not str(written.get("$ref", "#/$defs/")).startswith("#/$defs/") or written.get("additionalProperties") is True:
        raise UnfitSchema("it uses more than the strict dialect has")
    if isinstance(types := written.get("type"), list):
        if "anyOf" in written or "oneOf" in written:
            raise UnfitSchema("it uses more than the strict dialect has")
        return {"anyOf": [_with_nulls(_of_type(written, each)) for each in types]}
    for keyword in ("anyOf", "oneOf"):
        if isinstance(options := written.get(keyword), list):
            written[keyword] = [_with_nulls(option) for option in options]
    if "items" in written:
        written["items"] = _with_nulls(written["items"])
    properties, required = written.get("properties"), written.get("required", [])
    if isinstance(properties, dict) and isinstance(required, list):
        written["properties"] = {
            name: _with_nulls(each) if name in required else {"anyOf": [_with_nulls(each), {"type": "null"}]}
            for name, each in properties.items()
        }
    elif written.get("type") == "object":
        raise UnfitSchema("it names no properties")
    return written


def _of_type(schema: Mapping[str, JsonValue], kind: JsonValue) -> dict[str, JsonValue]:
    """Keep the parts of a schema that apply to one of its types."""
    parts = {"properties", "required"} if kind == "object" else {"items"} if kind == "array" else set[str]()
    return {name: each for name, each in schema.items() if name not in _PARTS - parts} | {"type": kind}


class _Definitions(NamedTuple):
    """The definitions of a schema, and how many parts may still be expanded."""

    named: Mapping[str, Any]
    parts: Iterator[int]


def strict(schema: Mapping[str, Any]) -> Schema:
    """Translate a schema, such as a tool's parameters, into the strict dialect."""
    return _translate(schema, _Definitions(schema.get("$defs", {}), iter(range(_MOST_PARTS))), ())


def _translate(schema: Mapping[str, Any], definitions: _Definitions, path: tuple[str, ...]) -> Schema:
    if next(definitions.parts, None) is None:
        raise UnfitSchema(f"more than {_MOST_PARTS:,} parts, with its references written out; leave some out")
    if "$ref" in schema:
        return _follow(schema, definitions, path)
    written: Schema = {}
    if description := _description(schema):
        written["description"] = description
    if "anyOf" in schema or "oneOf" in schema:
        options = cast("list[Mapping[str, Any]]", schema.get("anyOf") or schema.get("oneOf"))
        written["anyOf"] = [_translate(option, definitions, path) for option in options]
        return written
    if "const" in schema:
        written["type"] = _TYPES.get(type(schema["const"]).__name__, "string")
        written["enum"] = [schema["const"]]
        return written
    if "type" not in schema:
        raise UnfitSchema(f"no type at {_place(path)}; name one")
    written["type"] = schema["type"]
    if "enum" in schema:
        written["enum"] = list(schema["enum"])
    match schema["type"]:
        case "object":
            written |= _object(schema, definitions, path)
        case "array":
            written["items"] = _translate(schema.get("items", {}), definitions, (*path, "items"))
        case _:
            pass
    return written


def _follow(schema: Mapping[str, Any], definitions: _Definitions, path: tuple[str, ...]) -> Schema:
    name = str(schema["$ref"]).removeprefix("#/$defs/")
    if name not in definitions.named:
        raise UnfitSchema(f"a reference at {_place(path)} that names none of its $defs")
    if f"${name}" in path:
        raise UnfitSchema(f"'{name}' contains itself at {_place(path)}; answer shapes have a fixed depth")
    merged = {**definitions.named[name], "description": "", **schema}
    del merged["$ref"]
    return _translate(merged, definitions, (*path, f"${name}"))


def _object(schema: Mapping[str, Any], definitions: _Definitions, path: tuple[str, ...]) -> Schema:
    if isinstance(schema.get("additionalProperties"), Mapping):
        raise UnfitSchema(f"free property names at {_place(path)}; use a list of name and value instead")
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    translated: Schema = {name: _translate(inner, definitions, (*path, name)) for name, inner in properties.items()}
    return {"properties": translated, "required": list(properties), "additionalProperties": False}


def _description(schema: Mapping[str, Any]) -> str:
    bounds = [f"{name} {schema[name]}" for name in _BOUNDS if name in schema]
    text = str(schema.get("description", ""))
    return f"{text} ({', '.join(bounds)})".strip() if bounds else text


def _place(path: tuple[str, ...]) -> str:
    return ".".join(step for step in path if not step.startswith("$")) or "the top"
