"""The data converter of every client, worker and replayer.

Invalid input never hangs a workflow: it becomes a non-retryable `InvalidInput` that names the field. Otherwise an
invalid payload would fail the workflow task forever. A payload that cannot be decoded here, for whatever reason,
is replaced by one that says why, and refused like any bad input. Results of our own activities and children are waited
for instead, because they were paid for.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from itertools import zip_longest
from typing import Any, Final

from google.protobuf.message import DecodeError
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
    PayloadCodec,
)
from temporalio.exceptions import ApplicationError, FailureError

from chargehand.contracts import Message, Plan, Report, Status, TypedByPeople
from chargehand.contracts.base import LARGEST_STORED_BYTES
from chargehand.contracts.problems import (
    LONGEST_NAME,
    LONGEST_REASON,
    describe_problems,
    field_path,
    join_problems,
    printable,
)
from chargehand.errors import BucketError
from chargehand.payloads.encryption import ENCRYPTED, PAYLOAD, Encryption, off_the_loop
from chargehand.payloads.errors import NO_KEYS, SealBroken, StorageNotSet
from chargehand.payloads.storage import Storage
from chargehand.strict_json import AmbiguousJson, refuse_ambiguous_json, refuse_excess
from chargehand.wire import ErrorType

UNREADABLE: Final = b"chargehand/unreadable"
"""The encoding of a payload whose data says why the original cannot be decoded; no converter accepts it."""

_NO_STORAGE: Final = "TMPRL1105"
_is_strict: Final = ContextVar("_is_strict", default=False)
"""Whether a client or an activity is decoding; errors then reach the caller."""

_Decode = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]
_MOST_PAYLOADS: Final = 100
_UNTYPED_VALUES: Final = 50_000
_READ_BY_CLIENTS: Final = (Report, Status, Plan)
_WRITTEN_WHOLE: Final = (*_READ_BY_CLIENTS, TypedByPeople)
_METADATA: Final = {"encoding": b"json/plain"}
_NOT_ENCRYPTED: Final = (
    "encoding: is not encrypted, and only encrypted input is accepted; "
    "send it through the codec server (`temporal --codec-endpoint`) or by a client that has the keys"
)


def non_retryable_error(kind: str, message: str, *details: object) -> ApplicationError:
    """Build an error that Temporal does not retry."""
    return ApplicationError(message, *details, type=kind, non_retryable=True)


def invalid_input(what: str, problems: Iterable[str]) -> ApplicationError:
    """Build the error for invalid input; each problem names its field."""
    return non_retryable_error(ErrorType.INVALID_INPUT, f"Invalid {what}: {join_problems(problems)}")


_TYPED: Final = TypeAdapter[object](object, config=ConfigDict(ser_json_inf_nan="constants"))


class _JsonConverter(PydanticJSONPlainPayloadConverter):
    """Pydantic's JSON. Input written by people is parsed more strictly than the JSON standard requires.

    Defaults are omitted, since histories hold payloads for as long as they are retained; only payloads that people
    write or clients read contain all fields.
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
            raise invalid_input(name, [f"{field_path(error.where)}: {error.problem}"]) from None
        except ValueError as error:
            raise invalid_input(name, [f"input: {error}"]) from None


def _refuse_bad_json(data: bytes, model: type[BaseModel] | None) -> None:
    """Check the size of anything that clients can send, and parse input from people strictly."""
    if model is None:
        refuse_excess(data, LARGEST_STORED_BYTES, _UNTYPED_VALUES)
    elif issubclass(model, Message):
        refuse_excess(data, model.largest_bytes, model.most_values)
    if model and issubclass(model, TypedByPeople):
        refuse_ambiguous_json(data)


def _as_model(type_hint: type | None) -> type[BaseModel] | None:
    return type_hint if isinstance(type_hint, type) and issubclass(type_hint, BaseModel) else None


_PLAIN: Final = _JsonConverter()
"""Shared: stateless and slow to create, and the SDK creates a converter per activity and workflow."""


class PayloadConverter(CompositePayloadConverter):
    """Temporal's converters with pydantic's JSON; undecodable and oversized payloads raise typed errors."""

    largest_bytes = 2_000_000
    """Temporal's limit is 2 MiB; it refuses larger payloads in a way that the SDK retries forever."""
    largest_result_bytes = 2_000_000
    """The same for what clients read."""

    def __init__(self) -> None:
        super().__init__(
            *(
                _PLAIN if isinstance(converter, JSONPlainPayloadConverter) else converter
                for converter in DefaultPayloadConverter.default_encoding_payload_converters
            )
        )

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Serialise values; refuse oversized ones before anything is sent."""
        payloads = super().to_payloads(values)
        for payload, value in zip(payloads, values, strict=True):
            most = self.largest_result_bytes if isinstance(value, _READ_BY_CLIENTS) else self.largest_bytes
            if len(payload.data) > most:
                raise non_retryable_error(
                    ErrorType.PAYLOAD_TOO_LARGE,
                    f"A payload of {len(payload.data):,} bytes is too large; the limit is {most:,}.",
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
            raise invalid_input(name, [printable(payload.data.decode(errors="replace"), LONGEST_REASON)])
        if model and not isinstance(self.converters.get(encoding), _JsonConverter):
            if encoding == ENCRYPTED:
                raise invalid_input(name, [f"encoding: {NO_KEYS}"])
            encoding_name = printable(encoding.decode(errors="replace"), LONGEST_NAME) or "missing"
            raise invalid_input(name, [f"encoding: is {encoding_name}; send JSON as json/plain"])


class _ExternalPayloadConverter(PayloadConverter):
    """For external storage of large payloads, except those that clients read."""

    largest_bytes = LARGEST_STORED_BYTES


class _ExternalResultConverter(_ExternalPayloadConverter):
    """For external storage of results too."""

    largest_result_bytes = LARGEST_STORED_BYTES


class EncryptionCodec(PayloadCodec):
    """Encrypts whole payloads, their metadata included.

    An unencrypted payload is replaced by one that says so, which the payload converter refuses.
    """

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        seal = self._encryption.seal
        sealed = await off_the_loop(lambda one: seal(one, PAYLOAD), [each.SerializeToString() for each in payloads])
        # Informational; the authoritative key id is the authenticated one inside.
        metadata = {"encoding": ENCRYPTED, "encryption-key-id": self._encryption.current.encode()}
        return [Payload(metadata=metadata, data=each) for each in sealed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        encrypted = [each for each in payloads if each.metadata.get("encoding") == ENCRYPTED]
        open_ = self._encryption.open
        opened = iter(await off_the_loop(lambda one: open_(one, PAYLOAD), [each.data for each in encrypted]))
        return [
            _parse(next(opened)) if each.metadata.get("encoding") == ENCRYPTED else self._plain(each)
            for each in payloads
        ]

    def _plain(self, payload: Payload) -> Payload:
        is_read = self._encryption.accept_plain or payload.metadata.get("encoding") == UNREADABLE
        return payload if is_read else unreadable(_NOT_ENCRYPTED)


def _parse(content: bytes) -> Payload:
    try:
        return Payload.FromString(content)
    except DecodeError as error:
        raise SealBroken("its content is not a payload") from error


def unreadable(problem: str) -> Payload:
    """Build the placeholder of a payload that cannot be decoded."""
    return Payload(metadata={"encoding": UNREADABLE}, data=problem.encode())


class _TolerantDataConverter(DataConverter):
    """The SDK's converter, except that an undecodable message to a workflow does not fail its task.

    The three steps are those of the SDK's worker for every activation. They are internal to the SDK:
    tests/workflows/test_bad_requests.py fails if they change.
    """

    async def decode(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """Decode for a client or an activity."""
        token = _is_strict.set(True)
        try:
            return await super().decode(payloads, type_hints)
        finally:
            _is_strict.reset(token)

    async def _decode_reference_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await _readable(super()._decode_reference_payload_sequence, payloads)

    async def _external_retrieve_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await _readable(super()._external_retrieve_payload_sequence, payloads)

    async def _decode_payload_sequence(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await _readable(super()._decode_payload_sequence, payloads)


async def _readable(decode: _Decode, payloads: Sequence[Payload]) -> list[Payload]:
    try:
        return await decode(payloads)
    except (OSError, BucketError):
        raise  # the storage is unavailable, which says nothing about the payload
    except Exception as error:
        problem = StorageNotSet() if _NO_STORAGE in str(error) else error
        if _is_strict.get() or _is_result():
            if problem is error:
                raise
            raise problem from error
        if len(payloads) == 1:
            return [unreadable(f"input: cannot be read here: {problem}")]
    return [one for payload in payloads for one in await _readable(decode, [payload])]


def _is_result() -> bool:
    """Whether a worker is decoding a workflow command's result; input and messages belong to no command."""
    from temporalio.worker._command_aware_visitor import current_command_info  # noqa: PLC0415  # workers have it loaded

    return current_command_info.get() is not None


def data_converter(encryption: Encryption | None = None, storage: Storage | None = None) -> DataConverter:
    """Build the data converter of every client, worker and replayer.

    Clients and workers of the same sessions need the same encryption keys and the same storage.
    """
    return _TolerantDataConverter(
        payload_converter_class=_payload_converter(storage),
        payload_codec=EncryptionCodec(encryption) if encryption else None,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes if encryption else DefaultFailureConverter,
        external_storage=storage.external() if storage else None,
    )


def _payload_converter(storage: Storage | None) -> type[PayloadConverter]:
    if storage is None:
        return PayloadConverter
    return _ExternalResultConverter if storage.results else _ExternalPayloadConverter
