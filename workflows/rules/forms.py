"""What a person writes into a form: an object of plain values, as MCP servers ask for them."""

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, cast

from pydantic import Field, JsonValue

from chargehand.contracts import Contract
from chargehand.contracts.problems import join_problems
from workflows.rules.refusal import Refused

_TRUTHS: Final = {"true": True, "yes": True, "false": False, "no": False}
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
}


_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_DATE: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_MOMENT: Final = re.compile(_DATE.pattern + r"T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")
_FORMATS: Final = {
    "email": _EMAIL.fullmatch,
    "uri": _URI.fullmatch,
    "date": _DATE.fullmatch,
    "date-time": _MOMENT.fullmatch,
}


class _Choice(Contract):
    const: JsonValue


class _Options(Contract):
    enum: tuple[JsonValue, ...] = ()
    one_of: Annotated[tuple[_Choice, ...], Field(alias="oneOf")] = ()
    any_of: Annotated[tuple[_Choice, ...], Field(alias="anyOf")] = ()

    @property
    def values(self) -> tuple[JsonValue, ...]:
        """What may be chosen; empty if anything may."""
        return self.enum or tuple(each.const for each in (*self.one_of, *self.any_of))


class FormField(_Options):
    """One value of a form."""

    type: Literal["string", "boolean", "integer", "number", "array"]
    description: str = ""
    default: JsonValue = None
    items: _Options = _Options()
    format: str = ""
    minimum: float = -math.inf
    maximum: float = math.inf
    min_length: Annotated[int, Field(alias="minLength")] = 0
    max_length: Annotated[float, Field(alias="maxLength")] = math.inf
    min_items: Annotated[int, Field(alias="minItems")] = 0
    max_items: Annotated[float, Field(alias="maxItems")] = math.inf

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the most of a number, or of the length of what has one."""
        lengths = {"string": (self.min_length, self.max_length), "array": (self.min_items, self.max_items)}
        return lengths.get(self.type, (self.minimum, self.maximum))

    @property
    def limits(self) -> str:
        """Say what a value of the type has to be; empty if it may be any."""
        least, most = self.bounds
        what = {"string": " characters", "array": " values"}.get(self.type, "")
        said = [f"at least {least:g}{what}"] if least > (0 if what else -math.inf) else []
        said += [f"at most {most:g}{what}"] if most < math.inf else []
        said += [f"of the format {self.format}"] if self.type == "string" and self.format in _FORMATS else []
        return ", ".join(said)

    @property
    def choices(self) -> tuple[JsonValue, ...]:
        return self.items.values if self.type == "array" else self.values


class Form(Contract):
    """A JSON Schema of an object of plain values, as far as answers are checked here."""

    properties: Annotated[dict[str, FormField], Field(min_length=1, max_length=20)]
    required: tuple[str, ...] = ()


def read_form(schema: Mapping[str, JsonValue], text: str) -> dict[str, JsonValue]:
    """Read an answer: a JSON object, or just the value if one is asked for.

    Raises:
        Refused: it does not fit; the message says what to write.
    """
    form = Form.model_validate(schema)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        if len(form.properties) != 1:
            raise Refused(f"text: must be a JSON object with the fields {', '.join(form.properties)}")
        [(name, field)] = form.properties.items()
        given = {name: _typed(text.strip(), given, field)}
    defaults = {name: field.default for name, field in form.properties.items() if field.default is not None}
    content = defaults | cast("dict[str, JsonValue]", given)
    problems = [f"{name} is required" for name in form.required if name not in content]
    problems += [f"there is no {name[:40]}" for name in content if name not in form.properties]
    fields = form.properties.items()
    problems += [each for name, field in fields if name in content and (each := _problem(name, content[name], field))]
    if problems:
        raise Refused(f"text: {join_problems(problems)}")
    return content


def _typed(text: str, read: JsonValue, field: FormField) -> JsonValue:
    """Take a text for what a field wants; as it is, if it cannot be that."""
    if field.type == "boolean":
        return _TRUTHS.get(text.lower(), text)
    return text if field.type == "string" or read is None else read


def _problem(name: str, value: JsonValue, field: FormField) -> str:
    if not isinstance(value, _TYPES[field.type]) or (field.type != "boolean" and isinstance(value, bool)):
        return f"{name} must be of type {field.type}"
    size = len(value) if isinstance(value, str | list) else cast("float", value)
    matches = _FORMATS.get(field.format) if isinstance(value, str) else None
    is_fit = math.isfinite(size) and field.bounds[0] <= size <= field.bounds[1]
    if not is_fit or (matches and not matches(str(value))):
        return f"{name} must be {field.limits or 'finite'}"
    chosen = value if isinstance(value, list) else [value]
    if field.choices and any(each not in field.choices for each in chosen):
        return f"{name} must be one of {', '.join(map(str, field.choices))}"
    return ""
