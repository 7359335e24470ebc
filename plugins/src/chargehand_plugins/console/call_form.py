"""The arguments of a tool call that waits for a person: as they are read, and a field for each of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json
from starlette.datastructures import FormData

from chargehand_cli.rendering.escaping import json_text, one_safe_line, safe_text
from chargehand_plugins.console.problems import Problem, invalid
from chargehand_plugins.console.words import words

_FIELD: Final = "arguments."
_LONG: Final = 160
"""Characters; longer values are folded, and typed into a larger field."""


@dataclass(frozen=True)
class Argument:
    number: int
    name: str
    value: JsonValue

    @property
    def typed(self) -> str:
        """What its field holds: a text as it is but for hidden characters, anything else as JSON."""
        return safe_text(self.value) if isinstance(self.value, str) else self._json

    @property
    def shown(self) -> str:
        """What is read: a text that could be taken for something else stands in quotation marks."""
        is_plain = isinstance(self.value, str) and self.value.strip() and not is_json(self.value)
        return self.typed if is_plain else self._json

    @property
    def _json(self) -> str:
        return json_text(json.dumps(self.value, indent=2, ensure_ascii=False))

    @property
    def beginning(self) -> str:
        return one_safe_line(self.shown, _LONG)

    @property
    def is_folded(self) -> bool:
        return len(self.shown) > _LONG or "\n" in self.shown

    @property
    def is_long(self) -> bool:
        """Whether more than a line is typed."""
        return len(self.typed) > _LONG or "\n" in self.typed


def call_arguments(arguments: Mapping[str, JsonValue]) -> Iterator[Argument]:
    """List the arguments of a call, numbered from 1."""
    for number, (name, value) in enumerate(arguments.items(), start=1):
        yield Argument(number, name, value)


def has_arguments(form: FormData) -> bool:
    return any(name.startswith(_FIELD) for name in form)


def read_arguments(form: FormData) -> dict[str, JsonValue]:
    """Read the arguments that were typed; a field that is as it was leaves its argument so, to the character.

    Raises:
        Problem: what is no text is not JSON.
    """
    before = cast("dict[str, JsonValue]", _json("arguments", _text(form, "arguments")))
    read: dict[str, JsonValue] = {}
    for each in call_arguments(before):
        typed = _text(form, f"{_FIELD}{each.number}")
        if typed == each.typed:
            read[each.name] = each.value
        elif isinstance(each.value, str):
            read[each.name] = typed
        elif typed.strip():
            read[each.name] = _json(each.name, typed)
    more = _text(form, f"{_FIELD}more")
    label = words("forms", "more_arguments")
    added = _json(label, more) if more.strip() else {}
    if not isinstance(added, dict):
        raise _not_json(label)
    return read | added


def _text(form: FormData, name: str) -> str:
    """Return a text field; browsers send line ends as CR LF."""
    return str(form.get(name, "")).replace("\r\n", "\n")


def _not_json(name: str) -> Problem:
    why = words("forms", "not_json")
    return invalid("form", [f"{name}: {why}"])


def _json(name: str, text: str) -> JsonValue:
    try:
        return cast("JsonValue", from_json(text, allow_inf_nan=False))
    except ValueError as error:
        raise _not_json(name) from error


def is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True
