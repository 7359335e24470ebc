"""JSON that means the same to every reader: refuses what readers of JSON disagree about, and says where it stands."""

import json
from collections.abc import Iterator
from typing import Final, cast

_LONGEST_NUMBER: Final = 400
"""Digits; the largest float has 309."""


class AmbiguousJson(ValueError):  # noqa: N818  # it is raised as a statement of fact
    """A text is not JSON, or not JSON that everybody reads alike."""

    def __init__(self, problem: str, where: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        """Path of the field, as far as there is one."""


class _Bad:
    """Stands where something was that cannot be used."""

    def __init__(self, problem: str) -> None:
        self.problem = problem


def refuse_ambiguous_json(data: bytes) -> None:
    """Refuse repeated keys, NaN, Infinity, endless numbers, lone surrogates, and what is no JSON at all.

    Raises:
        AmbiguousJson: naming the field, as far as there is one.
        RecursionError: it is nested too deeply to read.
    """
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
    found: dict[str, object] = {}
    for key, value in pairs:
        found[key] = _Bad(f"the key {key[:40]!r} occurs more than once") if key in found else value
    return found


def _number(digits: str) -> object:
    return _Bad(f"the input is a number of {len(digits)} digits") if len(digits) > _LONGEST_NUMBER else 0


def _problems(value: object, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match value:
        case _Bad():
            yield where, value.problem
        case str() if any("\ud800" <= character <= "\udfff" for character in value):
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
