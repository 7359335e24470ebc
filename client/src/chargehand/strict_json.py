"""Strict JSON: refuses constructs on which parsers disagree, and walks through values.

`AmbiguousJson` states the location. Input from people or strangers is measured in bytes first, so that no
parser ever handles more than tens of thousands of values.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, cast

from pydantic import JsonValue

_LONGEST_NUMBER: Final = 400
"""Maximum digits; the largest float has 309."""
_DEEPEST: Final = 64
"""Maximum nesting; our own messages have ten levels, and tool arguments 32."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A JSON string, or the rest of the text if unterminated. Possessive, so that each byte is read once."""
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Surrogates left over after the parser has joined pairs."""
_REMEDY: Final = "Send less: upload documents and name them, or their folder, by address."
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class AmbiguousJson(ValueError):  # noqa: N818  # it is raised as a statement of fact
    """A text is not JSON, or is ambiguous between parsers."""

    def __init__(self, problem: str, where: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        """Path of the field, if there is one."""


def refuse_excess(data: bytes, most_bytes: int, most_values: int) -> None:
    """Refuse JSON that is too large, too deep or has too many values, before parsing it."""
    if len(data) > most_bytes:
        raise AmbiguousJson(f"has {len(data):,} bytes; at most {most_bytes:,} are allowed. {_REMEDY}")
    # A value has at most one key, so there are at most twice as many strings as values.
    outside, strings = _STRING.subn(b"", data, count=2 * most_values + 1)
    level = 0
    for bracket in outside.translate(None, _NO_BRACKETS)[: 2 * most_values]:
        level += 1 if bracket in b"[{" else -1
        if level > _DEEPEST:
            raise AmbiguousJson(f"is nested more than {_DEEPEST} levels deep; no field needs that")
    values = outside.count(b",") + outside.count(b"[") + outside.count(b"{")
    if strings > 2 * most_values or values > most_values:
        raise AmbiguousJson(f"has more than {most_values:,} values. {_REMEDY}")


class _Bad:
    """Placeholder for an unusable value."""

    def __init__(self, problem: str) -> None:
        self.problem = problem


def refuse_ambiguous_json(data: bytes) -> None:
    """Refuse repeated keys, NaN, Infinity, overlong numbers, lone surrogates, and invalid JSON."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise AmbiguousJson(f"is not UTF-8 text (byte {error.start + 1})") from None
    if text.startswith("\ufeff"):
        raise AmbiguousJson("begins with a byte order mark; save it as UTF-8 without one")
    try:
        value: object = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=lambda name: _Bad(f"{name} is not a number in JSON"),
            parse_int=_number,
            parse_float=_number,
        )
    except json.JSONDecodeError as error:
        message = error.msg.removesuffix(" at")
        raise AmbiguousJson(f"is not JSON: {message} at line {error.lineno}, column {error.colno}") from None
    for where, problem in _problems(value, ()):
        raise AmbiguousJson(problem, where)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        members[key] = _Bad(f"the key {key[:40]!r} occurs more than once") if key in members else value
    return members


def each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object, refusing repeated keys."""
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"names '{name[:60]}' twice; keep one")
        members[name] = value
    return members


def _number(digits: str) -> object:
    return _Bad(f"the input is a number of {len(digits)} digits") if len(digits) > _LONGEST_NUMBER else 0


def _problems(value: object, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match value:
        case _Bad():
            yield where, value.problem
        case str() if _LONE_SURROGATE.search(value):
            yield where, "the input has half of a surrogate pair, which is no text"
        case dict():
            for key, item in cast("dict[str, object]", value).items():
                yield from _problems(key, where)
                yield from _problems(item, (*where, key))
        case list():
            for position, item in enumerate(cast("list[object]", value)):
                yield from _problems(item, (*where, str(position)))
        case _:
            return


def map_texts(value: JsonValue, change: Callable[[str], str], change_name: Callable[[str], str] = str) -> JsonValue:
    """Apply a function to all texts of a value, including keys."""
    match value:
        case str():
            return change(value)
        case list():
            return [map_texts(each, change, change_name) for each in value]
        case dict():
            return {change_name(name): map_texts(each, change, change_name) for name, each in value.items()}
        case _:
            return value


def depth(value: JsonValue) -> int:
    """Return the nesting depth of lists and objects."""
    levels = 0
    level = [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        levels += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return levels
