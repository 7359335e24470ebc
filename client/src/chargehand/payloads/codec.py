"""The payload codec that encrypts."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from chargehand.payloads.encryption import PAYLOAD, Encryption, off_the_loop
from chargehand.payloads.errors import SealBroken

ENCRYPTED: Final = b"binary/encrypted"
NOT_ENCRYPTED: Final = b"chargehand/not-encrypted"
"""Marks a plain payload where only encrypted ones are read; no converter knows this encoding."""


class EncryptionCodec(PayloadCodec):
    """Encrypts whole payloads, their metadata included.

    A payload that is not encrypted is marked here and refused by the payload converter: an error in a codec would fail
    the workflow task again and again, and the converter can tell the sender what is wrong.
    """

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each payload with the current key."""
        seal = self._encryption.seal
        sealed = await off_the_loop(lambda one: seal(one, PAYLOAD), [each.SerializeToString() for each in payloads])
        # For people only: the key id that counts is the authenticated one inside.
        metadata = {"encoding": ENCRYPTED, "encryption-key-id": self._encryption.current.encode()}
        return [Payload(metadata=metadata, data=each) for each in sealed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt each payload.

        Raises:
            KeyMissing: a payload was encrypted with a key that is not listed.
            SealBroken: a payload was changed since it was encrypted.
        """
        encrypted = [each for each in payloads if each.metadata.get("encoding") == ENCRYPTED]
        open_ = self._encryption.open
        opened = iter(await off_the_loop(lambda one: open_(one, PAYLOAD), [each.data for each in encrypted]))
        return [
            _parsed(next(opened)) if each.metadata.get("encoding") == ENCRYPTED else self._plain(each)
            for each in payloads
        ]

    def _plain(self, payload: Payload) -> Payload:
        return payload if self._encryption.accept_plain else Payload(metadata={"encoding": NOT_ENCRYPTED})


def _parsed(content: bytes) -> Payload:
    try:
        return Payload.FromString(content)
    except DecodeError as error:
        raise SealBroken("its content is not a payload") from error
