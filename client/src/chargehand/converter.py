"""The data converter of every client, worker and replayer.

Invalid input never hangs a workflow: it becomes a non-retryable `InvalidInput` that names the field. Without this, an
invalid payload would fail the workflow task again and again.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.exceptions import ApplicationError, FailureError

from chargehand.contracts import Message, Plan, Report, Status, TypedByPeople
from chargehand.contracts.limits import DURATION_EXPECTED
from chargehand.errors import InvalidInput
from chargehand.payloads.codec import ENCRYPTED, EncryptionCodec
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.payloads.tolerance import UNREADABLE, TolerantDataConverter
from chargehand.strict_json import AmbiguousJson, refuse_ambiguous_json, refuse_excess
from chargehand.wire import ErrorType

_Model = TypeVar("_Model", bound=BaseModel)
_MOST_PROBLEMS: Final = 20
_MOST_READ: Final = 20_000
"""More problems are not even listed: pydantic builds each one to list any."""
_MOST_PAYLOADS: Final = 100
_UNTYPED_BYTES: Final = 50 << 20
_UNTYPED_VALUES: Final = 50_000
_LONGEST_NAME: Final = 60
_LONGEST_REASON: Final = 500
_READ_BY_CLIENTS: Final = (Report, Status, Plan)
_WRITTEN_WHOLE: Final = (*_READ_BY_CLIENTS, TypedByPeople)
_METADATA: Final = {"encoding": b"json/plain"}
_KNOWN: Final = "; known are "
_NO_KEYS: Final = (
    "encoding: is encrypted; "
    "set CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID as they are set for the workers"
)


def invalid_input(what: str, problems: Iterable[str]) -> ApplicationError:
    """Build the error for input that cannot be used; each problem names its field."""
    return ApplicationError(
        f"Invalid {what}: {join_problems(problems)}", type=ErrorType.INVALID_INPUT, non_retryable=True
    )


def contract(kind: type[_Model], **fields: object) -> _Model:
    """Build a contract from what a caller passes; None is absent. What is invalid raises `InvalidInput`."""
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        problems = join_problems(describe_problems(error, kind))
        raise InvalidInput(f"Invalid {kind.__name__}: {problems}") from error


def join_problems(problems: Iterable[str]) -> str:
    """Write problems as one line; there may be any number of them, of any length, and not all of them are written."""
    listed = list(problems)
    # One more than are described, which may say how many more there are.
    omitted = len(listed) - _MOST_PROBLEMS - 1
    written = [printable(each, _LONGEST_REASON) for each in listed[: _MOST_PROBLEMS + 1]]
    return "; ".join([*written, f"and {omitted} more"] if omitted > 0 else written)


def describe_problems(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """Describe each problem of a validation error as `field: problem`, without quoting the input."""
    if error.error_count() > _MOST_READ:
        return [f"input: has {error.error_count():,} problems, too many to list"]
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    described = [
        f"{_path(problem['loc'])}: {_sentence(problem['type'], problem['msg'], problem['loc'], model)}"
        for problem in problems[:_MOST_PROBLEMS]
    ]
    omitted = len(problems) - len(described)
    return [*_listing_once(described), *([f"and {omitted} more"] if omitted else [])]


def _listing_once(described: Iterable[str]) -> Iterator[str]:
    """List the known fields with the first problem only that has the same ones."""
    told: set[str] = set()
    for each in described:
        problem, _, known = each.partition(_KNOWN)
        yield problem if known in told else each
        told.update([known] if known else [])


def _path(location: Sequence[int | str]) -> str:
    return ".".join(printable(str(part), _LONGEST_NAME) for part in location) or "input"


def printable(text: str, most: int) -> str:
    """Shorten untrusted text for a message, and replace its control characters."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(character if character.isprintable() else "\ufffd" for character in short)


def _sentence(kind: str, message: str, location: tuple[int | str, ...], model: type[BaseModel] | None) -> str:
    if kind == "missing":
        return "is required"
    if kind == "time_delta_parsing":
        return DURATION_EXPECTED
    if kind != "extra_forbidden":
        return message.removeprefix("Value error, ")
    parent = _model_at(model, location[:-1])
    if parent is None:
        return "is not a known field"
    known = dict(_known_fields(parent))
    close = get_close_matches(str(location[-1])[:_LONGEST_NAME], known.values(), n=1)
    meant = next((path for path, name in known.items() if name in close), None)
    if meant is not None:
        return f"is not a known field; did you mean '{meant}'?"
    return f"is not a known field{_KNOWN}{', '.join(parent.model_fields)}"


def _known_fields(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """List (path, name) of the fields of a model and of the models directly in it."""
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
    """Find the model of a field, also within an optional or a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


_TYPED: Final = TypeAdapter[object](object, config=ConfigDict(ser_json_inf_nan="constants"))


class _JsonConverter(PydanticJSONPlainPayloadConverter):
    """JSON by pydantic; input typed by people is parsed more strictly than the JSON standard requires.

    Fields that have their default are not written, since histories hold payloads for as long as they are kept; only
    what people write, and what clients read, has all of them.
    """

    def to_payload(self, value: Any) -> Payload:
        is_whole = isinstance(value, _WRITTEN_WHOLE)
        return Payload(metadata=_METADATA, data=_TYPED.dump_json(value, exclude_defaults=not is_whole))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        model = _as_model(type_hint)
        name = model.__name__ if model else "input"
        try:
            _refuse_bad_json(payload.data, model)
            return super().from_payload(payload, type_hint)
        except ValidationError as error:
            raise invalid_input(name, describe_problems(error, model)) from None
        except AmbiguousJson as error:
            raise invalid_input(name, [f"{_path(error.where)}: {error.problem}"]) from None
        except ValueError as error:
            raise invalid_input(name, [f"input: {error}"]) from None


def _refuse_bad_json(data: bytes, model: type[BaseModel] | None) -> None:
    """Measure what any client can send, unexpected values included; check closely what people write."""
    if model is None:
        refuse_excess(data, _UNTYPED_BYTES, _UNTYPED_VALUES)
    elif issubclass(model, Message):
        refuse_excess(data, model.largest_bytes, model.most_values)
    if model and issubclass(model, TypedByPeople):
        refuse_ambiguous_json(data)


def _as_model(type_hint: type | None) -> type[BaseModel] | None:
    return type_hint if isinstance(type_hint, type) and issubclass(type_hint, BaseModel) else None


_PLAIN: Final = _JsonConverter()
"""Has no state, and is slow to make: the SDK makes a payload converter for every activity and workflow."""


class PayloadConverter(CompositePayloadConverter):
    """Temporal's own converters with pydantic's JSON; unreadable and oversized payloads are typed errors."""

    largest_bytes = 2_000_000
    """Temporal's limit is 2 MiB; it refuses larger payloads in a way that is retried forever."""
    largest_result_bytes = 2_000_000
    """The same of what clients read."""

    def __init__(self) -> None:
        super().__init__(
            *(
                _PLAIN if isinstance(converter, JSONPlainPayloadConverter) else converter
                for converter in DefaultPayloadConverter.default_encoding_payload_converters
            )
        )

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Serialise values; refuse one that is too large before anything is sent."""
        payloads = super().to_payloads(values)
        for payload, value in zip(payloads, values, strict=True):
            most = self.largest_result_bytes if isinstance(value, _READ_BY_CLIENTS) else self.largest_bytes
            if len(payload.data) > most:
                raise ApplicationError(
                    f"A payload of {len(payload.data):,} bytes is too large; the limit is {most:,}.",
                    type=ErrorType.PAYLOAD_TOO_LARGE,
                    non_retryable=True,
                )
        return payloads

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Deserialise payloads; the payload of a model must be JSON."""
        hints = type_hints or []
        if len(payloads) > _MOST_PAYLOADS:
            raise invalid_input("input", [f"input: there are {len(payloads):,} payloads; send one JSON object"])
        for payload, type_hint in zip_longest(payloads, hints):
            if payload is not None:
                self._require_json(payload, _as_model(type_hint))
        try:
            return super().from_payloads(payloads, type_hints)
        except FailureError:
            raise
        except Exception as error:
            raise invalid_input("input", ["encoding: is unknown; send JSON as json/plain"]) from error

    def _require_json(self, payload: Payload, model: type[BaseModel] | None) -> None:
        name = model.__name__ if model else "input"
        encoding = payload.metadata.get("encoding", b"")
        if encoding == UNREADABLE:
            raise invalid_input(name, [printable(payload.data.decode(errors="replace"), _LONGEST_REASON)])
        if model and not isinstance(self.converters.get(encoding), _JsonConverter):
            if encoding == ENCRYPTED:
                raise invalid_input(name, [_NO_KEYS])
            found = printable(encoding.decode(errors="replace"), _LONGEST_NAME) or "missing"
            raise invalid_input(name, [f"encoding: is {found}; send JSON as json/plain"])


class _ExternalPayloadConverter(PayloadConverter):
    """For external storage, which takes large payloads but for what clients read."""

    largest_bytes = 50 << 20


class _ExternalResultConverter(_ExternalPayloadConverter):
    """For external storage that takes results too."""

    largest_result_bytes = 50 << 20


def data_converter(encryption: Encryption | None = None, storage: Storage | None = None) -> DataConverter:
    """Build the one data converter; every client, worker and replayer uses it.

    Clients and workers of the same sessions need the same encryption keys and the same storage.
    """
    return TolerantDataConverter(
        payload_converter_class=_payload_converter(storage),
        payload_codec=EncryptionCodec(encryption) if encryption else None,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes if encryption else DefaultFailureConverter,
        external_storage=storage.external() if storage else None,
    )


def _payload_converter(storage: Storage | None) -> type[PayloadConverter]:
    if storage is None:
        return PayloadConverter
    return _ExternalResultConverter if storage.results else _ExternalPayloadConverter
