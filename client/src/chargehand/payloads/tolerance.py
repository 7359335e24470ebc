"""Payloads that cannot be read here, sent by anyone who may write to the namespace.

An error while a worker decodes what was sent to a workflow fails the workflow task, which is then retried for ever. So
such a payload is replaced by one that says why it cannot be read, and the payload converter refuses it like any bad
input. What our own activities and children return is waited for instead: it was paid for.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

from chargehand.errors import BucketError
from chargehand.payloads.errors import StorageNotSet

UNREADABLE: Final = b"chargehand/unreadable"
"""The encoding of a payload whose data says why the original cannot be read; no converter reads it."""

_NO_STORAGE: Final = "TMPRL1105"
_is_strict: Final = ContextVar("_is_strict", default=False)
"""Whether a client or an activity decodes: errors reach the caller."""

_Decode = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]


def unreadable(problem: str) -> Payload:
    """Build the payload that stands for one that cannot be read."""
    return Payload(metadata={"encoding": UNREADABLE}, data=problem.encode())


class TolerantDataConverter(DataConverter):
    """The SDK's converter; what was sent to a workflow and cannot be read does not fail its task.

    The three steps are the ones that the SDK's worker takes for every activation. They are internal to the SDK:
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
        raise  # the storage is away, whatever the payload is
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
    """Whether a worker decodes what a command of the workflow led to; input and messages belong to no command."""
    from temporalio.worker._command_aware_visitor import current_command_info  # noqa: PLC0415  # workers have it loaded

    return current_command_info.get() is not None
