"""The two kinds of contracts: messages between our own processes, and values that people write."""

import ast
import inspect
import re
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    PlainSerializer,
    ValidationError,
    field_serializer,
)
from pydantic_core import CoreSchema, core_schema, to_json

from chargehand.contracts.problems import describe_problems, join_problems
from chargehand.errors import InvalidInput
from chargehand.strict_json import depth

_C = TypeVar("_C", bound="Contract")

_SCHEMA_BYTES: Final = 32_000
_SCHEMA_LEVELS: Final = 32
LARGEST_STORED_BYTES: Final = 50 << 20
"""Maximum size of a payload that is stored outside Temporal."""
MOST_STORED_VALUES: Final = 500_000
_NANODOLLAR: Final = Decimal("0.000000001")
# White space is allowed: pasted text has tabs, line ends and page breaks.
_CONTROLS: Final = r"\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
_CONTROL: Final = re.compile(f"[{_CONTROLS}]")
ALLOWED_CHARACTER: Final = f"[^{_CONTROLS}]"
_VISIBLE: Final = rf"[^\s{_CONTROLS}]"


class Contract(BaseModel):
    """A frozen value that crosses a boundary; unknown fields are ignored, so old readers accept new writers.

    Payloads omit defaults (see `chargehand.converter`), so the default of a field must never change.
    """

    # Most programs use few contracts; building all would take a fifth of the worker's import time.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    def __init__(self, /, **fields: Any) -> None:
        """Build a value in Python; invalid fields raise `InvalidInput`, caused by pydantic's error."""
        __tracebackhide__ = True
        try:
            self.__pydantic_validator__.validate_python(fields, self_instance=self)  # as in pydantic itself
        except ValidationError as error:
            problems = join_problems(describe_problems(error, type(self)))
            raise InvalidInput(f"Invalid {type(self).__name__}: {problems}") from error
        except RecursionError as error:  # pydantic tries a value for an enumeration, which prints it
            raise InvalidInput(f"Invalid {type(self).__name__}: input: is nested too deeply") from error

    # Marked as pydantic's own `__init__`, so that nested values bypass this one and keep their error locations.
    setattr(__init__, "__pydantic_base_init__", True)  # noqa: B010  # functions have no such attribute by type

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, without validation."""
        return self.model_copy(update=changes)

    def make(self, kind: type[_C], /, **own: Any) -> _C:
        """Build another contract from the fields that both have, plus its own."""
        both = {name: value for name, value in self if name in kind.model_fields}
        return kind(**both | own)

    @field_serializer("kind", "edit", check_fields=False)
    def _write_kind(self, kind: str):  # a return type would replace the kinds in the JSON Schema
        """Always write the discriminator, although it is the default."""
        return kind

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the fields by their docstrings.

        `use_attribute_docstrings` would do so for every class at import, which would take a third of all import time.
        """
        schema = handler(core_schema)
        described = handler.resolve_ref_schema(schema)
        properties = described.get("properties", {})
        for name, text in attribute_docstrings(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        for each in properties.values():
            if "patternProperties" in each:
                each["additionalProperties"] = False  # pydantic refuses other names
        # Discriminators are always written and required.
        if discriminators := [name for name in ("kind", "edit") if "const" in properties.get(name, {})]:
            described["required"] = [*dict.fromkeys([*discriminators, *described.get("required", ())])]
            for name in discriminators:
                properties[name].setdefault("description", f"Always `{properties[name]['const']}`.")
                properties[name].pop("default", None)
        return schema


@cache
def attribute_docstrings(of: type) -> dict[str, str]:
    """Return the attribute docstrings of a class and its bases."""
    inherited = {
        name: text
        for base in reversed(of.__bases__)
        if base not in {object, BaseModel, Generic}
        for name, text in attribute_docstrings(base).items()
    }
    try:
        definition: Any = ast.parse(dedent(inspect.getsource(of))).body[0]
    except (OSError, TypeError):  # created at run time
        return inherited
    own = {}
    for attribute, below in pairwise(definition.body):
        match attribute, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                own[name] = inspect.cleandoc(text)
            case _:
                pass
    return inherited | own


class Message(Contract):
    """A contract that anyone with access to the namespace can send; its size is checked before it is parsed."""

    largest_bytes: ClassVar[int] = 1_000_000
    """As JSON."""
    most_values: ClassVar[int] = 20_000
    """Maximum number of objects, arrays and values in them."""


class TypedByPeople(Message):
    """A contract that people write by hand; an unknown field is an error that names it."""

    model_config = ConfigDict(extra="forbid")


def contract(kind: type[_C], /, **fields: object) -> _C:
    """Build a contract from a caller's arguments; None counts as absent."""
    return kind(**{name: value for name, value in fields.items() if value is not None})


def without_control_characters(text: str) -> str:
    """Remove control characters, except white space."""
    return _CONTROL.sub("", text)


def _refuse_control_characters(text: str) -> str:
    match = _CONTROL.search(text)
    if match:
        raise ValueError(f"has a control character (U+{ord(match[0]):04X} at {match.start() + 1}); remove it")
    return text


def left_out(default: Any) -> Any:
    """Declare a field that is omitted from payloads and all other JSON when it has its default."""
    return Field(default=default, exclude_if=lambda value: value == default)


def _refuse_large_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if depth(schema) > _SCHEMA_LEVELS:
        raise ValueError(f"is nested more than {_SCHEMA_LEVELS} levels deep")
    if (size := len(to_json(schema))) > _SCHEMA_BYTES:
        raise ValueError(f"has {size:,} bytes; at most {_SCHEMA_BYTES:,} are allowed")
    return schema


JsonSchema = Annotated[dict[str, JsonValue], AfterValidator(_refuse_large_schema)]
"""A JSON Schema (draft 2020-12 or 7) of at most 32,000 bytes and 32 levels, without external references."""


class _WithoutControlCharacters(AfterValidator):
    """Refuses control characters, also in JSON Schemas, where stripped texts are measured without surrounding space."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        least = schema.get("minLength", 0) if core_schema["schema"].get("strip_whitespace") else 0
        inner = f"{ALLOWED_CHARACTER}{{{least - 2},}}{_VISIBLE}" if least > 1 else ""
        schema.setdefault(
            "pattern",
            f"^{ALLOWED_CHARACTER}*{_VISIBLE}{inner}{ALLOWED_CHARACTER}*$" if least else f"^{ALLOWED_CHARACTER}*$",
        )
        return schema


NoControlCharacters = _WithoutControlCharacters(_refuse_control_characters)
"""Refuses NUL, escape sequences and other control characters."""


@dataclass(frozen=True)
class Form:
    """Requires a text to match a pattern; error messages state the requirement in words."""

    pattern: str
    words: str
    most_characters: int | None = None

    def __get_pydantic_core_schema__(self, _: object, __: object) -> CoreSchema:
        text = core_schema.str_schema(pattern=self.pattern, max_length=self.most_characters)
        return core_schema.custom_error_schema(text, "form", custom_error_message=self.words)


NAME: Final = r"^[a-z][a-z0-9_-]{0,39}$"
NAME_WORDS: Final = "must be a name of at most 40 lower-case letters, digits, _ or -, beginning with a letter"
Name = Annotated[str, Form(NAME, NAME_WORDS)]
"""A lower-case name: a letter, then letters, digits, `_` or `-`, 40 characters at most."""

WHOLE = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
"""Accepts 3.0 as 3, as JSON Schema does. It comes after the bounds, so that schemas include them."""
Flag = Annotated[bool, Field(strict=True)]
"""Strictly true or false, not 0 or `yes`."""

NullIsEmpty = BeforeValidator(lambda value: () if value is None else value)
"""Accepts `null` as an empty list, as the Temporal CLI prints it."""

Dollars = Annotated[
    Decimal,
    Field(ge=0, le=10**12, allow_inf_nan=False),
    AfterValidator(lambda amount: amount.quantize(_NANODOLLAR, ROUND_DOWN) if amount % _NANODOLLAR else amount),
    PlainSerializer(float, return_type=float, when_used="json"),
]
"""US dollars in whole nanodollars, rounded down to them; on the wire a JSON number, exact up to a million.

No sum of providers' charges exceeds the bound.
"""

MOST_OVERCHARGE: Final = 1_000.0
Overcharge = Annotated[float, Field(ge=1, le=MOST_OVERCHARGE)]
"""Observed ratio of a call's cost to its worst case, at most a thousand; beyond that, no budget suffices."""


def round_up_dollars(amount: Decimal) -> Decimal:
    """Round an amount up to whole nanodollars, the unit of the budget ledger."""
    return amount.quantize(_NANODOLLAR, rounding=ROUND_UP)
