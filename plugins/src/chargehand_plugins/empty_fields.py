"""Completion of replies written by people or older versions, by the answer's schema."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel, JsonValue

_EMPTY: Final[Mapping[str, JsonValue]] = {"string": "", "array": [], "boolean": False, "integer": 0, "number": 0}


@cache
def schema_of(answer_type: type[BaseModel]) -> Mapping[str, Any]:
    """Build the JSON Schema of an answer, cached because it dominates a scripted turn."""
    return answer_type.model_json_schema()


def with_empty_fields(
    value: JsonValue, schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None
) -> JsonValue:
    """Add missing required fields to a reply, each empty.

    Args:
        value: a part of the reply.
        schema: its JSON Schema.
        definitions: its referenced definitions; its own if it is the whole schema.
    """
    known = cast("Mapping[str, Any]", schema.get("$defs", {})) if definitions is None else definitions
    if "$ref" in schema:
        schema = known.get(str(schema["$ref"]).rpartition("/")[2], {})
    if isinstance(value, list):
        return [with_empty_fields(each, schema.get("items", {}), known) for each in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    properties = cast("Mapping[str, Mapping[str, Any]]", schema["properties"])
    absent = {
        name: properties[name].get("enum", [_EMPTY.get(str(properties[name].get("type")))])[0]
        for name in schema.get("required", ())
        if name not in value
    }
    return absent | {name: with_empty_fields(each, properties.get(name, {}), known) for name, each in value.items()}
