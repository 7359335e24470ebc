"""The data converter of every client, worker and replayer.

Bad input never hangs a workflow: whatever cannot be read becomes a non-retryable `InvalidInput` that names the field.
Without this a payload that does not fit is an endlessly failing workflow task.
"""

import dataclasses
import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.exceptions import ApplicationError

from chargehand.contracts import TypedByPeople
from chargehand.wire import ErrorType


def invalid_input(what: str, problems: Sequence[str]) -> ApplicationError:
    """Build the error for input that cannot be used; each problem names its field."""
    return ApplicationError(f"Invalid {what}: {'; '.join(problems)}", type=ErrorType.INVALID_INPUT, non_retryable=True)


def describe_problems(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """Say each problem of a validation error as `field: what is wrong`, without repeating what was typed."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return [
        f"{_path(problem['loc'])}: {_sentence(problem['type'], problem['msg'], problem['loc'], model)}"
        for problem in problems
    ]


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "input"


def _sentence(kind: str, message: str, location: tuple[int | str, ...], model: type[BaseModel] | None) -> str:
    if kind == "missing":
        return "is required"
    if kind != "extra_forbidden":
        return message.removeprefix("Value error, ")
    known = _fields_at(model, location[:-1])
    close = get_close_matches(str(location[-1]), known, n=1)
    return (
        f"is not a known field; did you mean '{close[0]}'?"
        if close
        else f"is not a known field; known are {', '.join(known)}"
    )


def _fields_at(model: type[BaseModel] | None, location: tuple[int | str, ...]) -> list[str]:
    for part in location:
        field = model.model_fields.get(str(part)) if model else None
        if isinstance(part, str):
            annotation = field.annotation if field else None
            model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return list(model.model_fields) if model else []


class _JsonConverter(PydanticJSONPlainPayloadConverter):
    """JSON by pydantic; what people type is read more strictly than JSON asks."""

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        model = type_hint if isinstance(type_hint, type) and issubclass(type_hint, BaseModel) else None
        name = model.__name__ if model else "input"
        try:
            if model and issubclass(model, TypedByPeople):
                _refuse_ambiguous_json(payload.data)
            return super().from_payload(payload, type_hint)
        except ValidationError as error:
            raise invalid_input(name, describe_problems(error, model)) from None
        except RecursionError:
            raise invalid_input(name, ["input: is nested too deeply"]) from None
        except ValueError as error:
            raise invalid_input(name, [f"input: {error}"]) from None


def _refuse_ambiguous_json(data: bytes) -> None:
    """Raise ValueError for JSON whose meaning depends on who reads it: repeated keys, NaN, Infinity."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(f"the key '{_first_repeated([key for key, _ in pairs])}' occurs more than once")
        return found

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number in JSON")

    try:
        json.loads(data, object_pairs_hook=unique, parse_constant=refuse)
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None


def _first_repeated(keys: list[str]) -> str:
    return next(key for position, key in enumerate(keys) if key in keys[:position])


class PayloadConverter(CompositePayloadConverter):
    """Temporal's own converters with pydantic's JSON, refusing what it cannot read by a typed error."""

    def __init__(self) -> None:
        plain = _JsonConverter()
        super().__init__(
            *(
                plain if isinstance(converter, JSONPlainPayloadConverter) else converter
                for converter in DefaultPayloadConverter.default_encoding_payload_converters
            )
        )

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        try:
            return super().from_payloads(payloads, type_hints)
        except KeyError as error:
            raise invalid_input("input", [f"encoding: {error.args[0]}; send JSON as json/plain"]) from None


def data_converter() -> DataConverter:
    """Build the one data converter; every client, worker and replayer uses it."""
    return dataclasses.replace(DataConverter.default, payload_converter_class=PayloadConverter)
