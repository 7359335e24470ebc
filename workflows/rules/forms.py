"""Answers to forms: objects of plain values, as requested by MCP servers."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from itertools import zip_longest
from typing import Annotated, Final, Literal, cast

from pydantic import Field, JsonValue
from pydantic_core import SchemaError, SchemaValidator, core_schema

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


_EMAIL: Final = re.compile(r"\A[^@\s]+@[^@\s]+")
_URI: Final = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:\S+")
_ANYTHING: Final = re.compile(".*", re.DOTALL)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(_DATE.pattern + r"T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")
_FORMATS: Final[Mapping[str, tuple[re.Pattern[str], Callable[[str], object]]]] = {
    "email": (_EMAIL, str),
    "uri": (_URI, str),
    "date": (_DATE, date.fromisoformat),
    "date-time": (_MOMENT, datetime.fromisoformat),
}
"""The pattern and the parser of each: a well-formed date can still be impossible."""


class _Choice(Contract):
    const: JsonValue
    title: str = ""

    def __str__(self) -> str:
        return f"{self.const} ({self.title})" if self.title else str(self.const)


class _Options(Contract):
    enum: tuple[JsonValue, ...] = ()
    one_of: Annotated[tuple[_Choice, ...], Field(alias="oneOf")] = ()
    any_of: Annotated[tuple[_Choice, ...], Field(alias="anyOf")] = ()
    names: Annotated[tuple[str, ...], Field(alias="enumNames")] = ()

    @property
    def choices(self) -> tuple[_Choice, ...]:
        """Allowed values; empty for any."""
        named = zip_longest(self.enum, self.names[: len(self.enum)], fillvalue="")
        return (*(_Choice(const=value, title=title) for value, title in named), *self.one_of, *self.any_of)


class FormField(_Options):
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
    pattern: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of a number, or of the length of a text or list."""
        lengths = {"string": (self.min_length, self.max_length), "array": (self.min_items, self.max_items)}
        return lengths.get(self.type, (self.minimum, self.maximum))

    @property
    def limits(self) -> str:
        """Describe the constraints on a value; empty if there are none."""
        least, most = self.bounds
        what = {"string": " characters", "array": " values"}.get(self.type, "")
        constraints = [f"at least {least:g}{what}"] if least > (0 if what else -math.inf) else []
        constraints += [f"at most {most:g}{what}"] if most < math.inf else []
        constraints += [f"of the format {self.format}"] if self.type == "string" and self.format in _FORMATS else []
        constraints += [f"as the pattern {self.pattern}"] if self.type == "string" and self.pattern else []
        return ", ".join(constraints)

    @property
    def options(self) -> tuple[_Choice, ...]:
        return self.items.choices if self.type == "array" else self.choices

    def chosen(self, given: JsonValue) -> JsonValue:
        """Replace the title of a choice, which is what people see, with its value."""
        if isinstance(given, list):
            return [self.chosen(each) for each in given]
        values = [each.const for each in self.options]
        titled = [each.const for each in self.options if each.title and each.title == given]
        return titled[0] if given not in values and titled else given


class Form(Contract):
    """The part of a JSON Schema for an object of plain values that is checked here."""

    properties: Annotated[dict[str, FormField], Field(min_length=1, max_length=20)]
    required: tuple[str, ...] = ()


def read_form(schema: Mapping[str, JsonValue], text: str) -> dict[str, JsonValue]:
    """Parse an answer: a JSON object, or just the value if the form has one field.

    Raises:
        Refused: the answer does not fit; the message says what to write.
    """
    form = Form.model_validate(schema)
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        if len(form.properties) != 1:
            raise Refused(f"text: must be a JSON object with the fields {', '.join(form.properties)}")
        [(name, field)] = form.properties.items()
        answer = {name: _convert(text.strip(), answer, field)}
    defaults = {name: field.default for name, field in form.properties.items() if field.default is not None}
    fields = form.properties.items()
    content = defaults | cast("dict[str, JsonValue]", answer)
    content |= {name: field.chosen(content[name]) for name, field in fields if name in content}
    problems = [f"{name} is required" for name in form.required if name not in content]
    problems += [f"there is no {name[:40]}" for name in content if name not in form.properties]
    problems += [each for name, field in fields if name in content and (each := _problem(name, content[name], field))]
    if problems:
        raise Refused(f"text: {join_problems(problems)}")
    return content


def _convert(text: str, read: JsonValue, field: FormField) -> JsonValue:
    """Convert a text to the type of a field; unchanged if that is not possible."""
    if field.type == "boolean":
        return _TRUTHS.get(text.lower(), text)
    return text if field.type == "string" or read is None else read


def _problem(name: str, value: JsonValue, field: FormField) -> str:
    if not isinstance(value, _TYPES[field.type]) or (field.type != "boolean" and isinstance(value, bool)):
        return f"{name} must be of type {field.type}"
    size = len(value) if isinstance(value, str | list) else cast("float", value)
    is_fit = math.isfinite(size) and field.bounds[0] <= size <= field.bounds[1]
    if not is_fit or (isinstance(value, str) and not _is_written_right(value, field)):
        return f"{name} must be {field.limits or 'finite'}"
    items, values = value if isinstance(value, list) else [value], [each.const for each in field.options]
    if values and any(each not in values for each in items):
        return f"{name} must be one of {', '.join(map(str, field.options))}"
    return ""


def _is_written_right(value: str, field: FormField) -> bool:
    written, read = _FORMATS.get(field.format, (_ANYTHING, str))
    try:
        read(value)
        # In time linear in the text, for any pattern; one that cannot be checked so is left to the server.
        SchemaValidator(core_schema.str_schema(pattern=field.pattern or None)).validate_python(value)
    except ValueError:
        return False
    except SchemaError:
        pass
    return written.fullmatch(value) is not None
