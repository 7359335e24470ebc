"""Hostile values and schemas: accepted or refused in the product's own words, and quickly."""

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import mcp_types
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic import JsonValue, TypeAdapter, ValidationError

from activities.backends import SettingsError
from activities.crews.files import CrewError, load_crew
from activities.json_schema import read_data, schema_problems, value_problems
from activities.models.protocol import LONGEST_TEXT
from activities.models.replies import tool_call
from chargehand.contracts import JsonSchema, Limits
from chargehand.errors import InvalidInput
from chargehand.listing import sessions_query
from chargehand.schedules import times
from chargehand_plugins.mcp.tools.connection import elicitation_of
from chargehand_plugins.mcp.tools.definitions import UnusableTool, define
from chargehand_plugins.tape.player import read_tape
from tests.processor_time import slowness, uncollected
from workflows.rules.forms import read_form
from workflows.rules.refusal import Refused

_NUMBERS: Final = (0, -1, 2**63, 10**400, 10**4_299, 1.5, 1e308, -0.0, 1e-320, 5e-324)
_WORDS: Final = (
    "", "a", "a" * 30 + "!", "\0", "\u202e", "é" * 5_000, "[" * 5_000, "9" * 5_000, "__proto__", "P1Y", "1e9",
)  # fmt: skip
_PATTERNS: Final = (
    "^(a+)+$", "(?=a)", "(a", r"\w{200}", r"^(\w{1,3}|\d{1,3}){1,60}$", "a?" * 3_000, "[" * 3_000, r"[[\w]b]{100}",
    r"\p{L}{200}", "(((a{9}){9}){9}){9}", "[" + "é" * 3_000 + "]{50}", "(?i)" + "ß" * 3_000,
)  # fmt: skip
_REFERENCES: Final = (
    "#", "#/$defs/a", "#/definitions/a", "#/$defs/" + "x" * 9_000, "#/default", "file:///etc/passwd", "",
)  # fmt: skip
_OF_NUMBERS: Final = ("minimum", "maximum", "multipleOf", "minItems", "maxLength", "minContains", "maxContains")
_SCALARS: Final = st.sampled_from(cast("list[JsonValue]", [None, True, False, *_NUMBERS, *_WORDS]))
_COUNTS: Final = st.sampled_from((1, 2, 20, 300, 3_000, 60_000))


def _repeated(item: JsonValue, count: int, most_bytes: int = 200_000) -> list[JsonValue]:
    return [item] * max(1, min(count, most_bytes // len(json.dumps(item))))


def _named(items: list[JsonValue]) -> dict[str, JsonValue]:
    return {f"{number}": item for number, item in enumerate(items)}


def _many(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Repeat a value as elements, as properties or by nesting."""
    repeated = st.builds(_repeated, items, _COUNTS)
    return (
        repeated
        | st.builds(_named, repeated)
        | st.builds(_nested, items, st.sampled_from((1, 20, 31, 60)), st.sampled_from(("a", "items", "")))
        | st.lists(items, max_size=4)
        | st.dictionaries(st.sampled_from((*_WORDS, *_KEYWORDS)), items, max_size=4)
    )


def _nested(item: JsonValue, levels: int, key: str) -> JsonValue:
    for _ in range(levels):
        item = {key: item} if key else [item]
    return item


_KEYWORDS: Final = tuple(
    sorted(
        {*Draft202012Validator.VALIDATORS, *Draft7Validator.VALIDATORS, "$defs", "definitions", "default", "$schema"}
    )
)
VALUES: Final = st.recursive(_SCALARS, _many, max_leaves=4)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Put schemas into every keyword, one or many of them, as a schema, a list, names, or an invalid schema."""
    many = st.builds(_repeated, inner, _COUNTS, st.just(30_000))
    keyword = st.tuples(st.sampled_from(_KEYWORDS), inner | many | st.builds(_named, many) | VALUES)
    return st.lists(keyword, min_size=1, max_size=3).map(dict[str, Any])


_DIFFERENT: Final[JsonValue] = [{f"{number}": 0} for number in range(3_000)]
_LEAVES: Final = st.sampled_from(
    cast(
        "list[JsonValue]",
        [
            *(True, False, {}, {"type": ["string"] * 3_000}, {"required": _DIFFERENT}, {"uniqueItems": True}),
            *({"dependencies": {"a": _DIFFERENT}}, {"$schema": "http://json-schema.org/draft-07/schema#"}),
            *({"pattern": pattern} for pattern in _PATTERNS),
            *({"$ref": name} for name in _REFERENCES),
            *({keyword: number} for keyword, number in product(_OF_NUMBERS, _NUMBERS)),
        ],
    )
)


def _defining(schema: JsonValue, definition: JsonValue) -> dict[str, JsonValue]:
    return {**schema, "$defs": {"a": definition}} if isinstance(schema, dict) else {"not": schema}


SCHEMAS: Final = st.builds(
    _defining, st.recursive(_LEAVES, _schemas, max_leaves=4), st.recursive(_LEAVES, _schemas, max_leaves=2)
)


class Place(NamedTuple):
    compute: Callable[[dict[str, Any], JsonValue], object]
    """Takes a schema and a value; its result is ignored, and so are expected exceptions."""
    seconds: float
    """Maximum processor time, several times the usual; larger where it runs in a thread beside the event loop, which
    does not block a worker."""
    refusals: tuple[type[Exception], ...] = ()


def _checked(schema: dict[str, Any], value: JsonValue) -> None:
    try:
        admitted = TypeAdapter[dict[str, Any]](JsonSchema).validate_python(schema)
    except ValidationError:
        return
    problems = schema_problems(admitted, "output_schema")
    assert all(each.startswith("output_schema") and len(each) < 3_000 for each in problems)
    if not problems and len(json.dumps(value)) <= LONGEST_TEXT:
        assert all(each.startswith("input") for each in value_problems(admitted, value, "input"))
        data, problem = read_data(value, admitted, is_required=True)
        assert (data is None) or not problem
        assert not problem or problem.startswith("data")


def _defined(schema: dict[str, Any], value: JsonValue) -> None:
    definition = define("server", {"name": "a", "inputSchema": {"properties": {"x": schema}}})
    assert definition.arguments({"x": value}).keys() <= {"x"}


def _formed(schema: dict[str, Any], value: JsonValue) -> None:
    form = {"type": "object", "properties": {"x": {"type": "string"} | schema}}
    asked = elicitation_of("server", mcp_types.ElicitRequestFormParams(message="?", requested_schema=form))
    if asked is not None:
        read_form(asked.form, json.dumps(value))


def _called(schema: dict[str, Any], value: JsonValue) -> None:
    for arguments in ({"x": value}, schema, json.dumps({"x": value}), value):
        call = tool_call(0, "a", "search", arguments, ["search"])
        written = arguments or "{}" if isinstance(arguments, str) else json.dumps(arguments)  # no arguments given
        assert call.malformed or call.arguments == json.loads(written)


def _crew(schema: dict[str, Any], value: JsonValue) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "odd.toml"
        written = (f"{name} = {_toml(each)}\n" for name, each in (("input", schema), ("output", schema)))
        head = f'name = "odd"\ndescription = {_toml(value)}\n[[agents]]\nname = "a"\ndescription = "b"\n'
        path.write_text(head + 'instructions = "c"\n' + "".join(written), encoding="utf-8", errors="replace")
        load_crew(path, {})


def _toml(value: object) -> str:
    match value:
        case dict():
            return (
                f"{{{', '.join(f'{json.dumps(name)} = {_toml(each)}' for name, each in cast('Any', value).items())}}}"
            )
        case list():
            return f"[{', '.join(map(_toml, cast('list[object]', value)))}]"
        case None:
            return '""'
        case _:
            return json.dumps(value)


def _played(schema: dict[str, Any], value: JsonValue) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tape.jsonl"
        lines = ({"chargehand_tape": 1, "worker": value}, {"turn": schema, "reply": value}, value)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        read_tape(path)


def _filtered(schema: dict[str, Any], value: JsonValue) -> None:
    for word in (value, json.dumps(schema)):
        sessions_query(crew=cast("Any", word) if isinstance(word, str) else "a", tenant=str(word)[:2_000])


def _timed(schema: dict[str, Any], value: JsonValue) -> None:
    for word in (value, schema):
        times(word if isinstance(word, str) else json.dumps(word), None, json.dumps(word))


def _lasting(schema: dict[str, Any], value: JsonValue) -> None:
    for duration in (value, schema):
        assert timedelta(0) < Limits.model_validate({"deadline": duration}).deadline


PLACES: Final = {
    "output schemas and data": Place(_checked, seconds=8),
    "tools of MCP servers": Place(_defined, seconds=0.5, refusals=(UnusableTool, ValueError)),
    "questions of MCP servers": Place(_formed, seconds=0.5, refusals=(Refused, ValidationError)),
    "calls of tools": Place(_called, seconds=0.5),
    "crew files": Place(_crew, seconds=8, refusals=(CrewError,)),
    "tapes": Place(_played, seconds=2, refusals=(SettingsError,)),
    "filters": Place(_filtered, seconds=0.5, refusals=(InvalidInput,)),
    "schedules": Place(_timed, seconds=0.5, refusals=(InvalidInput,)),
    "durations": Place(_lasting, seconds=0.5, refusals=(InvalidInput, ValidationError)),
}


@pytest.mark.parametrize("place", PLACES)
def test_hostile_values_are_accepted_or_refused_quickly(
    place: str, record_property: Callable[[str, object], None]
) -> None:
    at_night = settings.get_current_profile_name() == "nightly"
    worst, tried = 0.0, 0
    with suppress(*PLACES[place].refusals):
        PLACES[place].compute({}, None)  # triggers its imports

    @settings(
        max_examples=500 if at_night else 25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    @given(SCHEMAS, VALUES)
    @example({"allOf": [{"items": {}}] * 60}, [0] * 20_000)
    @example({**{f"{number}": 0 for number in range(3_500)}, "type": [0] * 9_000}, 1)
    def compute(schema: dict[str, Any], value: JsonValue) -> None:
        nonlocal worst, tried
        began = time.thread_time()
        try:
            PLACES[place].compute(schema, value)
        except PLACES[place].refusals as error:
            told = str(error)
            assert told
            assert len(told) < 20_000
        worst, tried = max(worst, (time.thread_time() - began) / slowness()), tried + 1
        assert worst < PLACES[place].seconds

    with uncollected():
        compute()
    record_property("cases", tried)
    record_property("seconds", worst)
