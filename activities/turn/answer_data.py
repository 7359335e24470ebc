"""The data of a model's answer: read as the shape asks for that people chose, and checked by it."""

from pydantic import JsonValue
from pydantic_core import from_json

from activities.json_schema import value_problems
from activities.models.replies import MOST_DEPTH, depth
from chargehand.contracts import JsonSchema
from chargehand.contracts.problems import join_problems


def read_data(value: JsonValue, schema: JsonSchema | None, *, is_required: bool) -> tuple[JsonValue, str]:
    """Read data; returns it, or None and what is wrong with it.

    Args:
        value: as the model wrote it: the data, or the data as JSON text.
        schema: the shape, None if no data is asked for.
        is_required: whether null, where the shape does not allow it, is wrong too.
    """
    if schema is None or (value is None and not is_required):
        return None, ""
    # A string can be the data itself, or JSON text.
    candidates = [value, _parsed(value)] if isinstance(value, str) else [value]
    if any(depth(candidate) > MOST_DEPTH for candidate in candidates):
        return None, f"data: is nested more than {MOST_DEPTH} levels deep"
    problems: list[str] = []
    for candidate in (*candidates, _without_nulls(candidates[-1])):
        problems = value_problems(schema, candidate, "data")
        if not problems:
            return candidate, ""
    return None, join_problems(problems)


def _parsed(text: str) -> JsonValue:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def _without_nulls(value: JsonValue) -> JsonValue:
    """Leave out properties that are null: a model has to write every property, those that are optional too."""
    match value:
        case dict():
            return {name: _without_nulls(each) for name, each in value.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in value]
        case _:
            return value
