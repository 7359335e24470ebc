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
"""The encoding that a plain payload is given where only encrypted ones are read: no converter knows it."""


class EncryptionCodec(PayloadCodec):
    """Encrypts whole payloads, their metadata included.

    A payload that is not encrypted is marked rather than refused here: an error in a codec makes a workflow task fail
    again and again, and the payload converter can say to the sender what is wrong.
    """

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each payload with the current key."""
        seal = self._encryption.seal
        sealed = await off_the_loop(lambda one: seal(one, PAYLOAD), [each.SerializeToString() for each in payloads])
        # The id of the key is repeated for people; what counts is the one inside, which is authenticated.
        metadata = {"encoding": ENCRYPTED, "encryption-key-id": self._encryption.current.encode()}
        return [Payload(metadata=metadata, data=each) for each in sealed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt each payload.

        Raises:
            KeyMissing: a payload was encrypted with a key that is not listed.
            SealBroken: a payload is not what was encrypted.
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
        raise SealBroken("it holds something else than a payload") from error
