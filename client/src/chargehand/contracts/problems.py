"""Descriptions of invalid values, identical for Python, commands, HTTP and payloads."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, get_args

from pydantic import BaseModel, ValidationError

DURATION_EXPECTED: Final = "must be a duration such as 90s, 10m, 1h30m or PT10M, or a number of seconds"
LONGEST_NAME: Final = 60
LONGEST_REASON: Final = 500
_MOST_PROBLEMS: Final = 20
_MOST_READ: Final = 20_000
"""If there are more problems, none is listed: pydantic would have to build them all."""
_KNOWN: Final = "; known are "
_WORDS: Final[Mapping[str, str]] = {
    "missing": "is required",
    **dict.fromkeys(("time_delta_parsing", "time_delta_type"), DURATION_EXPECTED),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type", "decimal_parsing"), "must be a number"),
    "string_type": "must be a string",
    "string_unicode": "must be Unicode text, in UTF-8",
    **dict.fromkeys(("list_type", "tuple_type", "frozen_set_type"), "must be an array"),
    "path_not_directory": "must be an existing folder",
    "path_not_file": "must be an existing file",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
}
"""Messages by pydantic error type, where its own would refer to Python values instead of JSON."""
_NO_FIELD: Final = re.compile(r"\[key\]|constrained-\w+|(tuple|list|dict)\[.*")
"""Parts of pydantic's paths that name keys and types instead of fields."""
_COUNTED: Final = re.compile(r" after validation, not \S+$")
"""The end of a message about a length, which could be that of a secret."""
_SHOULD: Final = re.compile(r"^[A-Z]\w*(?: input)? should ")
"""The beginning of pydantic's messages, which call each value an `Input` or a `String`."""
UNSEEN: Final = re.compile(
    "[\t\u00a0\u00ad\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164"
    "\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
"""Invisible characters and lookalikes of a space; some languages need a few of these."""


def join_problems(problems: Iterable[str]) -> str:
    """Join problems into one line, bounded in number and length."""
    listed = list(problems)
    # One more than are described; it can state how many there are.
    omitted = len(listed) - _MOST_PROBLEMS - 1
    written = [printable(each, LONGEST_REASON) for each in listed[: _MOST_PROBLEMS + 1]]
    return "; ".join([*written, f"and {omitted} more"] if omitted > 0 else written)


def describe_problems(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """Describe each problem of a validation error as `field: problem`, without quoting the input."""
    if error.error_count() > _MOST_READ:
        return [f"input: has {error.error_count():,} problems, too many to list"]
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    described = [
        f"{field_path(problem['loc'])}: {_sentence(problem['type'], problem['msg'], problem['loc'], model)}"
        for problem in problems[:_MOST_PROBLEMS]
    ]
    omitted = len(problems) - len(described)
    return [*_listing_once(described), *([f"and {omitted} more"] if omitted else [])]


def _listing_once(described: Iterable[str]) -> Iterator[str]:
    """List known fields only with the first of several problems that would all repeat the list."""
    seen: set[str] = set()
    for each in described:
        problem, _, known = each.partition(_KNOWN)
        yield problem if known in seen else each
        seen.update([known] if known else [])


def field_path(location: Sequence[int | str]) -> str:
    """Return the path of a field, if there is one."""
    parts = [printable(str(part), LONGEST_NAME) for part in location]
    return ".".join(part for part in parts if not _NO_FIELD.fullmatch(part)) or "input"


def printable(text: str, most: int) -> str:
    """Shorten untrusted text for a message, and replace its control characters."""
    return "".join(character if character.isprintable() else "\ufffd" for character in shorten(text, most))


def shorten(text: str, most: int) -> str:
    """Truncate a text to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    """Fold a text into one line of at most `most` characters."""
    return shorten(" ".join(text.split()), most)


def _sentence(kind: str, message: str, location: tuple[int | str, ...], model: type[BaseModel] | None) -> str:
    if kind != "extra_forbidden":
        sentence = _WORDS.get(kind) or _SHOULD.sub("must ", message.removeprefix("Value error, "))
        counted = _COUNTED.sub("", sentence)
        return counted.replace(" item", " character") if message.startswith("Value should have") else counted
    parent = _model_at(model, location[:-1])
    if parent is None:
        return "is not a known field"
    known = dict(_known_fields(parent))
    close = get_close_matches(str(location[-1])[:LONGEST_NAME], known.values(), n=1)
    meant = next((path for path, name in known.items() if name in close), None)
    if meant is not None:
        return f"is not a known field; did you mean '{meant}'?"
    return f"is not a known field{_KNOWN}{', '.join(parent.model_fields)}"


def _known_fields(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """List (path, name) of the fields of a model and of the models that are its fields."""
    yield from ((name, name) for name in model.model_fields)
    for name, field in model.model_fields.items():
        below = _model_in(field.annotation)
        if below is not None and not get_args(field.annotation):
            yield from ((f"{name}.{inner}", inner) for inner in below.model_fields)


def _model_at(model: type[BaseModel] | None, location: tuple[int | str, ...]) -> type[BaseModel] | None:
    for part in location:
        if isinstance(part, str):
            field = model.model_fields.get(part) if model else None
            model = _model_in(field.annotation) if field else None
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model type of a field, also within an optional or union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
