"""The payload codec that encrypts."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from chargehand.payloads.encryption import PAYLOAD, Encryption, off_the_loop
from chargehand.payloads.errors import SealBroken
from chargehand.payloads.tolerance import UNREADABLE, unreadable

ENCRYPTED: Final = b"binary/encrypted"
_NOT_ENCRYPTED: Final = (
    "encoding: is not encrypted, and only encrypted input is accepted; "
    "send it through the codec server (`temporal --codec-endpoint`) or by a client that has the keys"
)


class EncryptionCodec(PayloadCodec):
    """Encrypts whole payloads, their metadata included.

    A payload that is not encrypted is replaced by one that says so, which the payload converter refuses.
    """

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        seal = self._encryption.seal
        sealed = await off_the_loop(lambda one: seal(one, PAYLOAD), [each.SerializeToString() for each in payloads])
        # For people only: the key id that counts is the authenticated one inside.
        metadata = {"encoding": ENCRYPTED, "encryption-key-id": self._encryption.current.encode()}
        return [Payload(metadata=metadata, data=each) for each in sealed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        encrypted = [each for each in payloads if each.metadata.get("encoding") == ENCRYPTED]
        open_ = self._encryption.open
        opened = iter(await off_the_loop(lambda one: open_(one, PAYLOAD), [each.data for each in encrypted]))
        return [
            _parsed(next(opened)) if each.metadata.get("encoding") == ENCRYPTED else self._plain(each)
            for each in payloads
        ]

    def _plain(self, payload: Payload) -> Payload:
        is_read = self._encryption.accept_plain or payload.metadata.get("encoding") == UNREADABLE
        return payload if is_read else unreadable(_NOT_ENCRYPTED)


def _parsed(content: bytes) -> Payload:
    try:
        return Payload.FromString(content)
    except DecodeError as error:
        raise SealBroken("its content is not a payload") from error
