"""Validation of custom JSON Schemas and of models' values, with bounded work, since both may be hostile.

A schema has no external references, its patterns run in linear time, and validation ends after a number of steps.
"""

import json
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote
from uuid import UUID

from jsonschema import Draft7Validator, Draft202012Validator, validators
from jsonschema.exceptions import ValidationError as InvalidValue
from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema, from_json
from referencing import Registry

from activities.models.replies import MOST_DEPTH
from chargehand.contracts import JsonSchema
from chargehand.contracts.problems import join_problems, printable
from chargehand.strict_json import depth

MOST_STEPS: Final = 100_000
"""Maximum number of steps: the keywords and inner schemas applied, and the items that each processes."""
_SCHEMA_STEPS: Final = 500_000
"""Maximum steps to check a schema against its dialect; the largest one takes half of that."""
MOST_PROBLEMS: Final = 10
"""Maximum problems reported at once."""
_PROBLEM_CHARACTERS: Final = 300
_UNSUPPORTED: Final = frozenset(
    (
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_OF_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose value is never a schema."""
_OF_NAMES: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords whose value maps names to schemas."""
_REFERENCE: Final = re.compile(r"#(?:/(\$defs|definitions)/([^/]+))?")
"""Allowed references: the whole schema or one of its definitions; other places may contain unchecked non-schemas."""
_TRIALS: Final[Sequence[JsonValue]] = (None, True, 0, 1.5, "", [], {})
_FORMATS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "date": TypeAdapter(date),
    "date-time": TypeAdapter(datetime),
    "time": TypeAdapter(time),
    "duration": TypeAdapter(timedelta),
    "uuid": TypeAdapter(UUID),
}
"""Checked formats, as parsed by pydantic; others are informational."""
_NOTHING_ELSE: Final[Registry[Any]] = Registry()  # pyright: ignore[reportUnknownArgumentType]  # its own default
"""The empty registry of external schemas."""
_PATTERN_PART: Final = re.compile(
    r"\\[pPuUx]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]?|\{(?:\d+,)?(?P<most>\d{1,6}),?\}|.", re.DOTALL
)
"""An escape, a class, a counted repetition, or one character."""
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_MOST_WEIGHT: Final = 15_000
"""Compiling takes about 3 microseconds per unit of weight and blocks other threads; with this limit, all patterns of a
schema together take less than 50 ms."""
_STATES_A_STEP: Final = 150
"""The engine takes about 10 nanoseconds per pattern state and character, so a step takes 1.5 microseconds."""
_ITEMS_A_STEP: Final = 20
"""Items that a keyword processes per step without applying another keyword."""
_STEPS_AN_ERROR: Final = 4
"""Steps charged for an error, which takes about a kilobyte."""
_ENDLESS: Final = "its schema refers to itself without end, or takes too many steps to check"


class _TooMuch(Exception):  # noqa: N818  # it is raised as a statement of fact
    """The work exceeds its bound."""


class _Bound:
    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise _TooMuch


_STEPS: Final[ContextVar[_Bound]] = ContextVar("steps")
_WEIGHT: Final[ContextVar[_Bound]] = ContextVar("weight of patterns")


def schema_problems(schema: JsonSchema, where: str) -> list[str]:
    """List why a schema is unusable, each with its location; empty if it is usable."""
    token = _WEIGHT.set(_Bound(_MOST_WEIGHT))
    try:
        refused = islice(_refusals(schema, schema, ""), MOST_PROBLEMS)
        problems = [f"{where}{path}: {problem}" for path, problem in refused]
    finally:
        _WEIGHT.reset(token)
    if problems:
        return problems
    validator = _validator_of(schema)
    if validator is None:
        return [f"{where}.$schema: names another dialect; leave it out, or name draft 2020-12 or draft 7"]
    # The library's own check is unbounded.
    if problems := _problems(validator(validator.META_SCHEMA), schema, where, _SCHEMA_STEPS):
        return problems[:1]
    tried = (problem for value in _TRIALS for problem in value_problems(schema, value, where))
    useless = (f"{where}: {_ENDLESS}", f"{where}: its schema cannot")
    return [*islice((problem for problem in tried if problem.startswith(useless)), 1)]


def value_problems(
    schema: JsonSchema, value: JsonValue, where: str = "value", most_steps: int = MOST_STEPS
) -> list[str]:
    """List the problems of a value, each with its path; empty if it is valid."""
    validator = _validator_of(schema)
    if validator is None:
        return [f"{where}: its schema names another dialect"]
    return _problems(validator(schema, registry=_NOTHING_ELSE), value, where, most_steps)


def _problems(validator: Any, value: JsonValue, where: str, most_steps: int) -> list[str]:
    token = _STEPS.set(_Bound(most_steps))
    try:
        return [_describe(error, where) for error in islice(validator.iter_errors(value), MOST_PROBLEMS)]
    except (_TooMuch, RecursionError):
        return [f"{where}: {_ENDLESS}"]
    except Exception as error:  # noqa: BLE001  # any failure on a hostile schema counts as the schema's fault
        return [f"{where}: its schema cannot be applied to it: {printable(str(error), _PROBLEM_CHARACTERS)}"]
    finally:
        _STEPS.reset(token)


def canonical(value: JsonValue) -> str:
    """Serialise JSON canonically, so that equal values have equal texts."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _refusals(schema: object, root: JsonSchema, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(schema, list):
        for number, inner in enumerate(cast("list[object]", schema)):
            yield from _refusals(inner, root, f"{path}.{number}")
    if not isinstance(schema, dict):
        return
    for keyword, value in cast("dict[str, object]", schema).items():
        place = f"{path}.{printable(keyword, 60)}"
        if keyword in _OF_VALUES:
            continue
        if keyword in _OF_NAMES and isinstance(value, dict):
            for name, inner in cast("dict[str, object]", value).items():
                yield from _refusals(inner, root, f"{place}.{printable(name, 60)}")
            continue
        if problem := _problem_of(keyword, value, root, is_root=not path):
            yield place, problem
        yield from _refusals(value, root, place)


def _problem_of(keyword: str, value: object, root: JsonSchema, *, is_root: bool) -> str:
    if keyword in _UNSUPPORTED:
        return "is not supported; describe the shape by properties, items, anyOf and local $ref"
    if keyword in {"$id", "$schema"} and not is_root:
        return "is allowed at the top only; refer to definitions by #/$defs/NAME"
    if keyword == "$ref" and not (isinstance(value, str) and _resolves(value, root)):
        return "must name a definition of this schema, such as #/$defs/NAME; nothing is fetched"
    if keyword == "pattern" and isinstance(value, str):
        return _pattern_problem(value)
    return ""


def _pattern_problem(pattern: str) -> str:
    try:
        _WEIGHT.get().take(_measure(pattern).weight)
        _pattern(pattern)
    except _TooMuch:
        return "repeats too much, beside the other patterns; use maxLength, or [a-z] instead of \\w"
    except PatternError:
        return "is no regular expression that runs in linear time; look-around and back-references are not"
    return ""


def _resolves(reference: str, root: JsonSchema) -> bool:
    match = _REFERENCE.fullmatch(unquote(reference))
    if match is None or match[1] is None:
        return match is not None
    definitions = root.get(match[1])
    name = match[2].replace("~1", "/").replace("~0", "~")
    return isinstance(definitions, dict) and isinstance(definitions.get(name), dict | bool)


def _describe(error: InvalidValue, where: str) -> str:
    path = "".join(f".{printable(str(part), 60)}" for part in error.absolute_path)
    return f"{where}{path}: {printable(error.message, _PROBLEM_CHARACTERS)}"


_Check = Callable[[Any, Any, Any, Any], Any]
"""A keyword of the library: validator, the keyword's value, the instance, the schema."""


@lru_cache(maxsize=500)
def _pattern(pattern: str) -> SchemaValidator:
    """Compile a pattern with pydantic's engine, which does not backtrack. Raises `PatternError`."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


class _Measured(NamedTuple):
    """The size of a pattern with repetitions expanded."""

    states: int
    """Upper bound of the number of states."""
    weight: int
    """Upper bound of its compilation cost."""

    def __add__(self, other: "_Measured") -> "_Measured":  # pyright: ignore[reportIncompatibleMethodOverride]  # no list
        return _Measured(self.states + other.states, self.weight + other.weight)

    def __mul__(self, times: int) -> "_Measured":  # pyright: ignore[reportIncompatibleMethodOverride]  # no list
        return _Measured(self.states * times, self.weight * times)


@lru_cache(maxsize=500)
def _measure(pattern: str) -> _Measured:
    """Compute upper bounds of a pattern's states and compilation cost."""
    sums, last = [_Measured(0, 0)], _Measured(0, 0)
    for part in _PATTERN_PART.finditer(pattern):
        if part[0] == "(":
            sums += [_Measured(0, 1)]
            last = sums[-1]
        elif part[0] == ")":
            last = sums.pop()
            sums = sums or [_Measured(0, 0)]
            sums[-1] += last
        elif part["most"]:
            sums[-1] += last * (int(part["most"]) - 1)
            last *= int(part["most"])
        elif part[0] in "|^$*+?":
            sums[-1] += _Measured(0, 3)
        else:
            last = _Measured(1, _weight(part[0]))
            sums[-1] += last
    return sum(sums, start=_Measured(0, 0))


def _weight(part: str) -> int:
    """Compute an upper bound of the compilation cost of a character, an escape or a class."""
    inner = part[1:]
    if part[0] == "[" and "[" in _ESCAPED.sub("", inner):
        return _MOST_WEIGHT + 1  # other engines read it as a character, but this one as a nested class
    escapes = [escape[0][1] for escape in _ESCAPED.finditer(part)]
    weights = sum(150 if escape in "wWpPbB" else 15 if escape.isalpha() else 0 for escape in escapes)
    return 3 + len(part) // 10 + weights


def _check_pattern(_: object, pattern: str, instance: object, __: object) -> Iterator[InvalidValue]:
    if isinstance(instance, str):
        _STEPS.get().take(_measure(pattern).states * len(instance) // _STATES_A_STEP)
    if isinstance(instance, str) and not _pattern(pattern).isinstance_python(instance):
        yield InvalidValue(f"does not match the pattern {pattern!r}")


def _check_format(_: object, name: object, instance: object, __: object) -> Iterator[InvalidValue]:
    known = _FORMATS.get(name) if isinstance(name, str) else None
    if known is None or not isinstance(instance, str):
        return
    _STEPS.get().take(len(instance) // 100)
    try:
        known.validate_json(json.dumps(instance))
    except ValidationError:
        yield InvalidValue(f"is not a {name}")


def _check_unique(_: object, is_unique: object, instance: object, __: object) -> Iterator[InvalidValue]:
    if is_unique and isinstance(instance, list):
        items = [canonical(item) for item in cast("list[JsonValue]", instance)]
        _STEPS.get().take(len(items) // 4 + sum(map(len, items)) // 100)
        if len(set(items)) < len(items):
            yield InvalidValue("has an item twice")


def _check_any(validator: Any, branches: Any, instance: object, _: object) -> Iterator[InvalidValue]:
    """Stop at each branch's first error: keeping all would make garbage collection block all threads."""
    if not any(validator.evolve(schema=branch).is_valid(instance) for branch in branches):
        yield InvalidValue(f"{reprlib.repr(instance)} is not valid under any of the given schemas")


def _check_one(validator: Any, branches: Any, instance: object, _: object) -> Iterator[InvalidValue]:
    valid = (branch for branch in branches if validator.evolve(schema=branch).is_valid(instance))
    count = len([*islice(valid, 2)])
    if count != 1:
        how = "each of several" if count else "none"
        yield InvalidValue(f"{reprlib.repr(instance)} is valid under {how} of the given schemas, instead of one")


def _count_steps(name: str, check: _Check) -> _Check:
    """Wrap a keyword to count its steps: its own value, the instance, and errors."""

    def counted(validator: object, value: object, instance: object, schema: object) -> Iterator[InvalidValue]:
        steps = _STEPS.get()
        gone_through = _length(value) + (0 if isinstance(instance, str) else _length(instance))
        steps.take(1 + gone_through // _ITEMS_A_STEP)
        if name in {"const", "enum"} and isinstance(instance, list | dict):
            steps.take(len(canonical(cast("JsonValue", value))) // 30)
        for error in check(validator, value, instance, schema) or ():
            steps.take(_STEPS_AN_ERROR + len(error.message) // 100)
            error.message = error.message[:_PROBLEM_CHARACTERS]
            yield error

    return counted


def _length(value: object) -> int:
    return len(cast("Sequence[object]", value)) if isinstance(value, list | dict | str) else 0


def _evolve(validator: Any, **changes: Any) -> Any:
    """Check an inner schema by the same dialect; the library's own method would use the inner schema's."""
    schema = changes["schema"]
    _STEPS.get().take(1 + _length(schema) // _ITEMS_A_STEP)
    # Pass on the resolver, as the library does.
    resolver = changes.get("_resolver", validator._resolver)  # noqa: SLF001  # it has no public name
    return type(validator)(schema, registry=_NOTHING_ELSE, _resolver=resolver)


def _count_errors(iter_errors: Callable[[Any, Any], Iterator[InvalidValue]]) -> Any:
    def counted(validator: object, instance: object) -> Iterator[InvalidValue]:
        _STEPS.get().take(1)
        for error in iter_errors(validator, instance):
            _STEPS.get().take(len(error.message) // 100)
            yield error

    return counted


def _bound_work(dialect: Any) -> Any:
    own = {"pattern": _check_pattern, "format": _check_format, "uniqueItems": _check_unique}
    own |= {"anyOf": _check_any, "oneOf": _check_one}
    counted = {name: _count_steps(name, check) for name, check in (dict(dialect.VALIDATORS) | own).items()}
    bounded = cast("Any", validators).extend(dialect, counted)
    bounded.evolve = _evolve
    bounded.iter_errors = _count_errors(bounded.iter_errors)
    return bounded


_DIALECTS: Final[Mapping[str, Any]] = {
    "https://json-schema.org/draft/2020-12/schema": _bound_work(Draft202012Validator),
    "http://json-schema.org/draft-07/schema": _bound_work(Draft7Validator),
}


def _validator_of(schema: JsonSchema) -> Any:  # the library's classes are created at run time
    """Find the validator of a schema's dialect; None if it names an unknown one."""
    named = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    return _DIALECTS.get(named.rstrip("#")) if isinstance(named, str) else None


def read_data(value: JsonValue, schema: JsonSchema | None, *, is_required: bool) -> tuple[JsonValue, str]:
    """Validate data; return it, or None and its problems.

    Args:
        value: the data as written by the model, or as JSON text.
        schema: None if no data is requested.
        is_required: whether null is a problem even if the schema does not allow it.
    """
    if schema is None or (value is None and not is_required):
        return None, ""
    # A string can be the data itself, or JSON text.
    candidates = [value, _parse(value)] if isinstance(value, str) else [value]
    if any(depth(candidate) > MOST_DEPTH for candidate in candidates):
        return None, f"data: is nested more than {MOST_DEPTH} levels deep"
    problems: list[str] = []
    for candidate in (*candidates, _without_nulls(candidates[-1])):
        problems = value_problems(schema, candidate, "data")
        if not problems:
            return candidate, ""
    return None, join_problems(problems)


def _parse(text: str) -> JsonValue:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def _without_nulls(value: JsonValue) -> JsonValue:
    """Drop properties that are null, since a model has to write optional properties too."""
    match value:
        case dict():
            return {name: _without_nulls(each) for name, each in value.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in value]
        case _:
            return value
